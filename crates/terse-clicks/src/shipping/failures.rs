//! What failed, how far the shipper is behind, and when to log it.

use std::collections::HashSet;
use std::error::Error as _;
use std::io;
use std::sync::atomic::Ordering;

use terse_core::StoreError;
use tracing::warn;

use super::{ShipperLoop, covered_by};
use crate::segment::Segment;

/// A failure that continues is logged again after this long.
const LOG_INTERVAL_MS: u64 = 60_000;

impl ShipperLoop {
    pub(super) fn note_lag(&self) {
        let in_memory = self.spans.values().chain(&self.on_the_way);
        let covered: u64 = in_memory.clone().map(covered_by).sum();
        let unread: u64 = self.folder.segments().map(Segment::unread).sum();
        let waiting: HashSet<u64> =
            in_memory.filter(|span| span.to != span.from).map(|span| span.segment).collect();
        let behind =
            |segment: &&Segment| segment.unread() > 0 || waiting.contains(&segment.header.id);
        self.counts.lag_bytes.store(covered + unread, Ordering::Relaxed);
        self.counts
            .lag_segments
            .store(self.folder.segments().filter(behind).count() as u64, Ordering::Relaxed);
    }

    pub(super) fn store_failed(&mut self, error: &StoreError) {
        self.counts.store_failures.fetch_add(1, Ordering::Relaxed);
        self.bound.store_fails();
        self.counts.signals.store_fails();
        if self.should_log_failure() {
            warn!(%error, cause = error.source(), "clicks cannot be counted right now; they stay \
                in the journal");
        }
    }

    pub(super) fn file_failed(&mut self, error: &io::Error) {
        self.counts.file_failures.fetch_add(1, Ordering::Relaxed);
        self.counts.signals.store_fails();
        if self.should_log_failure() {
            warn!(%error, "the journal's files cannot be read or deleted");
        }
    }

    /// Notes that something failed. Whether it is time to log it.
    fn should_log_failure(&mut self) -> bool {
        let now = self.clock.now().as_ms();
        self.counts.last_error_ms.store(now, Ordering::Relaxed);
        is_due(&mut self.failure_logged_ms, now)
    }
}

/// Whether something that was last logged then is to be logged again now.
pub(super) fn is_due(logged_ms: &mut Option<i64>, now: i64) -> bool {
    let is_due = logged_ms.is_none_or(|logged| logged.abs_diff(now) >= LOG_INTERVAL_MS);
    if is_due {
        *logged_ms = Some(now);
    }
    is_due
}
