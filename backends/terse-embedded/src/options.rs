//! How a store is opened, and why it may not be.

use std::path::PathBuf;

use terse_core::Alphabet;

use crate::engine::DbLocation;

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The links file; made if it is missing. Its folder must exist.
    pub path: PathBuf,
    /// What generated codes are written in. Fixed when the store is made.
    pub alphabet: Alphabet,
    /// How many writes may wait. One more is answered `Busy`.
    pub queue: usize,
    /// How many threads look links up.
    pub readers: usize,
    /// For tests of broken disks: another way to the file system.
    #[doc(hidden)]
    pub vfs: Option<String>,
    /// For tests of full disks: the largest the file may grow, in pages.
    #[doc(hidden)]
    pub max_pages: Option<u32>,
    /// For tests that prove that syncing matters.
    #[doc(hidden)]
    pub unsafe_no_sync: bool,
}

impl Options {
    /// The defaults, for this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            alphabet: Alphabet::default(),
            queue: 4096,
            readers: 2,
            vfs: None,
            max_pages: None,
            unsafe_no_sync: false,
        }
    }

    pub(crate) fn site(&self) -> DbLocation {
        let Self { path, vfs, max_pages, unsafe_no_sync, .. } = self.clone();
        DbLocation { path, vfs, max_pages, unsafe_no_sync }
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A later version of terse has been here. Opening it could lose what this one does not know.
    #[error(
        "the file has schema version {found}, but this version of terse knows only up to {known}: \
         use a newer terse"
    )]
    Newer {
        /// What the file says.
        found: i64,
        /// The latest this binary knows.
        known: i64,
    },
    /// Some other file.
    #[error("{0} is not such a file of terse")]
    NotTerse(PathBuf),
    /// The file says it is ours, but cannot be read.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    /// The store was made with another alphabet, and its codes are filed by it.
    #[error(
        "the links file was made with the alphabet {stored}, but {wanted} is configured; it \
         cannot be changed later"
    )]
    Alphabet {
        /// What the store was made with.
        stored: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// The file system refused.
    #[error("the file cannot be opened")]
    Io(#[source] terse_core::BoxError),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged(error.to_string()),
            Some(_) => Self::Io(error.into()),
            // A value of the wrong type, or one that is missing: not what we wrote.
            None => Self::Damaged(error.to_string()),
        }
    }
}

impl From<std::io::Error> for OpenError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.into())
    }
}
