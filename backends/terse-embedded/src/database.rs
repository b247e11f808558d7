//! What a store does with its connections.

use rusqlite::Connection;

use crate::engine::DbLocation;

/// What tells one store's threads from another's.
pub(crate) trait Database: Clone + Send + 'static {
    /// Through which a thread reads.
    type Queries: AsRef<Connection> + 'static;
    /// Through which the one thread writes.
    type Writes: Writes + 'static;
    /// What the store holds.
    const NAME: &'static str;
    /// The most writes to share one fsync.
    const MAX_WRITES_PER_COMMIT: usize;
    /// From this many pages on, the log is copied into the file after each batch: the stall is
    /// proportional, 1,000 ≈ 20 ms.
    const CHECKPOINT_PAGES: u32;
    /// Whether its writing is nobody's hurry: when there is not enough processor for all, it falls
    /// behind.
    const BEHIND_OTHERS: bool = false;

    /// Where its file is.
    fn site(&self) -> &DbLocation;
    /// Puts a connection to use for reading.
    fn queries(&self, conn: Connection) -> Self::Queries;
    /// Puts a connection to use for writing.
    fn writes(&self, conn: Connection) -> rusqlite::Result<Self::Writes>;
}

/// One who writes, inside transactions that somebody else begins and ends.
pub(crate) trait Writes {
    fn conn(&self) -> &Connection;
    /// Forgets unfinished work: what the file says counts.
    fn reload(&mut self) -> rusqlite::Result<()>;
    /// To be called before each commit.
    fn finish(&mut self) -> rusqlite::Result<()>;
}
