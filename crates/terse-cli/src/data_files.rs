//! The files of a store that consists of files, for the commands that copy and check them.

use std::any::Any;
use std::path::{Path, PathBuf};

/// The three files, and the folder that they share.
pub struct DataFiles {
    /// The data folder.
    pub data_dir: PathBuf,
    /// The links.
    pub links: DataFile,
    /// Their clicks.
    pub clicks: DataFile,
    /// Their owners.
    pub owners: DataFile,
    /// Keeps every server away from the folder until the result is dropped; fails while one runs.
    pub lock: Box<dyn Fn() -> anyhow::Result<Box<dyn Any>> + Send + Sync>,
}

/// One file, and what its store can do with it.
pub struct DataFile {
    /// Its name in a backup.
    pub name: &'static str,
    /// What its entries are called.
    pub holds: &'static str,
    /// Its path in use.
    pub path: PathBuf,
    /// Copies a snapshot of the first file to the second, which does not exist.
    pub copy: CopyFile,
    /// Checks that the file can be opened.
    pub inspect: CheckFile<()>,
    /// Reads the file from end to end, and counts its entries.
    pub verify: CheckFile<Option<u64>>,
    /// Prepares a restored file for use.
    pub skip_ahead: CheckFile<()>,
}

/// Copies a file.
pub type CopyFile = Box<dyn Fn(&Path, &Path) -> anyhow::Result<()> + Send + Sync>;
/// Reads a file.
pub type CheckFile<T> = Box<dyn Fn(&Path) -> anyhow::Result<T> + Send + Sync>;
