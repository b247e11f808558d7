//! Writes all data of another store into new files, for `terse migrate`.
//!
//! No server uses the files meanwhile. Links that a file has already are compared and left as they
//! are, so that a move that was interrupted continues; tables are written anew.

mod links;
mod tables;

use std::path::Path;

use rusqlite::Connection;

use crate::engine::{self, DbLocation};
use crate::failure::Failure;
use crate::mark;
use crate::options::EmbeddedOpenError;

pub use links::LinksImport;
pub use tables::TablesImport;

/// Ends the import into a file: without a log beside it, the file can be renamed by itself.
pub fn seal(file: &Path) -> Result<(), EmbeddedOpenError> {
    let conn = engine::connect_bare(&DbLocation::at(file))?;
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON")?;
    let mode: String = conn.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
    if mode != "delete" {
        let why = format!("the log of {} cannot be removed", file.display());
        return Err(EmbeddedOpenError::Io(why.into()));
    }
    drop(conn);
    std::fs::File::open(file)?.sync_all()?;
    Ok(engine::sync_folder_of(file)?)
}

/// Gives a sealed file its place. Removes what an earlier file of this name has left beside it: its
/// log and its mark do not belong to the new one.
pub fn install_file(file: &Path, place: &Path) -> Result<(), EmbeddedOpenError> {
    for left in ["-wal", "-shm"].map(|suffix| beside(place, suffix)) {
        remove(&left)?;
    }
    remove(&mark::path_of(place))?;
    std::fs::rename(file, place)?;
    Ok(engine::sync_folder_of(place)?)
}

fn beside(file: &Path, suffix: &str) -> std::path::PathBuf {
    let mut path = file.to_owned().into_os_string();
    path.push(suffix);
    path.into()
}

fn remove(file: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Ends a transaction: commits it, or rolls it back after an error.
pub(crate) fn end<T>(conn: &Connection, done: Result<T, Failure>) -> Result<T, EmbeddedOpenError> {
    match done {
        Ok(done) => {
            conn.execute_batch("COMMIT")?;
            // The connection does not do this by itself.
            engine::checkpoint(conn, "PASSIVE")?;
            Ok(done)
        }
        Err(failure) => {
            conn.execute_batch("ROLLBACK")?;
            Err(failed(failure))
        }
    }
}

pub(crate) fn failed(failure: Failure) -> EmbeddedOpenError {
    match failure {
        Failure::Refused(_) => EmbeddedOpenError::Damaged(failure.to_string()),
        Failure::Engine(error) => error.into(),
    }
}
