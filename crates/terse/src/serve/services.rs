//! The services: links with their policy, screening, cache and events.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use terse_clicks::UserAgentClassifier;
use terse_core::{Clock, Hosts, LinkStore, Links, OnChange, Operator};
use terse_redirect::{Redirector, Settings};

use super::policy;
use crate::backends::{Shared, Store};
use crate::config::Config;
use crate::metrics::{ChangeDelays, SharedCacheMetrics};
use crate::metrics_store::MetricsStore;
use crate::outgoing::Integrations;
use crate::safety::Safety;

/// The services that the planes and the jobs share.
pub(super) struct Services {
    /// The store of links, which records metrics of every call.
    pub(super) store: Arc<dyn LinkStore>,
    pub(super) classifier: Arc<UserAgentClassifier>,
    pub(super) safety: Arc<Safety>,
    pub(super) redirector: Arc<Redirector>,
    pub(super) links: Arc<Links>,
    pub(super) integrations: Integrations,
    pub(super) operator: Operator,
    /// What this node shares with others beside the store.
    pub(super) shared: Shared,
    /// Measures how long changes took to reach this node.
    pub(super) on_change: OnChange,
}

impl Services {
    pub(super) async fn open(
        config: &Config,
        store: &Store,
        hosts: &Hosts,
        port: u16,
        settings: Settings,
        clock: &Clock,
        metrics: &mut Registry,
    ) -> anyhow::Result<Self> {
        let link_store: Arc<dyn LinkStore> =
            Arc::new(MetricsStore::new(Arc::clone(&store.links), metrics));
        let classifier = Arc::new(UserAgentClassifier::new(config.clicks.geo_database.clone()));
        let operator = policy::operator(config)?;
        let safety = Arc::new(Safety::open(config, hosts, clock)?);
        let mut shared = Shared::open(config, &link_store, clock).await?;
        let on_change = ChangeDelays::register(metrics).observer(clock);
        if let Some(counts) = shared.counts.take() {
            metrics.register_collector(Box::new(SharedCacheMetrics(counts)));
        }
        let redirector = Redirector::new(
            Arc::clone(&shared.reader),
            link_store.clone(),
            hosts.clone(),
            port,
            &policy::failure_pages(&operator, hosts),
            settings,
            clock.clone(),
        );
        let redirector =
            Arc::new(redirector.with_classifier(classifier.clone()).screened_by(safety.judging()));
        let identity = store.links.identity();
        let integrations = Integrations::open(config, &store.registry, identity, hosts).await?;
        let links = Links::new(
            Arc::clone(&link_store),
            policy::code_source(config, &link_store, clock),
            shared.announcing(redirector.clone(), Arc::clone(&on_change)),
            safety.judging(),
            policy::link_policy(config, hosts.clone(), policy::unwanted_aliases(config)?)?,
            clock.clone(),
        );
        let links = policy::with_audit(links, &store.registry);
        let links = Arc::new(policy::with_events(links, &integrations));
        Ok(Self {
            store: link_store,
            classifier,
            safety,
            redirector,
            links,
            integrations,
            operator,
            shared,
            on_change,
        })
    }
}
