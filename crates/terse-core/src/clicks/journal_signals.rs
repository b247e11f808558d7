//! What the reader of a journal tells the threads that write it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long one accepted call counts: longer than the next call may take.
const ACCEPTS_FOR: Duration = Duration::from_secs(45);

/// How long calls may fail before the store counts as refusing: one failure is no reason to lose
/// clicks.
const FAILS_AFTER: Duration = Duration::from_secs(2);

/// Tells the writers of a journal whether its reader makes progress, and which segments to finish.
///
/// While the store accepts clicks, writers wait for the reader rather than lose a click; otherwise
/// they never wait. After an erasure they finish their segments, so that the reader can delete what
/// was erased: it deletes whole segments.
#[derive(Debug)]
pub struct JournalSignals {
    started: Instant,
    /// When the store last accepted a call, in milliseconds since `started`, plus one; 0 if it has
    /// accepted none, or the reader has ended.
    accepted: AtomicU64,
    /// Since when calls have failed, in the same way; 0 if the last one succeeded.
    failing: AtomicU64,
    erasures: AtomicU64,
}

impl Default for JournalSignals {
    fn default() -> Self {
        let (accepted, failing, erasures) = Default::default();
        Self { started: Instant::now(), accepted, failing, erasures }
    }
}

impl JournalSignals {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The store accepted a call.
    pub fn store_accepts(&self) {
        self.failing.store(0, Ordering::Relaxed);
        self.accepted.store(self.now(), Ordering::Relaxed);
    }

    /// A call failed, of the store or of the journal's files.
    pub fn store_fails(&self) {
        let _ = self.failing.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The reader has ended: nothing is counted any more.
    pub fn end(&self) {
        self.accepted.store(0, Ordering::Relaxed);
    }

    /// Clicks were erased: segments that may hold some of them are to be finished.
    pub fn erased(&self) {
        self.erasures.fetch_add(1, Ordering::Relaxed);
    }

    /// How many erasures there were.
    pub fn erasures(&self) -> u64 {
        self.erasures.load(Ordering::Relaxed)
    }

    /// Whether the store accepts clicks, if slowly.
    pub fn is_accepting(&self) -> bool {
        let within = |at: u64, limit: Duration| {
            u128::from(self.now().saturating_sub(at)) < limit.as_millis()
        };
        let accepted = self.accepted.load(Ordering::Relaxed);
        let failing = self.failing.load(Ordering::Relaxed);
        accepted != 0
            && within(accepted, ACCEPTS_FOR)
            && (failing == 0 || within(failing, FAILS_AFTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_accepts_from_its_first_answer_until_it_has_failed_for_a_while() {
        let early = Instant::now().checked_sub(FAILS_AFTER * 2).unwrap();
        let signals = JournalSignals { started: early, ..JournalSignals::default() };
        assert!(!signals.is_accepting());
        signals.store_accepts();
        assert!(signals.is_accepting());
        signals.store_fails();
        assert!(signals.is_accepting(), "one failure is not enough");
        signals.failing.store(1, Ordering::Relaxed);
        signals.store_fails();
        assert!(!signals.is_accepting());
        signals.store_accepts();
        assert!(signals.is_accepting());
        signals.end();
        assert!(!signals.is_accepting());
    }

    #[test]
    fn a_store_that_has_not_answered_for_long_does_not_accept() {
        let early = Instant::now().checked_sub(ACCEPTS_FOR * 2).unwrap();
        let signals = JournalSignals { started: early, ..JournalSignals::default() };
        signals.accepted.store(1, Ordering::Relaxed);
        assert!(!signals.is_accepting());
    }
}
