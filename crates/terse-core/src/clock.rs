//! The time of day, as a thing that is handed in.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::when::{Moment, machine_now};

/// Tells the time in whole milliseconds, the precision every store keeps. Tests turn it forward.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    ahead_ms: Arc<AtomicI64>,
}

impl Clock {
    /// Now, cut to the millisecond so that what is answered equals what is stored.
    pub fn now(&self) -> Moment {
        Moment::from_ms(machine_now().as_ms().saturating_add(self.ahead_ms.load(Ordering::Relaxed)))
    }

    /// Turns the clock forward, for every holder of a clone.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// How far this clock runs ahead of the machine's, in milliseconds: for those who read the time by themselves.
    pub fn ahead_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::Relaxed)
    }
}
