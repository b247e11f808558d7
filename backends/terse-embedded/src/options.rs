//! The options of a links file, and the errors of opening one.

use std::path::PathBuf;

use terse_core::Alphabet;

use crate::engine::{CacheSizes, DbLocation};
use crate::store::SEARCHERS;

/// How to open a store.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The links file; created if it is missing. Its folder must exist.
    pub path: PathBuf,
    /// The alphabet of generated codes. Fixed when the store is created.
    pub alphabet: Alphabet,
    /// How many writes may wait. The store answers one more with `Busy`.
    pub queue: usize,
    /// How many threads look links up.
    pub readers: usize,
    /// The most memory for the page caches of all connections, in bytes.
    pub cache_bytes: u64,
    /// For simulations, which need every write to have a cause: whether links are indexed for
    /// searches in the background.
    #[doc(hidden)]
    pub index: bool,
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

impl EmbeddedOptions {
    /// The defaults, for this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            alphabet: Alphabet::default(),
            queue: 4096,
            readers: 2,
            cache_bytes: 128 << 20,
            index: true,
            vfs: None,
            max_pages: None,
            unsafe_no_sync: false,
        }
    }

    pub(crate) fn site(&self) -> DbLocation {
        let Self { path, vfs, max_pages, unsafe_no_sync, readers, cache_bytes, .. } = self.clone();
        // One more thread lists, and some search.
        let caches = CacheSizes::of(cache_bytes, readers + 1 + SEARCHERS);
        DbLocation { path, vfs, max_pages, unsafe_no_sync, caches }
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedOpenError {
    /// A later version of terse wrote the file. Opening it could lose data.
    #[error(
        "the file has schema version {found}, but this version of terse knows only up to {known}: \
         use a newer terse"
    )]
    Newer {
        /// The version of the file.
        found: i64,
        /// The latest version this binary knows.
        known: i64,
    },
    /// The file is of another kind, or of another program.
    #[error("{0} is not a terse file of the expected kind")]
    NotTerse(PathBuf),
    /// The file is marked as terse's, but cannot be read.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    /// The data of the file has moved to another store.
    #[error(
        "the data of {0} has moved to a database: set `store` to it. To use the files again, \
         without what has changed in the database since, run `terse migrate --undo`"
    )]
    Moved(PathBuf),
    /// The store was created with another alphabet, which determines where its codes are stored.
    #[error(
        "the links file was made with the alphabet {stored}, but {wanted} is configured; it \
         cannot be changed later"
    )]
    Alphabet {
        /// The alphabet the store was created with.
        stored: &'static str,
        /// The configured alphabet.
        wanted: &'static str,
    },
    /// The file system failed.
    #[error("the file cannot be opened")]
    Io(#[source] terse_core::BoxError),
}

impl From<rusqlite::Error> for EmbeddedOpenError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged(error.to_string()),
            Some(_) => Self::Io(error.into()),
            // A value of the wrong type, or a missing one: terse did not write this.
            None => Self::Damaged(error.to_string()),
        }
    }
}

impl From<std::io::Error> for EmbeddedOpenError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.into())
    }
}
