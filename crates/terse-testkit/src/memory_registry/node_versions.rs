//! Which nodes run, and what they can read.

use async_trait::async_trait;
use terse_core::registry::{NodeId, NodeVersions};

use super::{Answer, MemoryRegistry};

#[async_trait]
impl NodeVersions for MemoryRegistry {
    async fn report_node(&self, node: &NodeId, version: u8) -> Answer<u8> {
        let mut state = self.enter().await?;
        state.nodes.insert(node.to_string(), version);
        Ok(state.nodes.values().copied().min().unwrap_or(version))
    }

    async fn lowest_version(&self) -> Answer<Option<u8>> {
        Ok(self.enter().await?.nodes.values().copied().min())
    }

    async fn forget_node(&self, node: &NodeId) -> Answer<()> {
        self.enter().await?.nodes.remove(node.as_str());
        Ok(())
    }
}
