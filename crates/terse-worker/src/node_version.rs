//! Reports which links this node can read, so that no node writes what an earlier one cannot.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::link_codec::{self, CodecLimit};
use terse_core::registry::{NodeId, NodeVersions, RegistryError};

/// How often a node reports.
const INTERVAL: Duration = Duration::from_secs(30);

/// Reports this node, and sets the version that its links may have.
pub struct NodeReport {
    /// Keeps the reports.
    pub nodes: Arc<dyn NodeVersions>,
    /// This node.
    pub node: NodeId,
    /// What the service of links reads.
    pub limit: CodecLimit,
}

impl NodeReport {
    /// Reports once. Called before the node serves requests, too.
    pub async fn report(&self) -> Result<(), RegistryError> {
        let lowest = self.nodes.report_node(&self.node, link_codec::LATEST).await?;
        if self.limit.set(lowest) != lowest {
            tracing::info!(version = lowest, "links may use what all nodes can read");
        }
        Ok(())
    }
}

#[async_trait]
impl Job for NodeReport {
    fn name(&self) -> &'static str {
        "node report"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        self.report().await?;
        Ok(NextRun::Interval)
    }

    async fn finish(&mut self) {
        if let Err(error) = self.nodes.forget_node(&self.node).await {
            tracing::debug!(%error, "the end of this node could not be reported");
        }
    }
}

#[cfg(test)]
mod tests {
    use terse_core::link_codec::LATEST;
    use terse_testkit::MemoryRegistry;

    use super::*;

    #[tokio::test]
    async fn links_use_a_new_version_once_the_last_earlier_node_has_stopped() {
        let nodes = Arc::new(MemoryRegistry::default());
        let node = |name| NodeId::parse(name).unwrap();
        let limit = CodecLimit::default();
        let mut report =
            NodeReport { nodes: nodes.clone(), node: node("new"), limit: limit.clone() };
        report.report().await.unwrap();
        assert!(limit.allows(LATEST));
        nodes.report_node(&node("old"), LATEST - 1).await.unwrap();
        report.report().await.unwrap();
        assert!(limit.allows(LATEST - 1) && !limit.allows(LATEST));
        nodes.forget_node(&node("old")).await.unwrap();
        report.report().await.unwrap();
        assert!(limit.allows(LATEST));
        report.finish().await;
        assert_eq!(nodes.report_node(&node("older"), 1).await.unwrap(), 1);
        nodes.forget_node(&node("older")).await.unwrap();
        assert_eq!(nodes.report_node(&node("old"), 2).await.unwrap(), 2);
    }
}
