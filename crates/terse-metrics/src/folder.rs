//! The last backup, and free disk space.

use std::path::Path;
use std::time::UNIX_EPOCH;

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

fn changed(file: &Path) -> Option<f64> {
    let changed = std::fs::metadata(file).ok()?.modified().ok()?;
    Some(changed.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}
