//! How full the journal is, and how long serving threads pause for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terse_core::clicks::JournalSignals;

/// The longest pause after one sweep.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Shared by the allocator, which knows how full the journal is, and the serving threads.
#[derive(Debug)]
pub(super) struct Pressure {
    signals: Arc<JournalSignals>,
    /// The pause after a sweep, in milliseconds.
    pause_ms: AtomicU64,
    /// Whether the last segment could not be made for another reason than the size of the journal.
    disk_fails: AtomicBool,
    stopped: AtomicBool,
}

impl Pressure {
    pub(super) fn new(signals: Arc<JournalSignals>) -> Self {
        let (pause_ms, disk_fails, stopped) = Default::default();
        Self { signals, pause_ms, disk_fails, stopped }
    }

    /// Notes how much of its limit the journal takes.
    pub(super) fn set_size(&self, bytes: u64, limit: u64) {
        let over = u128::from(bytes.saturating_sub(limit / 2));
        // From no pause at half of the limit to the longest one at three quarters.
        let pause = MAX_PAUSE.as_millis() * over / u128::from((limit / 4).max(1));
        let pause = pause.min(MAX_PAUSE.as_millis()) as u64;
        self.pause_ms.store(pause, Ordering::Relaxed);
    }

    /// Whether serving threads pause.
    pub(super) fn is_high(&self) -> bool {
        self.pause_ms.load(Ordering::Relaxed) > 0
    }

    /// Notes whether the disk refuses segments.
    pub(super) fn set_disk_fails(&self, fails: bool) {
        self.disk_fails.store(fails, Ordering::Relaxed);
    }

    /// The journal is stopped: no more segments are made.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// How often clicks were erased.
    pub(super) fn erasures(&self) -> u64 {
        self.signals.erasures()
    }

    /// How long a serving thread is to pause now. Never while the store accepts nothing.
    pub(super) fn pause(&self) -> Duration {
        match self.pause_ms.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            _ if !self.signals.is_accepting() => Duration::ZERO,
            pause => Duration::from_millis(pause),
        }
    }

    /// Whether a segment will come, so that a thread without one is to wait.
    pub(super) fn will_pass(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
            && !self.disk_fails.load(Ordering::Relaxed)
            && self.signals.is_accepting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuller_journal_pauses_longer_and_only_while_the_store_accepts() {
        let signals = Arc::new(JournalSignals::default());
        let pressure = Pressure::new(Arc::clone(&signals));
        let at = |bytes| {
            pressure.set_size(bytes, 4000);
            pressure.pause().as_millis()
        };
        assert_eq!((at(9000), pressure.will_pass()), (0, false));
        signals.store_accepts();
        let paused = [0, 2000, 2001, 2500, 3000, 9000].map(at);
        assert_eq!((paused, pressure.will_pass()), ([0, 0, 1, 500, 1000, 1000], true));
        pressure.set_disk_fails(true);
        assert!(!pressure.will_pass());
        pressure.set_disk_fails(false);
        assert!(pressure.will_pass());
        signals.end();
        assert_eq!((at(9000), pressure.will_pass()), (0, false));
    }
}
