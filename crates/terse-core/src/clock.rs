//! The time of day, as a thing that is handed in.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::time::{Timestamp, machine_now};

/// Tells the time in whole milliseconds, the precision every store keeps. Tests turn it forward.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    ahead_ms: Arc<AtomicI64>,
}

impl Clock {
    /// Now, cut to the millisecond so that what is answered equals what is stored.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_ms(
            machine_now().as_ms().saturating_add(self.ahead_ms.load(Ordering::Relaxed)),
        )
    }

    /// Turns the clock forward, for every holder of a clone.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Now, in microseconds, for those who measure how long something takes as well as when it
    /// happens.
    pub fn now_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_secs().cast_signed() * 1_000_000
            + i64::from(since.subsec_micros())
            + self.ahead_ms.load(Ordering::Relaxed) * 1000
    }

    /// How much time has passed since some moment of this process. Goes forward evenly, whatever is
    /// done to the machine's time of day; tests turn it forward as well.
    pub fn steady(&self) -> Duration {
        static BEGINNING: OnceLock<Instant> = OnceLock::new();
        let ahead = u64::try_from(self.ahead_ms.load(Ordering::Relaxed)).unwrap_or(0);
        BEGINNING.get_or_init(Instant::now).elapsed() + Duration::from_millis(ahead)
    }
}
