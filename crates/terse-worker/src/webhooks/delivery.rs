//! Sends deliveries to webhooks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{
    DeliveryAttempt, DeliveryClaim, DeliveryResult, DeliveryState, DueDelivery, WebhookId,
};
use terse_core::webhooks::{SIGNATURE_HEADER, WebhookSecret, sign};
use terse_core::{BoxError, Clock, HttpClient, OutgoingError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::events::WebhookEvents;

/// The largest number of deliveries at once.
pub const MAX_POSTS: usize = 12;

/// How often the job claims deliveries that are due if nothing wakes it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Deliveries claimed at once. More than are sent at once, so that those for a slow host wait
/// without blocking the others.
const MAX_CLAIMED: usize = 128;
/// The largest number of deliveries to one host at once.
const TO_ONE_HOST: usize = 3;
/// How long a claim lasts. Longer than all claimed deliveries take if they go to a single slow
/// host.
const CLAIM_DURATION: Duration = Duration::from_secs(180);
/// After this time the job leaves a claimed delivery to the next claim.
const TOO_LATE: Duration = Duration::from_secs(120);

/// The job: claims deliveries that are due and sends them.
///
/// It needs no lease. Each delivery is claimed in the registry, so several nodes share the work. A
/// delivery that is under way at shutdown is sent again after the claim ends.
pub struct WebhookDelivery {
    sender: Arc<Sender>,
    under_way: JoinSet<()>,
    /// The last webhook claimed. The next claim starts after it, so that every webhook is served.
    after: WebhookId,
}

impl WebhookDelivery {
    /// Claims deliveries from the registry of `events`.
    pub fn new(events: WebhookEvents, client: Arc<dyn HttpClient>, clock: Clock) -> Self {
        let turns = Semaphore::new(MAX_POSTS);
        let sender = Arc::new(Sender { events, client, clock, turns, hosts: Mutex::default() });
        Self { sender, under_way: JoinSet::new(), after: WebhookId(0) }
    }
}

#[async_trait]
impl Job for WebhookDelivery {
    fn name(&self) -> &'static str {
        "webhook deliveries"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn wake(&mut self) {
        let Self { sender, under_way, .. } = self;
        tokio::select! {
            () = sender.events.webhooks.wake.notified() => {}
            // The next delivery to the same receiver may be due.
            Some(_) = under_way.join_next() => {}
        }
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        while self.under_way.try_join_next().is_some() {}
        let room = MAX_CLAIMED - self.under_way.len().min(MAX_CLAIMED);
        if room == 0 {
            return Ok(NextRun::Interval);
        }
        let (now, after) = (self.sender.clock.now(), self.after);
        let claim = DeliveryClaim { now, claim_duration: CLAIM_DURATION, after, limit: room };
        for due in self.sender.events.registry.due(claim).await? {
            self.after = due.webhook.id;
            let sender = Arc::clone(&self.sender);
            self.under_way.spawn(async move { sender.deliver(due).await });
        }
        Ok(NextRun::Interval)
    }
}

/// Sends claimed deliveries.
struct Sender {
    events: WebhookEvents,
    client: Arc<dyn HttpClient>,
    clock: Clock,
    /// Limit how many deliveries are sent at once, in total and to each host.
    turns: Semaphore,
    hosts: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Sender {
    async fn deliver(&self, due: DueDelivery) {
        let begun = Instant::now();
        let host = self.host(due.webhook.url.host().unwrap_or_default());
        let (Ok(_at_host), Ok(_turn)) = (host.acquire().await, self.turns.acquire().await) else {
            return;
        };
        if begun.elapsed() > TOO_LATE {
            return;
        }
        let Some(outcome) = self.post(&due).await else { return };
        let attempt = due.attempt(outcome, self.clock.now(), dice());
        self.record_attempt(attempt).await;
    }

    /// The semaphore of one host, shared by all deliveries to it.
    fn host(&self, host: String) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() > 4 * MAX_CLAIMED {
            hosts.retain(|_, turns| turns.strong_count() > 0);
        }
        let known = hosts.get(&host).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turns = Arc::new(Semaphore::new(TO_ONE_HOST));
            hosts.insert(host, Arc::downgrade(&turns));
            turns
        })
    }

    /// `None` if nothing was sent because this process is too busy.
    async fn post(&self, due: &DueDelivery) -> Option<DeliveryResult> {
        let (webhook, delivery) = (&due.webhook, &due.delivery);
        let body = delivery.body.clone().into_bytes();
        let now = self.clock.now();
        let seconds = u64::try_from(now.as_ms() / 1000).unwrap_or(0);
        let mut signature = String::new();
        for secret in self.events.webhooks.key.secrets(webhook, now) {
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

    /// Writes the result. If that fails, the event is sent again when the claim ends; receivers
    /// recognise it by its id.
    async fn record_attempt(&self, attempt: DeliveryAttempt) {
        let (state, disable) = (attempt.delivery.state, attempt.disable.clone());
        let id = attempt.webhook.0;
        let mut written = false;
        for pause in [100, 1000, 5000] {
            match self.events.registry.record_attempt(attempt.clone()).await {
                Ok(settled) => {
                    written = settled;
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, webhook = id, "the result of a delivery could not be \
                        written");
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            }
        }
        if !written {
            return;
        }
        let counts = &self.events.counts;
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
            tracing::warn!(webhook = id, why, "a webhook was disabled");
        }
    }
}

/// A number from 0 to 1 for jitter; nothing secret depends on it.
fn dice() -> f64 {
    let nanos =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    f64::from(nanos % 1000) / 1000.0
}
