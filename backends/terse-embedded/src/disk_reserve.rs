//! The reserve of free disk space, which single clicks leave to links and sums.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use terse_core::metrics::Metrics;

/// Checks whether the disk is nearly full. Below the reserve, the click store counts clicks and
/// does not store them one by one.
#[derive(Debug, Default)]
pub struct DiskReserve {
    folder: PathBuf,
    bytes: u64,
    is_low: AtomicBool,
    not_kept: AtomicU64,
}

impl DiskReserve {
    /// A reserve on the disk that holds this folder; 0 bytes for none.
    pub fn new(folder: impl Into<PathBuf>, bytes: u64) -> Self {
        Self { folder: folder.into(), bytes, ..Self::default() }
    }

    /// The size of the reserve.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether less than the reserve is free now. `false` if the free space is unknown.
    pub fn is_low(&self) -> bool {
        if self.bytes == 0 {
            return false;
        }
        let free = rustix::fs::statvfs(&self.folder)
            .map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        let is_low = free < self.bytes;
        if self.is_low.swap(is_low, Ordering::Relaxed) != is_low {
            let reserve = self.bytes;
            match is_low {
                true => tracing::error!(
                    free,
                    reserve,
                    "the disk is nearly full: clicks are counted, and no longer stored one by one"
                ),
                false => tracing::info!(free, reserve, "clicks are stored one by one again"),
            }
        }
        is_low
    }

    /// Whether this many single clicks may be stored. Counts those that may not.
    pub(crate) fn admits(&self, clicks: usize) -> bool {
        let is_low = clicks > 0 && self.is_low();
        if is_low {
            self.not_kept.fetch_add(clicks as u64, Ordering::Relaxed);
        }
        !is_low
    }

    /// How many clicks were counted and not stored one by one.
    pub fn not_kept(&self) -> u64 {
        self.not_kept.load(Ordering::Relaxed)
    }

    /// Writes whether the disk is low, and what that cost.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let help = "1 while less than storage.reserve is free: single clicks are not stored";
        to.gauge("terse_disk_low", help, f64::from(u8::from(self.is_low())));
        let help =
            "Clicks that were counted and not stored one by one, because the disk is nearly full";
        to.counter("terse_clicks_not_kept", help, &self.not_kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_low_below_its_reserve() {
        let folder = tempfile::tempdir().unwrap();
        for (bytes, low) in [(0, false), (1, false), (u64::MAX, true)] {
            let reserve = DiskReserve::new(folder.path(), bytes);
            assert_eq!((reserve.is_low(), reserve.admits(3), reserve.admits(0)), (low, !low, true));
            assert_eq!(reserve.not_kept(), if low { 3 } else { 0 });
        }
        assert!(!DiskReserve::new("/no/such/folder", u64::MAX - 1).is_low() || cfg!(windows));
    }
}
