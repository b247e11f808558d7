//! Deliveries of events to webhooks, and the results of attempts.

use std::time::Duration;

use serde_json::{Value, json};

use super::webhook::{EventKind, Webhook, WebhookId};
use crate::link::OwnerId;
use crate::time::Timestamp;

/// How many events may wait for one webhook. Beyond it, the oldest are dropped and counted.
pub const MAX_WAITING_PER_WEBHOOK: u64 = 10_000;
/// How many settled deliveries of each webhook are kept for its owner to see.
pub const MAX_SETTLED_PER_WEBHOOK: usize = 100;
/// How long each pause between two attempts is. There is one attempt more than there are pauses.
pub const RETRY_PAUSES: [Duration; 11] = {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    let secs = [
        10,
        30,
        MINUTE,
        2 * MINUTE,
        5 * MINUTE,
        15 * MINUTE,
        30 * MINUTE,
        HOUR,
        2 * HOUR,
        6 * HOUR,
        12 * HOUR,
    ];
    let mut pauses = [Duration::ZERO; 11];
    let mut n = 0;
    while n < 11 {
        pauses[n] = Duration::from_secs(secs[n]);
        n += 1;
    }
    pauses
};
/// The longest pause that a receiver may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(12 * 3600);
/// The same with the spread, and some tolerance for clocks of other nodes.
const MAX_SCHEDULED_PAUSE: Duration = Duration::from_secs(15 * 3600);

/// The longest time that an event waits before its deliveries are written. A webhook that was
/// enabled longer than this after an event has its time from a clock that was ahead.
const MAX_EVENT_WAIT: Duration = Duration::from_secs(3600);

/// The id of a delivery.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DeliveryId(pub u64);

/// An event, to be delivered to every webhook of its owner that subscribes to it.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Its id: the same in every attempt, so that a receiver recognises a duplicate.
    pub id: String,
    /// The owner of the link.
    pub owner: OwnerId,
    /// The kind of event.
    pub kind: EventKind,
    /// The request body, as JSON.
    pub body: String,
    /// When.
    pub at: Timestamp,
    /// Only for this webhook, whatever its subscriptions.
    pub only: Option<WebhookId>,
}

/// The outcome of [`WebhookStore::enqueue_all`](super::WebhookStore::enqueue_all).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EnqueueResult {
    /// How many deliveries were added.
    pub deliveries: u64,
    /// The ids of events that were left out, because a webhook of their owner cannot be read.
    pub unreadable: Vec<String>,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DeliveryState {
    /// It waits for its first or next attempt.
    Waiting,
    /// The receiver accepted it.
    Delivered,
    /// All attempts failed.
    Failed,
}

impl DeliveryState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Delivered, Self::Failed];

    /// The stable name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// The delivery of an event to one webhook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook: WebhookId,
    /// The event's id.
    pub event: String,
    /// The kind of event.
    pub kind: EventKind,
    /// The request body. Deliveries that earlier versions settled have none.
    pub body: String,
    /// When it happened.
    pub created_at: Timestamp,
    /// Its state.
    pub state: DeliveryState,
    /// How many attempts have ended.
    pub attempts: u32,
    /// When the next attempt is due, while it waits.
    pub next_at: Timestamp,
    /// When the last attempt ended.
    pub tried_at: Option<Timestamp>,
    /// The last HTTP status of the receiver, if it answered.
    pub status: Option<u16>,
    /// Why the receiver did not answer.
    pub problem: Option<String>,
}

/// A sender's request for deliveries that are due.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryClaim {
    /// The time.
    pub now: Timestamp,
    /// How long other senders do not get the claimed webhooks, unless they are settled before.
    pub claim_duration: Duration,
    /// Webhooks after this one come first, so that no webhook starves.
    pub after: WebhookId,
    /// The largest number of deliveries to return.
    pub limit: usize,
}

impl DeliveryClaim {
    /// The latest time of a next attempt that a right clock can have written. A later one is due at
    /// once: the clock that wrote it was ahead, or has been set back since.
    pub fn latest_attempt(&self) -> Timestamp {
        self.now.checked_add(MAX_SCHEDULED_PAUSE).unwrap_or(Timestamp::MAX)
    }

    /// Until when this claim lasts. A claim that lasts longer was made by a clock that was ahead,
    /// and does not count.
    pub fn until(&self) -> Timestamp {
        self.now.checked_add(self.claim_duration).unwrap_or(Timestamp::MAX)
    }
}

