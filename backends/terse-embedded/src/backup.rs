//! Copies of a store file, made while the store is in use.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::engine::{self, DbLocation, connect_reader};

/// Why a backup failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The target exists; a backup never overwrites a file.
    #[error("{0} exists already")]
    Exists(PathBuf),
    /// The copy fails the check of its own pages.
    #[error("the copy is damaged: {0}")]
    Damaged(String),
    /// SQLite failed.
    #[error("the file cannot be copied")]
    Engine(#[from] rusqlite::Error),
    /// The file system failed.
    #[error("the copy cannot be written")]
    Io(#[from] io::Error),
}

/// Copies a store as it is now into a new file, even while another process has it open. When this
/// returns, the copy is checked and on the disk. An unfinished copy never has the final name.
pub fn backup(db: &Path, to: &Path) -> Result<(), BackupError> {
    backup_without(db, to, "")
}

/// Like a plain backup, but runs these statements on the copy to remove data from it.
pub(crate) fn backup_without(db: &Path, to: &Path, statements: &str) -> Result<(), BackupError> {
    if to.try_exists()? {
        return Err(BackupError::Exists(to.to_owned()));
    }
    let mut partial = to.to_owned().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let _swept = fs::remove_file(&partial);
    let made = copy(db, &partial, statements).and_then(|()| name(&partial, to));
    if made.is_err() {
        let _swept = fs::remove_file(&partial);
    }
    made
}

fn copy(db: &Path, partial: &Path, statements: &str) -> Result<(), BackupError> {
    let conn = connect_reader(&DbLocation::at(db))?;
    conn.execute_batch("PRAGMA query_only = OFF")?;
    // Created beforehand with our permissions, so that no other user can read it at any time.
    engine::create(partial)?;
    let name = partial
        .to_str()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path is not text"))?;
    conn.execute("VACUUM INTO ?1", [name])?;
    if !statements.is_empty() {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(partial, flags)?.execute_batch(statements)?;
    }
    File::open(partial)?.sync_all()?;
    let copy = Connection::open_with_flags(
        partial,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    let word: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if word != "ok" {
        return Err(BackupError::Damaged(word));
    }
    Ok(())
}

fn name(partial: &Path, to: &Path) -> Result<(), BackupError> {
    // Unlike a rename, a hard link never replaces a file that was created meanwhile.
    match fs::hard_link(partial, to) {
        Ok(()) => fs::remove_file(partial)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BackupError::Exists(to.to_owned()));
        }
        // Not every file system has hard links.
        Err(_) => fs::rename(partial, to)?,
    }
    Ok(engine::sync_folder_of(to)?)
}
