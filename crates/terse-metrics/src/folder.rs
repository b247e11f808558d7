//! The last backup, the last restore drill, and free disk space.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use terse_core::metrics::Metrics;

/// Writes the metrics of the data folder. `last_backup` is a file that every backup touches.
pub fn write_folder_metrics(data_dir: &Path, last_backup: &Path, to: &mut Metrics) {
    let help = "When terse backup last succeeded, in seconds since 1970; 0 for never";
    let at = changed(last_backup).unwrap_or(0.0);
    to.gauge("terse_last_backup_timestamp_seconds", help, at);
    // Left out if the system does not report it.
    if let Ok(disk) = rustix::fs::statvfs(data_dir) {
        let bytes = |blocks: u64| blocks as f64 * disk.f_frsize as f64;
        let help = "Free space on the disk of the data folder";
        to.gauge("terse_disk_free_bytes", help, bytes(disk.f_bavail));
        let help = "Size of the disk of the data folder";
        to.gauge("terse_disk_size_bytes", help, bytes(disk.f_blocks));
    }
}

/// Writes the metrics of restore drills. `last_drill` is a file that every drill touches.
pub fn write_drill_metrics(last_drill: &Path, every: Duration, to: &mut Metrics) {
    let help = "When a backup was last restored as a drill, in seconds since 1970; 0 for never";
    let at = changed(last_drill).unwrap_or(0.0);
    to.gauge("terse_last_drill_timestamp_seconds", help, at);
    let help = "How often restore drills are due: backup.drill_every";
    to.gauge("terse_drill_every_seconds", help, every.as_secs_f64());
}

fn changed(file: &Path) -> Option<f64> {
    let changed = std::fs::metadata(file).ok()?.modified().ok()?;
    Some(changed.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}
