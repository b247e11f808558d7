//! What the shipper has done, for metrics and health checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use terse_core::clicks::JournalSignals;
use terse_core::metrics::Metrics;

/// Counts since the start of the process.
#[derive(Debug)]
pub struct ShipperCounts {
    /// Clicks that the store has counted.
    pub recorded: AtomicU64,
    /// Clicks that are read and wait in memory until they are stored.
    pub in_memory: AtomicU64,
    /// What these clicks take in memory, about.
    pub in_memory_bytes: AtomicU64,
    /// Batches that the store has counted.
    pub batches: AtomicU64,
    /// Visits in the oldest segments, which were deleted because the journal was over its bound. If
    /// the store has never answered, some of them may have been counted by an earlier process.
    pub dropped: AtomicU64,
    /// Records that cannot belong to a link, or that could not be read.
    pub unreadable: AtomicU64,
    /// Records that were read and put back, because earlier records of other segments come first.
    pub given_back: AtomicU64,
    /// Times that a second thread helped to count, because the first had fallen behind.
    pub helped: AtomicU64,
    /// Calls of the store that failed or took too long.
    pub store_failures: AtomicU64,
    /// Times that the journal's files could not be read or deleted.
    pub file_failures: AtomicU64,
    /// Octets of the journal that are not stored yet, at most; also what is in memory.
    pub lag_bytes: AtomicU64,
    /// Segments that have something which is not stored yet.
    pub lag_segments: AtomicU64,
    /// When something last failed, in milliseconds since 1970; 0 if nothing did.
    pub last_error_ms: AtomicI64,
    /// False once the thread has ended without being stopped: nothing is counted any more until the
    /// next start.
    pub alive: AtomicBool,
    /// True once another process has opened this journal: this one counts no more.
    pub fenced: AtomicBool,
    /// What the threads that write the journal must know.
    pub signals: Arc<JournalSignals>,
}

impl Default for ShipperCounts {
    fn default() -> Self {
        Self {
            recorded: AtomicU64::default(),
            in_memory: AtomicU64::default(),
            in_memory_bytes: AtomicU64::default(),
            batches: AtomicU64::default(),
            dropped: AtomicU64::default(),
            unreadable: AtomicU64::default(),
            given_back: AtomicU64::default(),
            helped: AtomicU64::default(),
            store_failures: AtomicU64::default(),
            file_failures: AtomicU64::default(),
            lag_bytes: AtomicU64::default(),
            lag_segments: AtomicU64::default(),
            last_error_ms: AtomicI64::default(),
            alive: AtomicBool::new(true),
            fenced: AtomicBool::default(),
            signals: Arc::default(),
        }
    }
}

impl ShipperCounts {
    /// Notes how many clicks are in memory, and what they take.
    pub(crate) fn set_in_memory(&self, (clicks, bytes): (u64, usize)) {
        self.in_memory.store(clicks, Ordering::Relaxed);
        self.in_memory_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let fates = [
            ("counted", of(&self.recorded)),
            ("dropped", of(&self.dropped)),
            ("unreadable", of(&self.unreadable)),
        ];
        let help = "Clicks on their way to the statistics, by what happened to them";
        to.counters("terse_clicks", help, "what", fates);
        let help = "Batches of clicks that the click store refused; terse retries them";
        to.counter("terse_clicks_store_failures", help, &self.store_failures);
        let help = "1 if the thread that counts clicks has stopped unexpectedly";
        let is_dead = u8::from(!self.alive.load(Ordering::Relaxed));
        to.gauge("terse_clicks_dead", help, f64::from(is_dead));
        let help = "Bytes of the journal whose clicks are not stored yet";
        to.gauge("terse_journal_waiting_bytes", help, of(&self.lag_bytes) as f64);
        let help = "Clicks that the statistics include and the click store does not have yet";
        to.gauge("terse_clicks_in_memory", help, of(&self.in_memory) as f64);
    }
}
