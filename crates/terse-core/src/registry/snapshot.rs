//! What the redirect plane must know of the registry, and how it learns that this changed.

use async_trait::async_trait;

use super::domain_config::{BlockedHost, DomainConfig};
use super::store::RegistryError;
use crate::link::OwnerId;

/// Names one state of what the redirect plane must know: suspended owners, blocked hosts and short
/// domains. Two reads with the same version found the same content.
///
/// Versions have no order: a restored backup counts again from an earlier number, under another
/// incarnation. A reader compares for inequality and reads again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RegistryVersion {
    /// A number of the store itself that changes when a backup is restored.
    pub incarnation: u64,
    /// How many changes the store has seen. The store raises it in the transaction of the change,
    /// by the last statement, so that versions become visible in the order of commits.
    pub version: u64,
}

/// All that the redirect plane must know, with the version of exactly this content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RegistrySnapshot {
    /// The version of what follows.
    pub version: RegistryVersion,
    /// Accounts whose links lead nowhere, in the order of their ids.
    pub suspended: Vec<OwnerId>,
    /// Short domains that were added while running, by name.
    pub domains: Vec<DomainConfig>,
    /// Hosts that moderators blocked, by name.
    pub blocked_hosts: Vec<BlockedHost>,
}

/// Versions of the registry and the content they stand for.
#[async_trait]
pub trait RegistrySnapshots: Send + Sync + 'static {
    /// The version of now. Cheap: every node asks once a second. Sessions and the last use of keys
    /// never change it.
    async fn version(&self) -> Result<RegistryVersion, RegistryError>;

    /// Content and version, read in one snapshot of the store.
    async fn snapshot(&self) -> Result<RegistrySnapshot, RegistryError>;
}
