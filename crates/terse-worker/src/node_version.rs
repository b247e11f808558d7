//! Reports which links this node can read, so that no node writes what an earlier one cannot.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::link_codec::{CodecLimit, LATEST, LINK_CODEC_VERSION};
use terse_core::registry::{NODE_MEMORY, NodeId, NodeVersions, RegistryError};
use tokio::time::Instant;

/// How often a node reports.
const INTERVAL: Duration = Duration::from_secs(30);

/// Reports this node, and sets the version that its links may have.
pub struct NodeReport {
    nodes: Arc<dyn NodeVersions>,
    node: NodeId,
    /// What the service of links reads.
    limit: CodecLimit,
    reported_at: Instant,
}

impl NodeReport {
    /// Reports for the first time. Called before the node serves requests. A node whose report
    /// fails starts all the same, and gives links no field that the first version did not have.
    pub async fn begin(nodes: Arc<dyn NodeVersions>, node: NodeId, limit: CodecLimit) -> Self {
        limit.set(LINK_CODEC_VERSION);
        let mut report = Self { nodes, node, limit, reported_at: Instant::now() };
        if let Err(error) = report.report().await {
            tracing::warn!(%error, "this node could not be reported to the registry");
        }
        report
    }

    async fn report(&mut self) -> Result<(), RegistryError> {
        let asked = Instant::now();
        let lowest = self.nodes.report_node(&self.node, LATEST).await?;
        self.reported_at = asked;
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
        let reported = self.report().await;
        // A node of an earlier version may have started since, which this one has not heard of.
        if reported.is_err() && self.reported_at.elapsed() > NODE_MEMORY {
            self.limit.set(LINK_CODEC_VERSION);
        }
        reported?;
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
    use terse_testkit::MemoryRegistry;

    use super::*;

    #[tokio::test]
    async fn links_use_a_new_version_once_the_last_earlier_node_has_stopped() {
        let nodes = Arc::new(MemoryRegistry::default());
        let node = |name| NodeId::parse(name).unwrap();
        let limit = CodecLimit::default();
        let mut report = NodeReport::begin(nodes.clone(), node("new"), limit.clone()).await;
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

    #[tokio::test(start_paused = true)]
    async fn a_node_that_cannot_report_gives_links_nothing_new() {
        let nodes = Arc::new(MemoryRegistry::default());
        let limit = CodecLimit::default();
        nodes.fail(true);
        let node = NodeId::parse("new").unwrap();
        let mut report = NodeReport::begin(nodes.clone(), node, limit.clone()).await;
        assert!(limit.allows(LINK_CODEC_VERSION) && !limit.allows(LATEST));
        nodes.fail(false);
        report.report().await.unwrap();
        assert!(limit.allows(LATEST));
        // An outage of a minute changes nothing, and one that outlasts the memory of others does.
        nodes.fail(true);
        for (seconds, allows) in [(60, true), (600, false)] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert!(report.run(&JobContext::without_lease()).await.is_err());
            assert_eq!(limit.allows(LATEST), allows, "{seconds}");
        }
    }
}