/// A delivery that is due, claimed by one sender.
#[derive(Clone, Debug)]
pub struct DueDelivery {
    /// The webhook.
    pub webhook: Webhook,
    /// The delivery.
    pub delivery: Delivery,
    /// The number of the claim on this webhook. A sender with an older claim settles nothing.
    pub claim_number: u64,
}

/// How an attempt ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DeliveryResult {
    /// The receiver answered.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The pause that the receiver asked for.
        retry_after: Option<Duration>,
    },
    /// The receiver did not answer, for this reason.
    Unanswered(String),
}

/// The result of an attempt, to be stored.
#[derive(Clone, Debug)]
pub struct DeliveryAttempt {
    /// The webhook.
    pub webhook: WebhookId,
    /// The number of the claim.
    pub claim_number: u64,
    /// The updated delivery.
    pub delivery: Delivery,
    /// Switches the webhook off, for this reason.
    pub disable: Option<String>,
}

impl DueDelivery {
    /// The result of an attempt that ended at `now`. `jitter` is a random number from 0 to 1 that
    /// spreads retries, so that deliveries that failed together are not retried together.
    pub fn attempt(&self, outcome: DeliveryResult, now: Timestamp, jitter: f64) -> DeliveryAttempt {
        let mut delivery = Delivery {
            attempts: self.delivery.attempts + 1,
            tried_at: Some(now),
            ..self.delivery.clone()
        };
        let mut disable = None;
        let mut asked = Duration::ZERO;
        (delivery.status, delivery.problem) = match outcome {
            DeliveryResult::Answered { status, retry_after } => {
                asked = retry_after.unwrap_or_default().min(MAX_PAUSE);
                (Some(status), None)
            }
            DeliveryResult::Unanswered(why) => (None, Some(why)),
        };
        match delivery.status {
            Some(200..300) => delivery.state = DeliveryState::Delivered,
            Some(410) => {
                delivery.state = DeliveryState::Failed;
                disable = Some("the receiver says that it is gone (410)".into());
            }
            _ => match RETRY_PAUSES.get(delivery.attempts as usize - 1) {
                Some(pause) => {
                    let pause = (*pause).max(asked).mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 5.0);
                    delivery.next_at = now.checked_add(pause).unwrap_or(Timestamp::MAX);
                }
                None => {
                    delivery.state = DeliveryState::Failed;
                    // A receiver that accepted later events works: it refuses only this one.
                    if self.webhook.delivered_at.is_none_or(|at| at < self.delivery.created_at) {
                        disable = Some(format!(
                            "the receiver accepted nothing in {} attempts",
                            delivery.attempts
                        ));
                    }
                }
            },
        }
        DeliveryAttempt {
            webhook: self.webhook.id,
            claim_number: self.claim_number,
            delivery,
            disable,
        }
    }
}

impl Delivery {
    /// The same delivery, to be sent again at once: with all its attempts if it was settled, with
    /// those that are left if it still waits. `None` if its body is gone.
    pub fn to_resend(&self, now: Timestamp) -> Option<Self> {
        if self.body.is_empty() {
            return None;
        }
        let attempts = if self.state == DeliveryState::Waiting { self.attempts } else { 0 };
        Some(Self { state: DeliveryState::Waiting, attempts, next_at: now, ..self.clone() })
    }
}

