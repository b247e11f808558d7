//! Writes a delivery into the registry for every webhook that wants an event.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::registry::{Enqueued, NewEvent, Registry, RegistryError};
use terse_core::{
    BoxError, Hosts, Link, LinkEvents, OutboxDrain, OutboxEntry, OutboxEvent, OwnerId,
};
use terse_server::{Webhooks, link_json};
use terse_worker::{Context, Job, Next};
use tokio::sync::{Notify, mpsc};

use super::OutgoingCounts;
use super::titles::Untitled;

/// How often the owners with webhooks are read; other nodes learn of a first webhook within this
/// time.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How often the outbox is read if nothing on this node wakes the job.
const DRAIN_INTERVAL: Duration = Duration::from_secs(1);
/// How long the registry may take to write a page of events.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many pages of the outbox one run hands over.
const MAX_PAGES: usize = 100;

/// Writes events for the owners who have webhooks.
#[derive(Clone)]
pub(super) struct Hooks {
    pub(super) desk: Webhooks,
    pub(super) registry: Arc<dyn Registry>,
    pub(super) hosts: Hosts,
    pub(super) counts: Arc<OutgoingCounts>,
    /// Notified when this node has written events to the outbox.
    pub(super) outbox: Arc<Notify>,
}

impl Hooks {
    pub(super) async fn refresh(&self) -> Result<(), RegistryError> {
        let added = self.desk.owners.added();
        self.desk.owners.replace(self.registry.owners_with_webhooks().await?, added);
        Ok(())
    }

    /// Writes one delivery per event and webhook into the registry, all in one write.
    async fn enqueue(&self, entries: &[OutboxEntry]) -> Result<(), BoxError> {
        let event = |entry: &OutboxEntry| {
            let OutboxEntry { id, event: OutboxEvent { kind, at }, link, .. } = entry;
            let fields = [("link", link_json(link, &self.hosts, *at))];
            NewEvent::named(id.to_string(), *kind, link.owner, *at, &fields)
        };
        let write = self.registry.enqueue_all(entries.iter().map(event).collect());
        let Enqueued { deliveries, unreadable } = tokio::time::timeout(TIMEOUT, write).await??;
        for event in &unreadable {
            tracing::error!(
                event,
                "a webhook of the event's owner cannot be read; the event is \
                dropped"
            );
        }
        self.counts.lost.fetch_add(unreadable.len() as u64, Ordering::Relaxed);
        self.counts.enqueued.fetch_add(deliveries, Ordering::Relaxed);
        if deliveries > 0 {
            self.desk.wake.notify_one();
        }
        Ok(())
    }
}

/// Hands the events in the outbox of the link store to the registry.
///
/// It needs the lease: two nodes would do the same work twice.
pub(super) struct OutboxDelivery {
    pub(super) drain: OutboxDrain,
    pub(super) wake: Arc<Notify>,
}

#[async_trait]
impl Job for OutboxDelivery {
    fn name(&self) -> &'static str {
        "webhook events"
    }

    fn interval(&self) -> Duration {
        DRAIN_INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn wake(&mut self) {
        self.wake.notified().await;
    }

    async fn run(&mut self, context: &Context) -> Result<Next, BoxError> {
        for _ in 0..MAX_PAGES {
            context.check_lease().await?;
            if self.drain.next_page().await? < OutboxDrain::PAGE {
                break;
            }
        }
        Ok(Next::Interval)
    }
}

/// Reads again which owners have webhooks, as other nodes may have added some.
pub(super) struct WebhookOwners(pub(super) Hooks);

#[async_trait]
impl Job for WebhookOwners {
    fn name(&self) -> &'static str {
        "webhook owners"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        self.0.refresh().await?;
        Ok(Next::Interval)
    }
}

/// Listens to what happens to links, for webhooks and titles.
pub(super) struct Listeners {
    pub(super) hooks: Option<Hooks>,
    pub(super) titles: Option<mpsc::Sender<Untitled>>,
    pub(super) counts: Arc<OutgoingCounts>,
}

#[async_trait]
impl LinkEvents for Listeners {
    fn wants(&self, owner: OwnerId) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| hooks.desk.owners.contains(owner))
    }

    fn subscribers(&self) -> Vec<OwnerId> {
        self.hooks.as_ref().map(|hooks| hooks.desk.owners.all()).unwrap_or_default()
    }

    fn created(&self, link: &Link) {
        if let Some(titles) = self.titles.as_ref().filter(|_| link.title.is_none()) {
            let untitled = Untitled { key: link.key.clone(), target: link.target.clone() };
            if titles.try_send(untitled).is_err() {
                self.counts.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn written(&self) {
        if let Some(hooks) = &self.hooks {
            hooks.outbox.notify_one();
        }
    }

    async fn deliver(&self, entries: &[OutboxEntry]) -> Result<(), BoxError> {
        match &self.hooks {
            Some(hooks) => hooks.enqueue(entries).await,
            None => Ok(()),
        }
    }
}
