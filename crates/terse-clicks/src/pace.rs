//! How fast the shipper works, and when it ends.

use std::time::Duration;

use tokio::time::Instant;

/// How fast the shipper works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The time between two polls of a journal without new clicks.
    pub(crate) idle: Duration,
    /// The longest time of a call of the store.
    pub(crate) timeout: Duration,
    /// The wait before a call is repeated; doubles up to `max_retry_delay`.
    pub(crate) retry_delay: Duration,
    /// See `retry_delay`.
    pub(crate) max_retry_delay: Duration,
    /// How long the store must fail before a journal over its bound drops clicks.
    pub(crate) drop_after: Duration,
    /// How long clicks may be in memory before they are stored.
    pub(crate) flush: Duration,
    /// The most records of a batch; a batch of this size is stored at once.
    pub(crate) batch: usize,
    /// What a batch may take in memory, about; a larger one is stored at once. There are at most
    /// two: one that is being stored, and one that grows.
    pub(crate) batch_bytes: usize,
    /// How long the position of a segment is kept after its file is gone. An attempt of this epoch
    /// that timed out may still reach the store. It must find the position: a segment without a
    /// position counts as not counted.
    pub(crate) keep_positions: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            idle: Duration::from_millis(250),
            timeout: Duration::from_secs(30),
            retry_delay: Duration::from_millis(250),
            max_retry_delay: Duration::from_secs(5),
            drop_after: Duration::from_secs(60),
            flush: Duration::from_secs(5),
            batch: 100_000,
            batch_bytes: 24 << 20,
            keep_positions: Duration::from_secs(300),
        }
    }
}

/// The order to count what is left and end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// The deadline of the thread.
    pub(crate) until: Instant,
    /// Whether no thread writes to the journal any more.
    pub(crate) writers_gone: bool,
}