impl NewEvent {
    /// An event with a new id, and these fields in its body. `None` if the system has no random
    /// numbers.
    pub fn new(
        kind: EventKind,
        owner: OwnerId,
        at: Timestamp,
        fields: &[(&str, Value)],
    ) -> Option<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self::named(format!("evt_{hex}"), kind, owner, at, fields))
    }

    /// An event with a given id, so that it can be written again under the same one.
    pub fn named(
        id: String,
        kind: EventKind,
        owner: OwnerId,
        at: Timestamp,
        fields: &[(&str, Value)],
    ) -> Self {
        let mut body = json!({ "id": id, "type": kind.as_str(), "created_at": at.to_string() });
        fields.iter().for_each(|(name, value)| body[*name] = value.clone());
        Self { id, owner, kind, body: body.to_string(), at, only: None }
    }

    /// A new delivery of this event.
    pub fn delivery(&self, id: DeliveryId, webhook: WebhookId) -> Delivery {
        Delivery {
            id,
            webhook,
            event: self.id.clone(),
            kind: self.kind,
            body: self.body.clone(),
            created_at: self.at,
            state: DeliveryState::Waiting,
            attempts: 0,
            next_at: self.at,
            tried_at: None,
            status: None,
            problem: None,
        }
    }

    /// Whether a webhook receives this event: it is on, was on at the time of the event, and
    /// subscribes to it.
    pub fn concerns(&self, webhook: &Webhook) -> bool {
        let since = webhook.active_since;
        let was_on = since <= self.at || since.saturating_sub(MAX_EVENT_WAIT) > self.at;
        webhook.owner == self.owner
            && webhook.disabled.is_none()
            && was_on
            && self
                .only
                .map_or_else(|| webhook.events.contains(self.kind), |only| only == webhook.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{NewWebhook, SubscribedEvents};
    use crate::target::Target;

    fn due(delivered_at: Option<i64>) -> DueDelivery {
        let url = Target::from_stored("https://hook.example/".into());
        let new = NewWebhook {
            owner: OwnerId(1),
            url,
            events: SubscribedEvents::default(),
            created_at: Timestamp::from_ms(0),
        };
        let webhook = Webhook {
            delivered_at: delivered_at.map(Timestamp::from_ms),
            ..new.into_webhook(WebhookId(7))
        };
        let (id, kind, at) = ("e".into(), EventKind::LinkCreated, Timestamp::from_ms(1000));
        let event = NewEvent { id, owner: OwnerId(1), kind, body: "{}".into(), at, only: None };
        DueDelivery {
            delivery: event.delivery(DeliveryId(1), webhook.id),
            webhook,
            claim_number: 3,
        }
    }

    fn answered(status: u16) -> DeliveryResult {
        DeliveryResult::Answered { status, retry_after: None }
    }

    #[test]
    fn an_event_from_before_a_webhook_was_enabled_does_not_concern_it() {
        let hour = 3_600_000;
        for (since, concerned) in
            [(0, true), (1000, true), (1001, false), (1000 + hour, false), (1001 + hour, true)]
        {
            let mut webhook = due(None).webhook;
            webhook.events = EventKind::ALL.into_iter().collect();
            webhook.active_since = Timestamp::from_ms(since);
            let (id, kind, at) = ("e".into(), EventKind::LinkCreated, Timestamp::from_ms(1000));
            let owner = webhook.owner;
            let event = NewEvent { id, owner, kind, body: "{}".into(), at, only: None };
            assert_eq!(event.concerns(&webhook), concerned, "{since}");
        }
    }

    #[test]
    fn only_success_is_delivered_and_only_gone_ends_at_once() {
        let now = Timestamp::from_ms(5000);
        for status in [200, 204, 299] {
            let settled = due(None).attempt(answered(status), now, 0.5);
            assert_eq!(
                (settled.delivery.state, settled.delivery.body.as_str()),
                (DeliveryState::Delivered, "{}"),
                "{status}"
            );
        }
        for status in [199, 300, 301, 307, 400, 404, 429, 500, 503] {
            let settled = due(None).attempt(answered(status), now, 0.5);
            assert_eq!(
                (settled.delivery.state, settled.disable),
                (DeliveryState::Waiting, None),
                "{status}"
            );
            assert!(settled.delivery.next_at > now && settled.delivery.body == "{}");
        }
        let gone = due(Some(1)).attempt(answered(410), now, 0.5);
        assert!(gone.disable.is_some() && gone.delivery.state == DeliveryState::Failed);
    }

    #[test]
    fn there_are_twelve_attempts_in_about_a_day() {
        for (delivered_at, disables) in [(None, true), (Some(999), true), (Some(1000), false)] {
            let mut due = due(delivered_at);
            let mut now = Timestamp::from_ms(1000);
            for attempt in 1..=12 {
                let settled = due.attempt(DeliveryResult::Unanswered("too_slow".into()), now, 1.0);
                assert_eq!(settled.delivery.attempts, attempt);
                assert_eq!(settled.delivery.state == DeliveryState::Waiting, attempt < 12);
                assert_eq!(settled.disable.is_some(), disables && attempt == 12);
                due.delivery = settled.delivery;
                now = now.max(due.delivery.next_at);
            }
            let hours = (now.as_ms() - 1000) / 3_600_000;
            assert!((20..=27).contains(&hours), "{hours} hours");
        }
    }

    #[test]
    fn a_receiver_may_ask_for_a_pause_within_bounds() {
        let now = Timestamp::from_ms(0);
        let pause = |asked: u64| {
            let outcome = DeliveryResult::Answered {
                status: 429,
                retry_after: Some(Duration::from_secs(asked)),
            };
            due(None).attempt(outcome, now, 0.0).delivery.next_at.as_ms() / 1000
        };
        assert_eq!((pause(0), pause(300), pause(1_000_000)), (10, 300, 12 * 3600));
    }
}
