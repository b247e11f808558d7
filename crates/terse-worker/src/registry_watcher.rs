//! Keeps the redirect plane up to date with the registry: suspended owners, blocked hosts and short
//! domains. It reads the registry before the port opens, once a second, and when a handler asks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{RegistrySnapshot, RegistrySnapshots, RegistryVersion};
use tokio::time::timeout;

use crate::registry_refresh::{PendingRefreshes, RefreshReceiver};

/// How often the watcher compares versions. Every node applies a suspension or a block within five
/// seconds.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the registry may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Applies the registry to this node. It may visit every cached route, so it runs on a thread that
/// may block.
pub type ApplyRegistry = Arc<dyn Fn(&RegistrySnapshot) + Send + Sync>;

/// Reads the registry for the redirect plane, which never waits for it. While the registry does not
/// answer, what was read last stays in force.
pub struct RegistryWatcher {
    registry: Arc<dyn RegistrySnapshots>,
    apply: ApplyRegistry,
    /// The version that is in force.
    known: Option<RegistryVersion>,
    refresh: RefreshReceiver,
    /// Handlers that wait for the next poll; they continue when this is dropped.
    pending: PendingRefreshes,
}

#[async_trait]
impl Job for RegistryWatcher {
    fn name(&self) -> &'static str {
        "registry watcher"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn wake(&mut self) {
        self.pending = self.refresh.requested().await;
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        let polled = self.poll().await;
        self.pending = PendingRefreshes::default();
        polled?;
        Ok(NextRun::Interval)
    }
}

impl RegistryWatcher {
    /// Reads the registry for the first time, so that no visitor is answered without it.
    pub async fn begin(
        registry: Arc<dyn RegistrySnapshots>,
        apply: ApplyRegistry,
        refresh: RefreshReceiver,
    ) -> Result<Self, BoxError> {
        let (known, pending) = (None, PendingRefreshes::default());
        let mut watcher = Self { registry, apply, known, refresh, pending };
        watcher.poll().await?;
        Ok(watcher)
    }

    /// Compares versions, and reads and applies a snapshot if they differ.
    async fn poll(&mut self) -> Result<(), BoxError> {
        let read = async {
            if Some(self.registry.version().await?) == self.known {
                return Ok::<_, BoxError>(None);
            }
            Ok(Some(self.registry.snapshot().await?))
        };
        let Some(snapshot) = timeout(TIMEOUT, read).await?? else { return Ok(()) };
        let (version, apply) = (snapshot.version, Arc::clone(&self.apply));
        tokio::task::spawn_blocking(move || apply(&snapshot)).await?;
        self.known = Some(version);
        Ok(())
    }
}
