//! The options of a clicks file.

use std::path::PathBuf;
use std::sync::Arc;

use crate::clicks::runs::RunLimits;
use crate::disk_reserve::DiskReserve;
use crate::engine::{CacheSizes, DbLocation};

/// How to open a store of clicks.
#[derive(Clone, Debug)]
pub struct ClickOptions {
    /// The clicks file; created if it is missing. Its folder must exist.
    pub path: PathBuf,
    /// Whether single clicks are stored beside the sums.
    pub keep_raw: bool,
    /// Below this reserve of free disk space, single clicks are not stored.
    pub reserve: Arc<DiskReserve>,
    /// How many writes may wait. The store answers one more with `Busy`.
    pub queue: usize,
    /// How many threads answer reports.
    pub readers: usize,
    /// The most memory for the page caches of all connections, in bytes.
    pub cache_bytes: u64,
    /// For tests: when sums are stored in runs, and how runs are merged.
    #[doc(hidden)]
    pub runs: RunLimits,
    /// For tests of broken disks: another VFS of SQLite.
    #[doc(hidden)]
    pub vfs: Option<String>,
    /// For tests of full disks: the largest the file may grow, in pages.
    #[doc(hidden)]
    pub max_pages: Option<u32>,
    /// For tests that prove that syncing matters.
    #[doc(hidden)]
    pub unsafe_no_sync: bool,
}

impl ClickOptions {
    /// The defaults, for this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            keep_raw: true,
            reserve: Arc::default(),
            queue: 64,
            readers: 2,
            cache_bytes: 128 << 20,
            runs: RunLimits::default(),
            vfs: None,
            max_pages: None,
            unsafe_no_sync: false,
        }
    }

    pub(crate) fn site(&self) -> DbLocation {
        let Self { path, vfs, max_pages, unsafe_no_sync, readers, cache_bytes, .. } = self.clone();
        let caches = CacheSizes::of(cache_bytes, readers);
        DbLocation { path, vfs, max_pages, unsafe_no_sync, caches }
    }
}
