//! What an operator watches besides traffic: open reports, the last backup, and free disk space.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use terse_core::BoxError;
use terse_core::registry::{Registry, ReportState};
use terse_worker::{Context, Job, Next};

use crate::backends::DiskReserve;

/// How often open reports are read from the registry.
const INTERVAL: Duration = Duration::from_secs(30);
/// `terse backup` touches this file in the data folder.
pub(crate) const LAST_BACKUP: &str = "last-backup";

/// The values, read when they are asked for or by the job.
pub(crate) struct OperatingMetrics {
    pub(crate) data_dir: PathBuf,
    pub(crate) oldest_report: Arc<OldestReport>,
    pub(crate) reserve: Arc<DiskReserve>,
}

/// When the oldest open report was made, in milliseconds since 1970; 0 without one.
#[derive(Debug, Default)]
pub(crate) struct OldestReport(AtomicI64);

impl OperatingMetrics {
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut gauge = |name: &str, help: &str, value: f64| {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
        };
        gauge(
            "terse_report_oldest_open_timestamp_seconds",
            "When the oldest open report was made, in seconds since 1970; 0 without one",
            self.oldest_report.0.load(Ordering::Relaxed) as f64 / 1000.0,
        )?;
        gauge(
            "terse_last_backup_timestamp_seconds",
            "When terse backup last succeeded, in seconds since 1970; 0 for never",
            last_backup(&self.data_dir).unwrap_or(0.0),
        )?;
        gauge(
            "terse_disk_low",
            "1 while less than storage.reserve is free: single clicks are not stored",
            f64::from(u8::from(self.reserve.is_low())),
        )?;
        // Left out if the system does not tell.
        if let Ok(disk) = rustix::fs::statvfs(&self.data_dir) {
            let bytes = |blocks: u64| blocks as f64 * disk.f_frsize as f64;
            gauge(
                "terse_disk_free_bytes",
                "Free space on the disk of the data folder",
                bytes(disk.f_bavail),
            )?;
            gauge(
                "terse_disk_size_bytes",
                "Size of the disk of the data folder",
                bytes(disk.f_blocks),
            )?;
        }
        super::counter(
            encoder,
            "terse_clicks_not_kept",
            "Clicks that were counted and not stored one by one, because the disk is nearly full",
            self.reserve.not_kept(),
        )
    }
}

fn last_backup(data_dir: &Path) -> Option<f64> {
    let changed = std::fs::metadata(data_dir.join(LAST_BACKUP)).ok()?.modified().ok()?;
    Some(changed.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

/// Reads the oldest open report.
pub(crate) struct ReportWatch {
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) oldest: Arc<OldestReport>,
}

#[async_trait]
impl Job for ReportWatch {
    fn name(&self) -> &'static str {
        "report watch"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        let oldest = self.registry.reports(ReportState::Open, None, 1).await?;
        let at_ms = oldest.first().map_or(0, |report| report.at.as_ms());
        self.oldest.0.store(at_ms, Ordering::Relaxed);
        Ok(Next::Interval)
    }
}
