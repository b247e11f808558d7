//! The options of a registry file.

use std::path::PathBuf;

use crate::engine::{CacheSizes, DbLocation};

/// How to open a registry.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// The registry file; created if it is missing. Its folder must exist.
    pub path: PathBuf,
    /// How many writes may wait. The registry answers one more with `Busy`.
    pub queue: usize,
    /// How many threads look keys and sessions up.
    pub readers: usize,
    /// The most memory for the page caches of all connections, in bytes.
    pub cache_bytes: u64,
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

impl RegistryOptions {
    /// The defaults, for this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            queue: 1024,
            readers: 2,
            cache_bytes: 128 << 20,
            vfs: None,
            max_pages: None,
            unsafe_no_sync: false,
        }
    }

    pub(crate) fn site(&self) -> DbLocation {
        let Self { path, vfs, max_pages, unsafe_no_sync, readers, cache_bytes, .. } = self.clone();
        // One more thread lists.
        let caches = CacheSizes::of(cache_bytes, readers + 1);
        DbLocation { path, vfs, max_pages, unsafe_no_sync, caches }
    }
}
