//! The registry's version, and the content with that version.

use async_trait::async_trait;
use terse_core::OwnerId;
use terse_core::registry::{RegistrySnapshot, RegistrySnapshots, RegistryVersion};

use super::{Answer, MemoryRegistry, State};

impl State {
    fn version(&self) -> RegistryVersion {
        RegistryVersion { incarnation: 1, version: self.version }
    }

    pub(super) fn suspended(&self) -> Vec<OwnerId> {
        let suspended = self.accounts.values().filter(|account| account.suspended.is_some());
        suspended.map(|account| account.id).collect()
    }
}

#[async_trait]
impl RegistrySnapshots for MemoryRegistry {
    async fn version(&self) -> Answer<RegistryVersion> {
        Ok(self.enter().await?.version())
    }

    async fn snapshot(&self) -> Answer<RegistrySnapshot> {
        let state = self.enter().await?;
        Ok(RegistrySnapshot {
            version: state.version(),
            suspended: state.suspended(),
            domains: state.domain_configs.values().cloned().collect(),
            blocked_hosts: state.blocked.values().cloned().collect(),
            branding: state.branding.clone(),
        })
    }
}
