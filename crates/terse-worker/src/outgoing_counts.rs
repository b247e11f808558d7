//! Counters of the jobs that send requests to other servers.

use std::sync::atomic::AtomicU64;

/// Counters of the integrations.
#[derive(Debug, Default)]
pub struct OutgoingCounts {
    /// Events stored for delivery.
    pub enqueued: AtomicU64,
    /// Events lost because they could not be stored.
    pub lost: AtomicU64,
    /// Deliveries that a receiver accepted.
    pub delivered: AtomicU64,
    /// Deliveries that failed and will be retried.
    pub again: AtomicU64,
    /// Events dropped after the last retry.
    pub given_up: AtomicU64,
    /// Webhooks that were disabled.
    pub disabled: AtomicU64,
    /// Titles found.
    pub titles: AtomicU64,
    /// Pages that have no title or could not be read.
    pub untitled: AtomicU64,
    /// Links skipped because the queue of titles was full.
    pub skipped: AtomicU64,
    /// Targets that answered.
    pub reached: AtomicU64,
    /// Targets that did not answer.
    pub unreached: AtomicU64,
}
