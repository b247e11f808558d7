//! What the shipper has done, for those who watch it.

use std::sync::atomic::{AtomicI64, AtomicU64};

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub struct ShipperCounts {
    /// Clicks that the store has counted.
    pub recorded: AtomicU64,
    /// Batches that the store has counted.
    pub batches: AtomicU64,
    /// Visits that went with the oldest segments because the journal was over its bound. If the store has never answered, those
    /// of an earlier process may be among them that it had counted.
    pub dropped: AtomicU64,
    /// Records that no link could have had.
    pub unreadable: AtomicU64,
    /// Calls of the store that failed or took too long.
    pub store_failures: AtomicU64,
    /// Times that the journal's files could not be read or deleted.
    pub file_failures: AtomicU64,
    /// Octets of the journal that are not counted yet, at most.
    pub lag_bytes: AtomicU64,
    /// Segments that have something which is not counted yet.
    pub lag_segments: AtomicU64,
    /// When something last failed, in milliseconds since 1970; 0 if nothing did.
    pub last_error_ms: AtomicI64,
}
