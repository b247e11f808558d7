//! The clock, passed in so that tests can control the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::time::{Timestamp, system_now};

/// Returns the time in whole milliseconds, the precision of every store. Tests advance it.
///
/// There are two clocks. The wall clock tells dates, such as the expiry of a link; an operator or
/// NTP can set it to any time. The steady clock measures how long something takes: deadlines, times
/// to live and limits use it, and setting the wall clock changes none of them.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// How far tests have advanced both clocks, and how far they have set the wall clock off.
    ahead_ms: Arc<AtomicI64>,
    wall_off_ms: Arc<AtomicI64>,
    /// In a simulation, the time at which both clocks stand until they are advanced.
    frozen_at: Option<Timestamp>,
}

impl Clock {
    /// A clock that moves only when [`Clock::advance`] or [`Clock::shift_wall_clock`] moves it, for
    /// simulations.
    pub fn frozen(at: Timestamp) -> Self {
        Self { frozen_at: Some(at), ..Self::default() }
    }

    /// The current time, truncated to milliseconds so that a response equals the stored value.
    pub fn now(&self) -> Timestamp {
        let now = self.frozen_at.unwrap_or_else(system_now);
        Timestamp::from_ms(now.as_ms().saturating_add(self.off_ms()))
    }

    /// How far tests have moved the wall clock.
    fn off_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::Relaxed) + self.wall_off_ms.load(Ordering::Relaxed)
    }

    /// Sets the wall clock forward or back, for all its clones. The steady clock does not change.
    pub fn shift_wall_clock(&self, by_ms: i64) {
        self.wall_off_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Advances both clocks, for all its clones.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// The current wall time in microseconds.
    pub fn now_micros(&self) -> i64 {
        if self.frozen_at.is_some() {
            return self.now().as_ms().saturating_mul(1000);
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_secs().cast_signed() * 1_000_000
            + i64::from(since.subsec_micros())
            + self.off_ms() * 1000
    }

    /// The time since a fixed point, which is the same for all clocks of a process. Monotonic:
    /// changes of the system time do not affect it. Tests advance it as well.
    pub fn steady(&self) -> Duration {
        Duration::from_nanos(self.steady_nanos().unsigned_abs())
    }

    /// The time of [`Clock::steady`] in nanoseconds: a redirect from memory takes less than a
    /// microsecond. Every redirect reads it, so it asks the kernel itself: `Instant` would also
    /// check and subtract.
    pub fn steady_nanos(&self) -> i64 {
        let ahead = self.ahead_ms.load(Ordering::Relaxed).saturating_mul(1_000_000);
        if self.frozen_at.is_some() {
            return ahead;
        }
        let since = clock_gettime(ClockId::Monotonic);
        (since.tv_sec * 1_000_000_000 + since.tv_nsec).saturating_add(ahead)
    }

    /// The time of [`Clock::steady`] in microseconds.
    pub fn steady_micros(&self) -> i64 {
        self.steady_nanos() / 1000
    }
}
