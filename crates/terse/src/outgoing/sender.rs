//! Sends what waits for receivers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use terse_core::Clock;
use terse_core::registry::{Claim, DeliveryResult, DeliveryState, Due, Settlement, WebhookId};
use terse_outgoing::{Outgoing, OutgoingError, SIGNATURE_HEADER, WebhookSecret, sign};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::POSTS;
use super::hooks::Hooks;

/// How often it is looked what is due, though nobody rang.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Deliveries that are lent to us at once. More than are sent at once: those for a slow host wait
/// for their turn without taking it from others.
const LENT: usize = 128;
/// Deliveries to one host that are sent at once.
const TO_ONE_HOST: usize = 3;
/// How long nobody else gets what was lent to us. Longer than all that is lent could take at a
/// single slow host.
const LEASE: Duration = Duration::from_secs(180);
/// What was not sent by then is left to whoever is next.
const TOO_LATE: Duration = Duration::from_secs(120);

/// The one who sends.
pub(super) struct Sender {
    hooks: Hooks,
    client: Arc<Outgoing>,
    clock: Clock,
    /// How many may be sent at once, to all and to each host.
    turns: Semaphore,
    hosts: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Sender {
    pub(super) fn new(hooks: Hooks, client: Arc<Outgoing>, clock: Clock) -> Self {
        Self { hooks, client, clock, turns: Semaphore::new(POSTS), hosts: Mutex::default() }
    }

    /// Sends until told to stop. What is under way then is sent again after the next start.
    pub(super) async fn run(self, mut stop: watch::Receiver<bool>) {
        let sender = Arc::new(self);
        let mut under_way = JoinSet::new();
        let mut after = WebhookId(0);
        loop {
            let room = LENT - under_way.len().min(LENT);
            let claim = Claim { now: sender.clock.now(), lease: LEASE, after, limit: room };
            let due = match room {
                0 => Vec::new(),
                _ => sender.hooks.registry.due(claim).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "what is to be sent to webhooks could not be read; \
                        trying again in a moment");
                    Vec::new()
                }),
            };
            after = due.last().map_or(after, |due| due.webhook.id);
            for due in due {
                let sender = Arc::clone(&sender);
                under_way.spawn(async move { sender.deliver(due).await });
            }
            tokio::select! {
                () = sender.hooks.desk.wake.notified() => {}
                // The next one for the same receiver may be due.
                Some(_) = under_way.join_next() => while under_way.try_join_next().is_some() {},
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn deliver(&self, due: Due) {
        let begun = Instant::now();
        let host = self.host(due.webhook.url.host().unwrap_or_default());
        let (Ok(_at_host), Ok(_turn)) = (host.acquire().await, self.turns.acquire().await) else {
            return;
        };
        if begun.elapsed() > TOO_LATE {
            return;
        }
        let Some(outcome) = self.post(&due).await else { return };
        let settlement = due.settle(outcome, self.clock.now(), dice());
        self.settle(settlement).await;
    }

    /// Whoever sends to a host shares what may be sent there at once.
    fn host(&self, host: String) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() > 4 * LENT {
            hosts.retain(|_, turns| turns.strong_count() > 0);
        }
        let known = hosts.get(&host).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turns = Arc::new(Semaphore::new(TO_ONE_HOST));
            hosts.insert(host, Arc::downgrade(&turns));
            turns
        })
    }

    /// `None` if nothing was sent and that is our fault.
    async fn post(&self, due: &Due) -> Option<DeliveryResult> {
        let (webhook, delivery) = (&due.webhook, &due.delivery);
        let body = delivery.body.clone().into_bytes();
        let now = self.clock.now();
        let seconds = u64::try_from(now.as_ms() / 1000).unwrap_or(0);
        let mut signature = String::new();
        for secret in self.hooks.desk.key.secrets(webhook, now) {
            let signed = sign(&WebhookSecret::new(&secret), seconds, &body);
            match signed.split_once(",v1=") {
                Some((_, more)) if !signature.is_empty() => {
                    signature.push_str(&format!(",v1={more}"));
                }
                _ => signature = signed,
            }
        }
        let headers = [
            ("Terse-Event", delivery.kind.as_str()),
            ("Terse-Delivery", &*delivery.event),
            (SIGNATURE_HEADER, &*signature),
        ];
        match self.client.post(webhook.url.as_str(), "application/json", body, &headers).await {
            Ok(posted) => Some(DeliveryResult::Answered {
                status: posted.status,
                retry_after: posted.retry_after,
            }),
            Err(OutgoingError::Busy) => None,
            Err(error) => Some(DeliveryResult::Unanswered(error.kind().to_owned())),
        }
    }

    /// What cannot be written down is sent again when the lease is over: receivers tell by its name
    /// that they have it.
    async fn settle(&self, settlement: Settlement) {
        let (state, disable) = (settlement.delivery.state, settlement.disable.clone());
        let id = settlement.webhook.0;
        let mut written = false;
        for pause in [100, 1000, 5000] {
            match self.hooks.registry.settle(settlement.clone()).await {
                Ok(settled) => {
                    written = settled;
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, webhook = id, "what became of an event could not be \
                        written down");
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            }
        }
        if !written {
            return;
        }
        let counts = &self.hooks.counts;
        let add = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match state {
            DeliveryState::Delivered => add(&counts.delivered),
            DeliveryState::Waiting => add(&counts.again),
            DeliveryState::Failed => add(&counts.given_up),
        }
        if let Some(why) = disable {
            add(&counts.disabled);
            tracing::warn!(webhook = id, why, "a webhook was switched off");
        }
    }
}

/// From 0 to 1, different each time; nothing secret depends on it.
fn dice() -> f64 {
    let nanos =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    f64::from(nanos % 1000) / 1000.0
}
