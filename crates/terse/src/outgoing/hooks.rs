//! Writes a delivery into the registry for every webhook that wants an event.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::registry::{EventKind, NewEvent, Registry, RegistryError};
use terse_core::{BoxError, Hosts, Link, LinkEvents, OwnerId, Timestamp};
use terse_server::{Webhooks, link_json};
use terse_worker::{Context, Job, Next};
use tokio::sync::mpsc;

use super::OutgoingCounts;
use super::titles::Untitled;

/// How often the owners with webhooks are read; other nodes learn of a first webhook within this
/// time.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long a change of a link waits for its event to be written.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Writes events for the owners who have webhooks.
#[derive(Clone)]
pub(super) struct Hooks {
    pub(super) desk: Webhooks,
    pub(super) registry: Arc<dyn Registry>,
    pub(super) hosts: Hosts,
    pub(super) counts: Arc<OutgoingCounts>,
}

impl Hooks {
    pub(super) async fn refresh(&self) -> Result<(), RegistryError> {
        let added = self.desk.owners.added();
        self.desk.owners.replace(self.registry.owners_with_webhooks().await?, added);
        Ok(())
    }

    /// Writes the event in a task of its own: a caller that is cancelled must not lose the event.
    async fn enqueue(&self, kind: EventKind, link: &Link, at: Timestamp) {
        let event =
            NewEvent::new(kind, link.owner, at, &[("link", link_json(link, &self.hosts, at))]);
        let hooks = self.clone();
        let written = tokio::spawn(async move {
            let outcome = match event {
                Some(event) => tokio::time::timeout(TIMEOUT, hooks.registry.enqueue(event))
                    .await
                    .map_err(|_| "it takes too long"),
                None => Err("there are no random numbers"),
            };
            let why = match outcome {
                Ok(Ok(count)) => {
                    hooks.counts.enqueued.fetch_add(count, Ordering::Relaxed);
                    if count > 0 {
                        hooks.desk.wake.notify_one();
                    }
                    return;
                }
                Ok(Err(error)) => error.to_string(),
                Err(why) => why.to_owned(),
            };
            hooks.counts.lost.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                why,
                event = kind.as_str(),
                "an event could not be written; its webhooks do not receive it"
            );
        });
        let _ = written.await;
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
    fn listens(&self) -> bool {
        self.hooks.as_ref().is_some_and(|hooks| !hooks.desk.owners.is_empty())
    }

    fn wants(&self, owner: OwnerId) -> bool {
        self.titles.is_some()
            || self.hooks.as_ref().is_some_and(|hooks| hooks.desk.owners.contains(owner))
    }

    async fn happened(&self, kind: EventKind, link: &Link, at: Timestamp) {
        if let Some(titles) =
            self.titles.as_ref().filter(|_| kind == EventKind::LinkCreated && link.title.is_none())
        {
            let untitled = Untitled { key: link.key.clone(), target: link.target.clone() };
            if titles.try_send(untitled).is_err() {
                self.counts.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(hooks) =
            self.hooks.as_ref().filter(|hooks| hooks.desk.owners.contains(link.owner))
        {
            hooks.enqueue(kind, link, at).await;
        }
    }
}
