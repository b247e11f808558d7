//! Requests to other servers that the operator has enabled: webhooks, titles, checks of targets.
//! One guarded client sends them all. If all are disabled there is no client, no thread and no job.

mod hooks;
mod link_checker;
mod name_lookup;
mod oidc;
mod sender;
mod titles;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context as _;
use terse_core::registry::{Registry, WebhookKey};
use terse_core::{
    Clock, Hosts, Identity, LinkEvents, LinkStore, Links, NoEvents, OutboxDrain, TargetRules,
};
use terse_outgoing::{Outgoing, OutgoingSettings};
use terse_server::Webhooks;
use terse_worker::Scheduler;
use tokio::sync::mpsc;

use crate::config::Config;
use hooks::{Hooks, OutboxDelivery, WebhookOwners};
use link_checker::LinkChecker;
pub(crate) use name_lookup::SystemLookup;
pub(crate) use oidc::ProviderHttp;
use sender::WebhookDelivery;
use titles::{Titles, Untitled};

/// The largest number of webhook deliveries at once.
const POSTS: usize = 12;
/// The largest numbers of title fetches and target checks at once. The client's limit is the sum of
/// all three.
const PAGES: usize = 2;
const CHECKS: usize = 2;

/// Counters of the integrations.
#[derive(Debug, Default)]
pub(crate) struct OutgoingCounts {
    /// Events stored for delivery.
    pub(crate) enqueued: AtomicU64,
    /// Events lost because they could not be stored.
    pub(crate) lost: AtomicU64,
    /// Deliveries that a receiver accepted.
    pub(crate) delivered: AtomicU64,
    /// Deliveries that failed and will be retried.
    pub(crate) again: AtomicU64,
    /// Events dropped after the last retry.
    pub(crate) given_up: AtomicU64,
    /// Webhooks that were disabled.
    pub(crate) disabled: AtomicU64,
    /// Titles found.
    pub(crate) titles: AtomicU64,
    /// Pages that have no title or could not be read.
    pub(crate) untitled: AtomicU64,
    /// Links skipped because the queue of titles was full.
    pub(crate) skipped: AtomicU64,
    /// Targets that answered.
    pub(crate) reached: AtomicU64,
    /// Targets that did not answer.
    pub(crate) unreached: AtomicU64,
}

/// The enabled integrations.
pub(crate) struct Integrations {
    hooks: Option<Hooks>,
    titles: Option<(mpsc::Sender<Untitled>, mpsc::Receiver<Untitled>)>,
    client: Option<Arc<Outgoing>>,
    pub(crate) counts: Arc<OutgoingCounts>,
}

impl Integrations {
    /// If webhooks are enabled, reads which owners have some, so that no later event is missed.
    pub(crate) async fn open(
        config: &Config,
        registry: &Arc<dyn Registry>,
        identity: &Identity,
        hosts: &Hosts,
    ) -> anyhow::Result<Self> {
        let counts: Arc<OutgoingCounts> = Arc::default();
        let settings = &config.outgoing;
        let hooks = if settings.webhooks {
            let key = WebhookKey::new(identity.derive("terse webhooks v1"));
            let rules =
                TargetRules { allow_private: settings.allow_private, ..TargetRules::default() };
            let desk = Webhooks { key, rules, owners: Arc::default(), wake: Arc::default() };
            let hooks = Hooks {
                desk,
                registry: Arc::clone(registry),
                hosts: hosts.clone(),
                counts: Arc::clone(&counts),
                outbox: Arc::default(),
            };
            hooks.refresh().await.context("reading which owners have webhooks")?;
            Some(hooks)
        } else {
            None
        };
        let any = settings.webhooks || settings.titles || settings.check_targets;
        let client = any.then(|| {
            let mut client =
                OutgoingSettings::new(env!("CARGO_PKG_VERSION"), config.base_url().as_str());
            client.allow_private = settings.allow_private;
            client.max_concurrent = POSTS + PAGES + CHECKS;
            Arc::new(Outgoing::new(client))
        });
        Ok(Self { hooks, titles: settings.titles.then(titles::queue), client, counts })
    }

    /// The webhooks, for the API.
    pub(crate) fn webhooks(&self) -> Option<Webhooks> {
        self.hooks.as_ref().map(|hooks| hooks.desk.clone())
    }

    /// The listener for link events, if an integration needs one.
    pub(crate) fn events(&self) -> Option<Arc<dyn LinkEvents>> {
        match (&self.hooks, &self.titles) {
            (None, None) => None,
            (hooks, titles) => Some(Arc::new(hooks::Listeners {
                hooks: hooks.clone(),
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
            // Also without webhooks: what was written while they were on must not stay.
            let events = self.events().unwrap_or_else(|| Arc::new(NoEvents));
            let drain = OutboxDrain::new(Arc::clone(store), events);
            let wake = self.hooks.as_ref().map(|hooks| Arc::clone(&hooks.outbox));
            scheduler.add(OutboxDelivery { drain, wake: wake.unwrap_or_default() });
        }
        let Some(client) = self.client else { return };
        if let Some(hooks) = self.hooks {
            scheduler.add(WebhookOwners(hooks.clone()));
            if config.roles.worker {
                let client = Arc::clone(&client);
                scheduler.add(WebhookDelivery::new(hooks, client, clock.clone()));
            }
        }
        if let Some((_, waiting)) = self.titles {
            let (links, client) = (Arc::clone(links), Arc::clone(&client));
            scheduler.add(Titles::new(waiting, links, client, Arc::clone(&self.counts)));
        }
        if config.outgoing.check_targets && config.roles.worker {
            let links = Arc::clone(links);
            scheduler.add(LinkChecker::new(links, client, clock.clone(), self.counts));
        }
    }
}
