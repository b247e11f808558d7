//! Copies of the store, made while it works.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::engine::{self, DbLocation, connect_reader};

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Nothing is ever overwritten.
    #[error("{0} exists already")]
    Exists(PathBuf),
    /// The copy does not pass the check of its own pages.
    #[error("the copy is damaged: {0}")]
    Damaged(String),
    /// The engine failed.
    #[error("the file cannot be copied")]
    Engine(#[from] rusqlite::Error),
    /// The file system failed.
    #[error("the copy cannot be written")]
    Io(#[from] io::Error),
}

/// Copies a store as it is now into a new file, also while another process has it open. The copy is
/// checked and on the disk when this returns; a half-made one never bears its name.
pub fn backup(db: &Path, to: &Path) -> Result<(), BackupError> {
    backup_without(db, to, "")
}

/// The same, without what the statements take out of the copy.
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
    // Made by us beforehand, so that nobody else can read it at any moment.
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
    // Unlike a rename, a link never replaces a file that came to be meanwhile.
    match fs::hard_link(partial, to) {
        Ok(()) => fs::remove_file(partial)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BackupError::Exists(to.to_owned()));
        }
        // Not every file system has links.
        Err(_) => fs::rename(partial, to)?,
    }
    Ok(engine::sync_folder_of(to)?)
}
