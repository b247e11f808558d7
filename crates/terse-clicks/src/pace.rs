//! How fast the shipper works, and when it ends.

use std::thread;
use std::time::Duration;

use tokio::time::Instant;

/// How fast the shipper works.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two polls of a journal in which nothing happens.
    pub idle: Duration,
    /// What a call of the store may take.
    pub timeout: Duration,
    /// Before a call is repeated; doubles up to `max_retry_delay`.
    pub retry_delay: Duration,
    /// See `retry_delay`.
    pub max_retry_delay: Duration,
    /// How long the store must fail before a journal over its bound drops clicks.
    pub drop_after: Duration,
    /// How long clicks may be in memory before they are stored.
    pub flush: Duration,
    /// Records of one batch; a batch of so many is stored at once.
    pub batch: usize,
    /// What a batch may take in memory, about; a larger one is stored at once. There are at most
    /// two: one that is being stored, and one that grows.
    pub batch_bytes: usize,
    /// How long the shipper must be behind before a second thread adds clicks to the sums. For
    /// ever on a machine with one processor.
    pub help_after: Duration,
    /// How long the position of a segment is kept after its file is gone. A try of this epoch that
    /// timed out may still reach the store; it must not find the segment without a position, which
    /// means that nothing of it was counted.
    pub keep_positions: Duration,
    /// How long a call that opens the journal and got no answer may still reach the store. If the
    /// store accepts calls of this process after that, and then not any more, another process has
    /// opened the journal. Less than `keep_positions`: otherwise two processes on copies of one
    /// folder could take the journal from each other until positions are forgotten, and count
    /// clicks twice.
    pub late_open: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let has_two_cores = thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        Self {
            idle: Duration::from_millis(250),
            timeout: Duration::from_secs(30),
            retry_delay: Duration::from_millis(250),
            max_retry_delay: Duration::from_secs(5),
            drop_after: Duration::from_secs(60),
            flush: Duration::from_secs(5),
            batch: 100_000,
            batch_bytes: 24 << 20,
            help_after: if has_two_cores { Duration::from_secs(1) } else { Duration::MAX },
            keep_positions: Duration::from_secs(300),
            late_open: Duration::from_secs(60),
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
