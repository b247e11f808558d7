//! What the registry knows and visitors feel, brought to the redirect plane: at start, once a
//! second, and when somebody rings.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use terse_core::Links;
use terse_core::registry::{Registry, RegistryVersion};
use terse_redirect::Redirector;
use terse_server::{PendingRefreshes, RefreshReceiver};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::safety::Safety;

/// How often it is asked whether anything changed. A ban or a block is to be felt within five
/// seconds on every node.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the registry may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Looks into the registry for those who must not wait for it. While it is away, what was known
/// holds.
pub(crate) struct RegistryWatcher {
    registry: Arc<dyn Registry>,
    redirector: Arc<Redirector>,
    links: Arc<Links>,
    safety: Arc<Safety>,
    /// What was read was at least this new.
    known: Option<RegistryVersion>,
    away: bool,
}

impl RegistryWatcher {
    /// Reads it for the first time, so that nobody is answered without it.
    pub(crate) async fn begin(
        registry: Arc<dyn Registry>,
        redirector: Arc<Redirector>,
        links: Arc<Links>,
        safety: Arc<Safety>,
    ) -> anyhow::Result<Self> {
        let mut watch = Self { registry, redirector, links, safety, known: None, away: false };
        watch.look().await.context("reading the registry of owners")?;
        Ok(watch)
    }

    /// Looks until told to stop.
    pub(crate) async fn run(
        mut self,
        mut registry_refresh: RefreshReceiver,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut looks = interval(POLL_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Whoever rang is let go when this is dropped.
            let _rung = tokio::select! {
                _ = looks.tick() => PendingRefreshes::default(),
                requested = registry_refresh.requested() => requested,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            match self.look().await {
                Ok(()) if self.away => tracing::info!("the registry of owners answers again"),
                Ok(()) => {}
                Err(error) if !self.away => {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "the registry of owners does not answer; what is known holds"
                    );
                    self.away = true;
                    continue;
                }
                Err(_) => continue,
            }
            self.away = false;
        }
    }

    async fn look(&mut self) -> anyhow::Result<()> {
        let read = async {
            // Before the rest: what changes in between is found at the next look.
            let mark = self.registry.version().await?;
            if self.known == Some(mark) {
                return anyhow::Ok(None);
            }
            let read = (
                self.registry.suspended().await?,
                self.registry.domain_configs().await?,
                self.registry.blocked_hosts().await?,
            );
            Ok(Some((mark, read)))
        };
        let read = timeout(TIMEOUT, read).await.context("it took too long")??;
        let Some((mark, (suspended, places, blocked))) = read else { return Ok(()) };
        self.redirector.set_domains(&places);
        self.links.suspended().replace(suspended.iter().copied());
        let (redirector, safety) = (Arc::clone(&self.redirector), Arc::clone(&self.safety));
        // It may look at every remembered route, and compile all lists.
        let telling = tokio::task::spawn_blocking(move || {
            redirector.suspend(&suspended);
            // Whoever looks after remembered routes would do so in a moment; whoever rings has it
            // done.
            if safety.block_by_hand(&blocked) {
                redirector.rescreen();
            }
        });
        telling.await.context("telling the redirect plane")?;
        self.known = Some(mark);
        Ok(())
    }
}
