//! Writes a delivery into the registry for every webhook that subscribes to an event.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{EnqueueResult, NewEvent, RegistryError, WebhookStore};
use terse_core::webhooks::WebhookState;
use terse_core::{
    BoxError, Link, LinkEvents, OutboxDrain, OutboxEntry, OutboxEvent, OwnerId, Timestamp,
};
use tokio::sync::{Notify, mpsc};

use crate::outgoing_counts::OutgoingCounts;
use crate::titles::UntitledLink;

/// How often the owners with webhooks are read; other nodes learn of a first webhook within this
/// time.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How often the outbox is read if nothing on this node wakes the job.
const DRAIN_INTERVAL: Duration = Duration::from_secs(1);
/// How long the registry may take to write a page of events.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many pages of the outbox one run hands over.
const MAX_PAGES: usize = 100;

/// A link as the API shows it at a time.
pub type LinkJson = Arc<dyn Fn(&Link, Timestamp) -> serde_json::Value + Send + Sync>;

/// Writes events for the owners who have webhooks.
#[derive(Clone)]
pub struct WebhookEvents {
    pub(super) webhooks: WebhookState,
    pub(super) registry: Arc<dyn WebhookStore>,
    link_json: LinkJson,
    pub(super) counts: Arc<OutgoingCounts>,
    /// Notified when this node has written events to the outbox.
    outbox: Arc<Notify>,
}

impl WebhookEvents {
    /// Reads which owners have webhooks, so that no later event is missed.
    pub async fn open(
        webhooks: WebhookState,
        registry: Arc<dyn WebhookStore>,
        link_json: LinkJson,
        counts: Arc<OutgoingCounts>,
    ) -> Result<Self, RegistryError> {
        let events = Self { webhooks, registry, link_json, counts, outbox: Arc::default() };
        events.refresh().await?;
        Ok(events)
    }

    /// The webhooks, for the API.
    pub fn webhooks(&self) -> &WebhookState {
        &self.webhooks
    }

    async fn refresh(&self) -> Result<(), RegistryError> {
        let added = self.webhooks.owners.added();
        self.webhooks.owners.replace(self.registry.owners_with_webhooks().await?, added);
        Ok(())
    }

    /// Writes one delivery per event and webhook into the registry, all in one write.
    async fn enqueue(&self, entries: &[OutboxEntry]) -> Result<(), BoxError> {
        let event = |entry: &OutboxEntry| {
            let OutboxEntry { id, event: OutboxEvent { kind, at }, link, .. } = entry;
            let fields = [("link", (self.link_json)(link, *at))];
            NewEvent::named(id.to_string(), *kind, link.owner, *at, &fields)
        };
        let write = self.registry.enqueue_all(entries.iter().map(event).collect());
        let EnqueueResult { deliveries, unreadable } =
            tokio::time::timeout(TIMEOUT, write).await??;
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
            self.webhooks.wake.notify_one();
        }
        Ok(())
    }
}

/// Hands the events in the outbox of the link store to the registry.
///
/// It needs the lease: two nodes would do the same work twice.
pub struct OutboxDelivery {
    drain: OutboxDrain,
    wake: Arc<Notify>,
    /// How many events the last pass left to a later version of terse.
    left: usize,
}

impl OutboxDelivery {
    /// Without webhooks it runs at its interval only, to remove events that were written while
    /// webhooks were on.
    pub fn new(drain: OutboxDrain, events: Option<&WebhookEvents>) -> Self {
        let wake = events.map(|events| Arc::clone(&events.outbox)).unwrap_or_default();
        Self { drain, wake, left: 0 }
    }
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

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let mut left = 0;
        for _ in 0..MAX_PAGES {
            context.check_lease().await?;
            let page = self.drain.next_page().await?;
            left += page.left;
            if page.given_up > 0 {
                let events = page.given_up;
                tracing::error!(events, "removed old events that only a later terse can read");
            }
            if page.rows < OutboxDrain::PAGE {
                break;
            }
        }
        if left > self.left {
            tracing::warn!(events = left, "events wait for a later terse, which can read them");
        }
        self.left = left;
        Ok(NextRun::Interval)
    }
}

/// Reads again which owners have webhooks, as other nodes may have added some.
pub struct WebhookOwnersRefresh(pub WebhookEvents);

#[async_trait]
impl Job for WebhookOwnersRefresh {
    fn name(&self) -> &'static str {
        "webhook owners"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        self.0.refresh().await?;
        Ok(NextRun::Interval)
    }
}

/// Listens to what happens to links, for webhooks and titles.
pub struct LinkListeners {
    /// Webhooks, if they are on.
    pub webhooks: Option<WebhookEvents>,
    /// The queue of links without a title, if titles are fetched.
    pub titles: Option<mpsc::Sender<UntitledLink>>,
    /// Counts links that the queue had no room for.
    pub counts: Arc<OutgoingCounts>,
}

#[async_trait]
impl LinkEvents for LinkListeners {
    fn wants(&self, owner: OwnerId) -> bool {
        self.webhooks.as_ref().is_some_and(|events| events.webhooks.owners.contains(owner))
    }

    fn subscribers(&self) -> Vec<OwnerId> {
        self.webhooks.as_ref().map(|events| events.webhooks.owners.all()).unwrap_or_default()
    }

    fn created(&self, link: &Link) {
        if let Some(titles) = self.titles.as_ref().filter(|_| link.title.is_none()) {
            let untitled = UntitledLink { key: link.key.clone(), target: link.target.clone() };
            if titles.try_send(untitled).is_err() {
                self.counts.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn written(&self) {
        if let Some(events) = &self.webhooks {
            events.outbox.notify_one();
        }
    }

    async fn deliver(&self, entries: &[OutboxEntry]) -> Result<(), BoxError> {
        match &self.webhooks {
            Some(events) => events.enqueue(entries).await,
            None => Ok(()),
        }
    }
}
