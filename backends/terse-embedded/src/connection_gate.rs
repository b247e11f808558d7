//! Counts open connections, so that all of them can be closed at once.
//!
//! SQLite stores, in memory that all connections share, how much of the log it has copied into the
//! file. This count includes pages that were written but never synced, so it is wrong after a
//! failed sync. SQLite discards it only when no connection is left; the next connection then reads
//! the log from its beginning.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longer than any single read takes.
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct ConnectionGate {
    /// How many times all connections were dismissed.
    term: AtomicU64,
    counts: Mutex<Counts>,
    left: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Connections of the current term.
    present: usize,
    /// Connections of earlier terms that are still open.
    leaving: usize,
}

/// Permits one connection. Drop it after the connection.
pub(crate) struct Permit {
    connection_gate: Arc<ConnectionGate>,
    term: u64,
}

impl ConnectionGate {
    /// Waits until all dismissed connections are closed; `None` if one of them stays open.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Permit> {
        let counts = self.lock();
        let (mut counts, _) = self
            .left
            .wait_timeout_while(counts, TIMEOUT, |counts| counts.leaving > 0)
            .unwrap_or_else(PoisonError::into_inner);
        if counts.leaving > 0 {
            return None;
        }
        counts.present += 1;
        Some(Permit { connection_gate: self.clone(), term: self.term.load(Ordering::Relaxed) })
    }

    /// Dismisses all connections. No new one opens until all of them are closed.
    pub(crate) fn dismiss(&self) {
        let mut counts = self.lock();
        counts.leaving += std::mem::take(&mut counts.present);
        self.term.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Whether this permit's connection was dismissed.
    pub(crate) fn is_over(&self) -> bool {
        self.term != self.connection_gate.term.load(Ordering::Acquire)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.connection_gate.lock();
        if self.is_over() {
            counts.leaving -= 1;
        } else {
            counts.present -= 1;
        }
        drop(counts);
        self.connection_gate.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_comes_in_until_all_have_left() {
        let connection_gate = Arc::new(ConnectionGate::default());
        let (first, second) = (connection_gate.enter().unwrap(), connection_gate.enter().unwrap());
        assert!(!first.is_over());
        connection_gate.dismiss();
        assert!(first.is_over() && second.is_over());
        drop(first);
        let next = std::thread::scope(|scope| {
            let next = scope.spawn(|| connection_gate.enter());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!next.is_finished());
            drop(second);
            next.join().unwrap().unwrap()
        });
        assert!(!next.is_over());
        connection_gate.dismiss();
        assert!(connection_gate.enter().is_none(), "one who does not leave keeps everyone out");
    }
}
