//! How the generic threads work with each store.

use rusqlite::Connection;

use crate::engine::DbLocation;

/// The parts in which one store's threads differ from another's.
pub(crate) trait Database: Clone + Send + 'static {
    /// The reader threads' side of a connection.
    type Queries: AsRef<Connection> + 'static;
    /// The writer thread's side of a connection.
    type Writes: Writes + 'static;
    /// The store's name in logs.
    const NAME: &'static str;
    /// The largest number of writes that share one fsync.
    const MAX_WRITES_PER_COMMIT: usize;
    /// From this many pages on, the writer copies the log into the file after each batch. The stall
    /// grows with the pages: 1,000 take about 20 ms.
    const CHECKPOINT_PAGES: u32;

    /// The store's file.
    fn site(&self) -> &DbLocation;
    /// Prepares a connection for reading.
    fn queries(&self, conn: Connection) -> Self::Queries;
    /// Prepares a connection for writing.
    fn writes(&self, conn: Connection) -> rusqlite::Result<Self::Writes>;
}

/// Writes inside transactions that the writer thread begins and ends.
pub(crate) trait Writes {
    fn conn(&self) -> &Connection;
    /// Drops cached state of uncommitted work and reads it from the file again.
    fn reload(&mut self) -> rusqlite::Result<()>;
    /// Runs after a transaction was rolled back. Returns whether it has removed the cause, so that
    /// the same writes can be tried again.
    fn repair(&mut self, _error: &rusqlite::Error) -> rusqlite::Result<bool> {
        Ok(false)
    }
    /// Runs before each commit.
    fn finish(&mut self) -> rusqlite::Result<()>;
    /// Runs after each commit, before its callers are answered. The log has this many frames; 0 if
    /// that is unknown.
    fn committed(&mut self, _frames: u32) {}
    /// Runs before the log is emptied or deleted.
    fn log_ends(&mut self) {}
}
