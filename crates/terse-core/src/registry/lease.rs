//! Leases: which node runs a background job, and how a node that lost its lease is stopped.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::store::RegistryError;
use crate::time::Timestamp;

/// The name of a node, unique within the fleet and the same after a restart of that node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NodeId(Box<str>);

impl NodeId {
    /// The longest name, in characters.
    pub const MAX_LENGTH: usize = 64;

    /// One to 64 visible ASCII characters; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let is_valid = (1..=Self::MAX_LENGTH).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Proof of a lease, to be sent with every write of a job. The store refuses a token that is not
/// the current one of its lease.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FencingToken {
    /// The lease it belongs to.
    pub lease: &'static str,
    /// Grows with every [`JobLease::acquire_lease`] and never repeats.
    pub number: u64,
}

/// A lease that a node holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lease {
    /// The token that the node sends with the writes of its jobs.
    pub token: FencingToken,
    /// The node that holds it.
    pub node: NodeId,
    /// When other nodes may take it, by the store's clock. A holder compares this with no clock of
    /// its own: it counts the requested time from before its call.
    pub expires_at: Timestamp,
}

/// Named leases with fencing tokens. All times are the store's.
///
/// A token stays current until the next `acquire_lease` that succeeds or until `release_lease`.
/// Expiry alone does not end it: it only allows another node to acquire the lease.
#[async_trait]
pub trait JobLease: Send + Sync + 'static {
    /// Takes a lease for `ttl`. Succeeds if no node holds it, if the last holder's time is over, or
    /// if `node` itself is the last holder (a node that restarted does not wait for its own lease).
    /// Every success raises the token, so that earlier holders are refused. `None` while another
    /// node holds the lease.
    async fn acquire_lease(
        &self,
        lease: &'static str,
        node: &NodeId,
        ttl: Duration,
    ) -> Result<Option<Lease>, RegistryError>;

    /// Extends a lease until `ttl` from now; the token stays the same. `Fenced` if the token is not
    /// current any more.
    async fn renew_lease(
        &self,
        token: FencingToken,
        ttl: Duration,
    ) -> Result<Timestamp, RegistryError>;

    /// Gives a lease back: any node may acquire it at once, and the token is refused from now on.
    /// Does nothing if the token is not current any more.
    async fn release_lease(&self, token: FencingToken) -> Result<(), RegistryError>;

    /// `Fenced` unless the token is current. A job calls this before an effect outside the
    /// registry, which the registry cannot refuse.
    async fn check_lease(&self, token: FencingToken) -> Result<(), RegistryError>;
}

/// The largest progress of one job, in bytes.
pub const MAX_PROGRESS_BYTES: usize = 64 * 1024;

/// Checks the size of a job's progress, the same in every registry.
pub fn check_progress_size(progress: &[u8]) -> Result<(), RegistryError> {
    if progress.len() > MAX_PROGRESS_BYTES { Err(RegistryError::TooMany) } else { Ok(()) }
}

/// How far each background job has come, so that the next holder of the lease continues there.
#[async_trait]
pub trait JobProgress: Send + Sync + 'static {
    /// The progress that the job wrote last.
    async fn job_progress(&self, job: &str) -> Result<Option<Vec<u8>>, RegistryError>;

    /// Replaces the progress of a job. `Fenced`, and nothing is written, if the token is not
    /// current. `TooMany` above [`MAX_PROGRESS_BYTES`].
    async fn put_job_progress(
        &self,
        token: FencingToken,
        job: &str,
        progress: &[u8],
    ) -> Result<(), RegistryError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_id_is_short_visible_ascii() {
        assert_eq!(NodeId::parse("terse-0").unwrap().as_str(), "terse-0");
        for wrong in ["", "a b", "ä", "a\n", &"x".repeat(65)] {
            assert_eq!(NodeId::parse(wrong), None, "{wrong:?}");
        }
        assert!(NodeId::parse(&"x".repeat(64)).is_some());
    }
}
