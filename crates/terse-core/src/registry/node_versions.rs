//! Which nodes run, and what they can read.

use std::time::Duration;

use async_trait::async_trait;

use super::lease::NodeId;
use super::store::RegistryError;

/// How long after its last report a node counts as running.
pub const NODE_MEMORY: Duration = Duration::from_secs(10 * 60);

/// The versions of [`link_codec`](crate::link_codec) that the nodes of a fleet can read.
#[async_trait]
pub trait NodeVersions: Send + Sync + 'static {
    /// Notes that a node runs and reads links up to this version. Returns the lowest version of the
    /// nodes that have reported within [`NODE_MEMORY`] by the store's clock, this one among them.
    async fn report_node(&self, node: &NodeId, version: u8) -> Result<u8, RegistryError>;

    /// The lowest version of the nodes that run; `None` if none does. For a command, which is no
    /// node.
    async fn lowest_version(&self) -> Result<Option<u8>, RegistryError>;

    /// Notes that a node has stopped.
    async fn forget_node(&self, node: &NodeId) -> Result<(), RegistryError>;
}
