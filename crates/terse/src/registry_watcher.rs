//! Keeps the redirect plane up to date with the registry: suspended owners, blocked hosts and short
//! domains. It reads the registry before the port opens, once a second, and when a handler asks.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use terse_core::registry::{RegistrySnapshot, RegistrySnapshots, RegistryVersion};
use terse_core::{BoxError, Links};
use terse_redirect::Redirector;
use terse_server::{PendingRefreshes, RefreshReceiver};
use terse_worker::{Context, Job, Next};
use tokio::time::timeout;

use crate::safety::Safety;

/// How often the watcher compares versions. Every node applies a suspension or a block within five
/// seconds.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the registry may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the registry for the redirect plane, which never waits for it. While the registry does not
/// answer, what was read last stays in force.
pub(crate) struct RegistryWatcher {
    registry: Arc<dyn RegistrySnapshots>,
    redirector: Arc<Redirector>,
    links: Arc<Links>,
    safety: Arc<Safety>,
    /// The version that is in force.
    known: Option<RegistryVersion>,
    refresh: RefreshReceiver,
    /// Handlers that wait for the next poll; they go on when this is dropped.
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

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        let polled = self.poll().await;
        self.pending = PendingRefreshes::default();
        polled?;
        Ok(Next::Interval)
    }
}

impl RegistryWatcher {
    /// Reads the registry for the first time, so that no visitor is answered without it.
    pub(crate) async fn begin(
        registry: Arc<dyn RegistrySnapshots>,
        redirector: Arc<Redirector>,
        links: Arc<Links>,
        safety: Arc<Safety>,
        refresh: RefreshReceiver,
    ) -> anyhow::Result<Self> {
        let (known, pending) = (None, PendingRefreshes::default());
        let mut watcher = Self { registry, redirector, links, safety, known, refresh, pending };
        watcher.poll().await.context("reading the registry of owners")?;
        Ok(watcher)
    }

    /// Compares versions, and reads and applies a snapshot if they differ.
    async fn poll(&mut self) -> anyhow::Result<()> {
        let read = async {
            if Some(self.registry.version().await?) == self.known {
                return anyhow::Ok(None);
            }
            Ok(Some(self.registry.snapshot().await?))
        };
        let read = timeout(TIMEOUT, read).await.context("it took too long")??;
        let Some(RegistrySnapshot { version, suspended, domains, blocked_hosts }) = read else {
            return Ok(());
        };
        self.redirector.set_domains(&domains);
        self.links.suspended().replace(suspended.iter().copied());
        let (redirector, safety) = (Arc::clone(&self.redirector), Arc::clone(&self.safety));
        // This may visit every cached route and compile all lists.
        let applying = tokio::task::spawn_blocking(move || {
            redirector.suspend(&suspended);
            // Screen the cache now instead of at the job's next poll. A handler that waits for this
            // poll answers only when this is done.
            if safety.block_host(&blocked_hosts) {
                redirector.rescreen();
            }
        });
        applying.await.context("applying the registry to the redirect plane")?;
        self.known = Some(version);
        Ok(())
    }
}
