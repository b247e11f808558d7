//! Short domains that were added at run time, and hosts that moderators blocked.

use async_trait::async_trait;

use super::audit::Attribution;
use super::domain_config::{BlockedHost, DomainConfig};
use super::store::RegistryError;
use crate::domain::Domain;

/// Short domains that were added at run time.
#[async_trait]
pub trait DomainStore: Send + Sync + 'static {
    /// All of them, by name.
    async fn domain_configs(&self) -> Result<Vec<DomainConfig>, RegistryError>;

    /// Adds or changes a short domain. Changes the version.
    async fn put_domain(&self, domain: DomainConfig, by: Attribution) -> Result<(), RegistryError>;

    /// Removes a short domain; `Missing` if there is none. Changes the version.
    async fn remove_domain(&self, domain: &Domain, by: Attribution) -> Result<(), RegistryError>;
}

/// Hosts that moderators blocked.
#[async_trait]
pub trait BlocklistStore: Send + Sync + 'static {
    /// All of them, by name.
    async fn blocked_hosts(&self) -> Result<Vec<BlockedHost>, RegistryError>;

    /// Blocks a host. Does nothing if it is blocked already. Changes the version.
    async fn block_host(&self, host: BlockedHost, by: Attribution) -> Result<(), RegistryError>;

    /// Unblocks a host; `Missing` if it was not blocked. Changes the version.
    async fn unblock_host(&self, host: &str, by: Attribution) -> Result<(), RegistryError>;
}
