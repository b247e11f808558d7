//! From what happens to links to what waits for receivers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::registry::{EventKind, NewEvent, Registry, RegistryError};
use terse_core::{Hosts, Link, LinkEvents, OwnerId, Timestamp};
use terse_server::{Webhooks, link_json};
use tokio::sync::{mpsc, watch};

use super::OutgoingCounts;
use super::titles::Untitled;

/// How often it is looked who has webhooks; other nodes hear of a first one no later.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long whoever changes a link waits until it is written down that somebody is to be told.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Writes down what is to be told to whom.
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

    /// Looks now and then who has webhooks, until told to stop.
    pub(super) async fn keep(self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            // Whoever was known stays known.
            if let Err(error) = self.refresh().await {
                tracing::warn!(%error, "who has webhooks could not be read");
            }
        }
    }

    /// On a task of its own: whoever goes away in the middle must not take the event along.
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
                "an event could not be written down; its receivers are not told"
            );
        });
        let _ = written.await;
    }
}

/// Everybody who wants to know what happens to links.
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
