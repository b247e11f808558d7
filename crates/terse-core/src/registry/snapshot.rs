//! The part of the registry that the redirect plane needs, and how it detects changes.

use async_trait::async_trait;

use super::domain_config::{BlockedHost, DomainConfig};
use super::store::RegistryError;
use crate::branding::Branding;
use crate::link::OwnerId;

/// The version of the data that the redirect plane needs: suspended owners, blocked hosts, short
/// domains and the look of pages. Two reads with the same version found the same content.
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

/// The data that the redirect plane needs, with the version of exactly this content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RegistrySnapshot {
    /// The version of this content.
    pub version: RegistryVersion,
    /// Suspended accounts, in the order of their ids.
    pub suspended: Vec<OwnerId>,
    /// Short domains that were added at run time, by name.
    pub domains: Vec<DomainConfig>,
    /// Hosts that moderators blocked, by name.
    pub blocked_hosts: Vec<BlockedHost>,
    /// What admins have set for the look of pages.
    pub branding: Branding,
}

/// Versions of the registry and their content.
#[async_trait]
pub trait RegistrySnapshots: Send + Sync + 'static {
    /// The current version. Cheap: every node reads it once a second. Sessions and the last use of
    /// keys never change it.
    async fn version(&self) -> Result<RegistryVersion, RegistryError>;

    /// Content and version, read in one snapshot of the store.
    async fn snapshot(&self) -> Result<RegistrySnapshot, RegistryError>;
}
