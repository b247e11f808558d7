//! Requests to other servers that the operator has enabled: webhooks, titles, checks of targets.
//! One guarded client sends them all. If all are disabled there is no client, no thread and no job.

mod cdn;
pub(crate) mod mail;
mod oidc;

use std::sync::Arc;

use anyhow::Context as _;
use terse_core::registry::{Registry, WebhookKey};
use terse_core::webhooks::WebhookState;
use terse_core::{
    Clock, Hosts, HttpClient, HttpExchange, LinkEvents, LinkStore, Links, NoEvents, OutboxDrain,
    StoreIdentity, TargetRules,
};
use terse_outgoing::{OutgoingClient, OutgoingSettings};
use terse_traces::{SpanQueue, TraceExport, TraceExportSettings};
use terse_worker::{
    LinkChecker, LinkListeners, MAX_CHECKS, MAX_PAGES, MAX_POSTS, OutboxDelivery, OutgoingCounts,
    Scheduler, TitleFetcher, UntitledLink, WebhookDelivery, WebhookEvents, WebhookOwnersRefresh,
};
use tokio::sync::mpsc;

use crate::backends::Stores;
use crate::config::Config;
pub(crate) use cdn::edge_caches;
pub(crate) use oidc::ProviderHttp;

/// A client of its own for one purpose, which sends no request by itself.
pub(crate) fn client(config: &Config, allow_private: bool) -> Arc<dyn HttpClient> {
    let mut settings = OutgoingSettings::new(env!("CARGO_PKG_VERSION"), config.base_url().as_str());
    settings.allow_private = allow_private;
    Arc::new(OutgoingClient::new(settings))
}

/// The client for the certificate authority of `tls.acme`. With a root certificate of the
/// operator's own, the authority is the operator's, and may be in a private network; others may
/// not.
pub(crate) fn authority_client(config: &Config) -> anyhow::Result<Arc<dyn HttpExchange>> {
    let mut settings = OutgoingSettings::new(env!("CARGO_PKG_VERSION"), config.base_url().as_str());
    if let Some(path) = &config.tls.acme.directory_ca {
        let roots = terse_tls::read_roots(path).context("tls.acme.directory_ca")?;
        (settings.trust_only, settings.allow_private) = (roots, true);
    }
    Ok(Arc::new(OutgoingClient::new(settings)))
}

/// The job that sends spans to the collector of `traces.url`, which is usually in a private
/// network.
pub(crate) fn trace_export(
    config: &Config,
    store: &Stores,
    spans: SpanQueue,
) -> Option<TraceExport> {
    let settings = TraceExportSettings {
        url: config.traces.url.clone()?,
        authorization: config.traces.authorization.clone(),
        version: env!("CARGO_PKG_VERSION"),
        node: store.node().to_string(),
    };
    Some(TraceExport::new(settings, client(config, true), spans))
}

/// The enabled integrations.
pub(crate) struct Integrations {
    events: Option<WebhookEvents>,
    titles: Option<(mpsc::Sender<UntitledLink>, mpsc::Receiver<UntitledLink>)>,
    client: Option<Arc<dyn HttpClient>>,
    pub(crate) counts: Arc<OutgoingCounts>,
}

impl Integrations {
    /// If webhooks are enabled, reads which owners have some, so that no later event is missed.
    pub(crate) async fn open(
        config: &Config,
        registry: &Arc<dyn Registry>,
        identity: &StoreIdentity,
        hosts: &Hosts,
    ) -> anyhow::Result<Self> {
        let counts: Arc<OutgoingCounts> = Arc::default();
        let settings = &config.outgoing;
        let events = if settings.webhooks {
            let key = WebhookKey::new(identity.derive("terse webhooks v1"));
            let rules =
                TargetRules { allow_private: settings.allow_private, ..TargetRules::default() };
            let webhooks =
                WebhookState { key, rules, owners: Arc::default(), wake: Arc::default() };
            let (registry, hosts) = (Arc::clone(registry), hosts.clone());
            let link_json = Arc::new(move |link: &_, at| terse_server::link_json(link, &hosts, at));
            let events = WebhookEvents::open(webhooks, registry, link_json, Arc::clone(&counts));
            Some(events.await.context("reading which owners have webhooks")?)
        } else {
            None
        };
        let any = settings.webhooks || settings.titles || settings.check_targets;
        let client = any.then(|| {
            let mut client =
                OutgoingSettings::new(env!("CARGO_PKG_VERSION"), config.base_url().as_str());
            client.allow_private = settings.allow_private;
            client.max_concurrent = MAX_POSTS + MAX_PAGES + MAX_CHECKS;
            Arc::new(OutgoingClient::new(client)) as Arc<dyn HttpClient>
        });
        Ok(Self { events, titles: settings.titles.then(TitleFetcher::queue), client, counts })
    }

    /// The webhooks, for the API.
    pub(crate) fn webhooks(&self) -> Option<WebhookState> {
        self.events.as_ref().map(|events| events.webhooks().clone())
    }

    /// The listener for link events, if an integration needs one.
    pub(crate) fn events(&self) -> Option<Arc<dyn LinkEvents>> {
        match (&self.events, &self.titles) {
            (None, None) => None,
            (events, titles) => Some(Arc::new(LinkListeners {
                webhooks: events.clone(),
                titles: titles.as_ref().map(|(queue, _)| queue.clone()),
                counts: Arc::clone(&self.counts),
            })),
        }
    }

    /// Adds the jobs of the enabled integrations.
    pub(crate) fn add_jobs(
        self,
        config: &Config,
        store: &Arc<dyn LinkStore>,
        links: &Arc<Links>,
        clock: &Clock,
        scheduler: &mut Scheduler,
    ) {
        if config.roles.worker {
            let listener = self.events().unwrap_or_else(|| Arc::new(NoEvents));
            let drain = OutboxDrain::new(Arc::clone(store), listener, clock.clone());
            scheduler.add(OutboxDelivery::new(drain, self.events.as_ref()));
        }
        let Some(client) = self.client else { return };
        if let Some(events) = self.events {
            scheduler.add(WebhookOwnersRefresh(events.clone()));
            if config.roles.worker {
                scheduler.add(WebhookDelivery::new(events, Arc::clone(&client), clock.clone()));
            }
        }
        if let Some((_, waiting)) = self.titles {
            let (links, client) = (Arc::clone(links), Arc::clone(&client));
            scheduler.add(TitleFetcher::new(waiting, links, client, Arc::clone(&self.counts)));
        }
        if config.outgoing.check_targets && config.roles.worker {
            let links = Arc::clone(links);
            scheduler.add(LinkChecker::new(links, client, clock.clone(), self.counts));
        }
    }
}
