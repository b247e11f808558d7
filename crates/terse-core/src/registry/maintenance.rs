//! Deletion of expired rows, and the health of the registry.

use std::time::Duration;

use async_trait::async_trait;

use super::lease::FencingToken;
use super::store::RegistryError;
use crate::time::Timestamp;

/// How long an expired key is kept, so that its owner sees why it stopped working.
pub const EXPIRED_KEY_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long a settled delivery of a webhook is kept at most. Its body names links and their
/// targets.
pub const DELIVERY_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Upkeep of the whole registry.
#[async_trait]
pub trait RegistryMaintenance: Send + Sync + 'static {
    /// Deletes up to `limit` rows that expired by `now` and returns how many: sessions,
    /// invitations, keys that expired [`EXPIRED_KEY_RETENTION`] before, settled reports and audit
    /// records older than `keep`, and settled deliveries older than that or than
    /// [`DELIVERY_RETENTION`]. With the token of a lease, every batch is refused as `Fenced` once
    /// another node has the lease.
    async fn prune(
        &self,
        token: Option<FencingToken>,
        now: Timestamp,
        keep: Duration,
        limit: usize,
    ) -> Result<u64, RegistryError>;

    /// Returns once what was deleted and overwritten is gone from the registry's own files, as
    /// [`LinkStore::scrub`](crate::LinkStore::scrub) does for links.
    async fn scrub(&self) -> Result<(), RegistryError>;

    /// Checks whether writes are likely to succeed now.
    async fn check(&self) -> Result<(), RegistryError>;
}
