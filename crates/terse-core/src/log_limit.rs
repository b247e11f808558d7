//! Limits how often one cause is logged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Log lines of one cause in a minute, unless another number is set.
const LINES: u32 = 3;
const WINDOW: Duration = Duration::from_mins(1);

/// Allows a few log lines a minute, and counts the others.
#[derive(Debug)]
pub struct LogLimit {
    lines: u64,
    /// The minute in the upper 32 bits, and the lines in it.
    window: AtomicU64,
    suppressed: AtomicU64,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self::new(LINES)
    }
}

impl LogLimit {
    /// A limit of this many lines a minute.
    pub fn new(lines: u32) -> Self {
        Self { lines: lines.into(), window: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Whether to log now. Returns how many lines were left out since the last one. `now` is the
    /// time of a [`Clock::steady`](crate::Clock::steady).
    pub fn admit(&self, now: Duration) -> Option<u64> {
        let minute = (now.as_secs() / WINDOW.as_secs()) & u64::from(u32::MAX);
        let lines = self.window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |window| {
            let lines = if window >> 32 == minute { window & u64::from(u32::MAX) } else { 0 };
            (lines < self.lines).then_some((minute << 32) | (lines + 1))
        });
        if lines.is_ok() {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_lines_a_minute_are_logged_and_the_others_counted() {
        let limit = LogLimit::default();
        let at = |second: u64| limit.admit(Duration::from_secs(second));
        assert_eq!([0, 1, 2].map(at), [Some(0); 3]);
        assert_eq!([3, 30, 59].map(at), [None; 3]);
        assert_eq!([60, 61, 62].map(at), [Some(3), Some(0), Some(0)]);
        assert_eq!(at(63), None);
        assert_eq!(at(600), Some(1));
    }
}
