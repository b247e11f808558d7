//! Counters of the archive.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use terse_core::Timestamp;
use terse_core::metrics::Metrics;

/// What the job has done since the start of this process.
#[derive(Debug, Default)]
pub struct ArchiveCounts {
    /// Hours that were copied.
    pub hours: AtomicU64,
    /// Clicks that were copied.
    pub clicks: AtomicU64,
    /// Files that were written, and their bytes.
    pub files: AtomicU64,
    /// See `files`.
    pub octets: AtomicU64,
    /// Hours that were copied again, because clicks came late.
    pub late: AtomicU64,
    /// Clicks of erased links and owners that were taken out of files.
    pub erased: AtomicU64,
    /// Files that were deleted because of their age.
    pub expired: AtomicU64,
    /// Runs that failed.
    pub failed: AtomicU64,
    /// Up to when clicks are copied, in milliseconds since 1970; 0 if not known yet.
    copied_to: AtomicI64,
}

impl ArchiveCounts {
    pub(crate) fn set_copied_to(&self, at: Timestamp) {
        self.copied_to.store(at.as_ms(), Ordering::Relaxed);
    }

    /// Writes the metrics.
    pub fn write_metrics(&self, metrics: &mut Metrics) {
        metrics.counter(
            "terse_archive_hours",
            "Hours of clicks copied to the archive",
            &self.hours,
        );
        metrics.counter("terse_archive_clicks", "Clicks copied to the archive", &self.clicks);
        metrics.counter("terse_archive_files", "Files written to the archive", &self.files);
        metrics.counter("terse_archive_octets", "Octets written to the archive", &self.octets);
        metrics.counter(
            "terse_archive_late_hours",
            "Hours copied to the archive again, because clicks came late",
            &self.late,
        );
        metrics.counter(
            "terse_archive_erased_clicks",
            "Clicks of erased links and accounts taken out of the archive",
            &self.erased,
        );
        metrics.counter(
            "terse_archive_expired_files",
            "Files of the archive deleted because of their age",
            &self.expired,
        );
        metrics.counter("terse_archive_failures", "Runs of the archive that failed", &self.failed);
        let copied_to = self.copied_to.load(Ordering::Relaxed);
        if copied_to != 0 {
            metrics.gauge(
                "terse_archive_copied_to_seconds",
                "Up to when clicks are in the archive, in seconds since 1970",
                copied_to as f64 / 1000.0,
            );
        }
    }
}
