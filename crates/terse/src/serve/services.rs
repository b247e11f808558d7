//! The services: links with their policy, screening, cache and events.

use std::sync::Arc;

use anyhow::Context as _;
use terse_clicks::UserAgentClassifier;
use terse_core::link_codec::CodecLimit;
use terse_core::{
    ChangeCallback, ChangeFollower, Clock, EffectiveOperator, Hosts, LinkStore, Links,
};
use terse_metrics::{ChangeDelays, Exposition, MetricsStore};
use terse_redirect::{RedirectSettings, Redirector};
use terse_safety::Safety;
use terse_server::Passwords;
use terse_worker::{
    ApplyRegistry, LinkChanges, NodeReport, RegistryRefresh, RegistryWatcher, Scheduler,
};

use super::{credentials, policy, safety};
use crate::backends::{SharedServices, Stores};
use crate::config::Config;
use crate::outgoing::Integrations;

/// The services that the planes and the jobs share.
pub(super) struct Services {
    /// The store of links, which records metrics of every call.
    pub(super) store: Arc<dyn LinkStore>,
    pub(super) classifier: Arc<UserAgentClassifier>,
    pub(super) safety: Arc<Safety>,
    pub(super) redirector: Arc<Redirector>,
    pub(super) links: Arc<Links>,
    pub(super) passwords: Passwords,
    pub(super) integrations: Integrations,
    pub(super) operator: Arc<EffectiveOperator>,
    hosts: Hosts,
    /// What this node shares with others beside the store.
    pub(super) shared: SharedServices,
    /// Measures how long changes took to reach this node.
    pub(super) on_change: ChangeCallback,
    /// Reports this node to the others; none where it is alone.
    pub(super) node_report: Option<NodeReport>,
}

impl Services {
    pub(super) async fn open(
        config: &Config,
        store: &Stores,
        hosts: &Hosts,
        port: u16,
        settings: RedirectSettings,
        clock: &Clock,
        metrics: &mut Exposition,
    ) -> anyhow::Result<Self> {
        let link_store: Arc<dyn LinkStore> =
            Arc::new(MetricsStore::new(Arc::clone(&store.links), metrics));
        let classifier = Arc::new(UserAgentClassifier::new(config.clicks.geo_database.clone()));
        let operator = Arc::new(EffectiveOperator::new(policy::operator(config)?));
        let screening = Arc::new(Safety::open(safety::settings(config), hosts, clock)?);
        let mut shared = SharedServices::open(config, &link_store, clock).await?;
        let on_change = ChangeDelays::register(metrics).observer(clock);
        let redirector = Redirector::new(
            Arc::clone(&shared.reader),
            link_store.clone(),
            hosts.clone(),
            port,
            &policy::failure_pages(&operator.current(), hosts),
            settings,
            clock.clone(),
        );
        let redirector = Arc::new(
            redirector
                .with_classifier(classifier.clone())
                .screened_by(screening.screen_with_lookup()),
        );
        let identity = store.links.identity();
        let integrations = Integrations::open(config, &store.registry, identity, hosts).await?;
        let links = Links::new(
            Arc::clone(&link_store),
            policy::code_source(config, &link_store, clock),
            shared.announcing(redirector.clone(), Arc::clone(&on_change)),
            screening.screen_with_lookup(),
            policy::link_policy(config, hosts.clone(), policy::unwanted_aliases(config)?)?,
            clock.clone(),
        );
        let passwords = credentials::passwords();
        let links = links.with_passwords(Arc::new(passwords.clone()));
        let codec_limit = CodecLimit::default();
        let links = links.with_codec_limit(codec_limit.clone());
        let node_report = match config.is_shared() {
            true => {
                Some(NodeReport::begin(store.registry.clone(), store.node(), codec_limit).await)
            }
            false => None,
        };
        let links = policy::with_audit(links, &store.registry);
        let links = Arc::new(policy::with_events(links, &integrations));
        Ok(Self {
            store: link_store,
            classifier,
            safety: screening,
            redirector,
            links,
            passwords,
            integrations,
            operator,
            hosts: hosts.clone(),
            shared,
            on_change,
            node_report,
        })
    }

    /// Reads the registry and the end of the change feed, and adds the jobs that follow both.
    /// Called before the first request: no link that a moderator has blocked may be created or
    /// followed.
    pub(super) async fn follow(
        &self,
        store: &Stores,
        jobs: &mut Scheduler,
    ) -> anyhow::Result<RegistryRefresh> {
        let (refresh, receiver) = RegistryRefresh::new();
        let watcher =
            RegistryWatcher::begin(store.registry.clone(), self.apply_registry(), receiver).await;
        let watcher = watcher.map_err(anyhow::Error::from_boxed);
        jobs.add(watcher.context("reading the registry of owners")?);
        let mut follower = ChangeFollower::new(self.store.clone(), self.redirector.clone())
            .with_shared(self.shared.cache.clone())
            .on_change(Arc::clone(&self.on_change));
        // Now, while the cache is empty: the first poll starts at the end of the feed.
        follower.poll().await.context("reading the changes of links")?;
        jobs.add(LinkChanges(follower));
        Ok(refresh)
    }

    /// Applies the registry to the redirect plane: suspended owners, blocked hosts, short domains,
    /// and the look of pages.
    fn apply_registry(&self) -> ApplyRegistry {
        let (redirector, links) = (Arc::clone(&self.redirector), Arc::clone(&self.links));
        let (safety, operator) = (Arc::clone(&self.safety), Arc::clone(&self.operator));
        let hosts = self.hosts.clone();
        Arc::new(move |registry| {
            if operator.apply(&registry.branding) {
                redirector.set_failure_pages(&policy::failure_pages(&operator.current(), &hosts));
            }
            redirector.set_domains(&registry.domains);
            links.suspended().replace(registry.suspended.iter().copied());
            redirector.suspend(&registry.suspended);
            // Screen the cache now instead of at the job's next poll. A handler that waits for the
            // watcher answers only when this is done.
            if safety.block_host(&registry.blocked_hosts) {
                redirector.rescreen();
            }
        })
    }
}
