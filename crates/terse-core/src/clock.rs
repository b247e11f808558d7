//! The clock, passed in so that tests can control the time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::time::{Timestamp, machine_now};

/// Returns the time in whole milliseconds, the precision of every store. Tests advance it.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    ahead_ms: Arc<AtomicI64>,
}

impl Clock {
    /// The current time, truncated to milliseconds so that a response equals the stored value.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_ms(
            machine_now().as_ms().saturating_add(self.ahead_ms.load(Ordering::Relaxed)),
        )
    }

    /// Advances the clock for all its clones.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// The current time in microseconds, for measuring durations.
    pub fn now_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_secs().cast_signed() * 1_000_000
            + i64::from(since.subsec_micros())
            + self.ahead_ms.load(Ordering::Relaxed) * 1000
    }

    /// The time since a fixed point in this process. Monotonic: changes of the system time do not
    /// affect it. Tests advance it as well.
    pub fn steady(&self) -> Duration {
        // Static, so that all clocks of a process count from the same point; it never changes.
        static BEGINNING: OnceLock<Instant> = OnceLock::new();
        let ahead = u64::try_from(self.ahead_ms.load(Ordering::Relaxed)).unwrap_or(0);
        BEGINNING.get_or_init(Instant::now).elapsed() + Duration::from_millis(ahead)
    }
}
