//! The time, on both clocks.

use terse_core::{Clock, Timestamp};

/// A moment on both clocks: dates of links are compared with the wall clock, deadlines and times to
/// live with the steady clock, which neither NTP nor an operator can set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClockReading {
    /// In milliseconds since 1970.
    pub wall_ms: i64,
    /// In milliseconds since some point of this process.
    pub steady_ms: i64,
}

impl ClockReading {
    pub(crate) fn of(clock: &Clock) -> Self {
        Self { wall_ms: clock.now().as_ms(), steady_ms: clock.steady_micros() / 1000 }
    }

    /// The time on the wall clock.
    pub(crate) fn wall(self) -> Timestamp {
        Timestamp::from_ms(self.wall_ms)
    }
}

/// Both clocks show the same time, for tests.
impl From<Timestamp> for ClockReading {
    fn from(time: Timestamp) -> Self {
        Self { wall_ms: time.as_ms(), steady_ms: time.as_ms() }
    }
}
