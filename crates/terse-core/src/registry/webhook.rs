//! Webhooks: receivers of events about an owner's links.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::link::OwnerId;
use crate::target::{Target, TargetRules};
use crate::time::Timestamp;
use crate::validation::{ValidationError, ValidationErrorKind};

/// How many webhooks an owner may have.
pub const MAX_WEBHOOKS_PER_OWNER: usize = 20;
/// The longest address of a receiver, in bytes.
pub const MAX_RECEIVER_URL: usize = 2048;

/// The id of a webhook. Never reused.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WebhookId(pub u64);

/// The kinds of events.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EventKind {
    /// A link was created.
    LinkCreated,
    /// A link was changed or restored.
    LinkChanged,
    /// A link was deleted.
    LinkDeleted,
    /// A link has expired.
    LinkExpired,
    /// A link got a warning page.
    LinkFlagged,
    /// A link was taken down.
    LinkBlocked,
    /// A test that the owner requests. Webhooks cannot subscribe to it.
    Test,
}

impl EventKind {
    /// All kinds that webhooks can subscribe to.
    pub const ALL: [Self; 6] = [
        Self::LinkCreated,
        Self::LinkChanged,
        Self::LinkDeleted,
        Self::LinkExpired,
        Self::LinkFlagged,
        Self::LinkBlocked,
    ];

    /// The stable name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LinkCreated => "link.created",
            Self::LinkChanged => "link.changed",
            Self::LinkDeleted => "link.deleted",
            Self::LinkExpired => "link.expired",
            Self::LinkFlagged => "link.flagged",
            Self::LinkBlocked => "link.blocked",
            Self::Test => "webhook.test",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::Test]).find(|kind| kind.as_str() == word)
    }
}

/// The events that a webhook subscribes to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SubscribedEvents(u8);

impl SubscribedEvents {
    /// Whether this is one of them.
    pub fn contains(self, kind: EventKind) -> bool {
        self.iter().any(|one| one == kind)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them, always in the same order.
    pub fn iter(self) -> impl Iterator<Item = EventKind> {
        EventKind::ALL
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 & (1 << bit) != 0)
            .map(|(_, kind)| kind)
    }

    /// Parses the stored form. `None` if a word is unknown.
    pub fn from_stored(text: &str) -> Option<Self> {
        text.split(' ').filter(|word| !word.is_empty()).map(EventKind::parse).collect()
    }
}

impl FromIterator<EventKind> for SubscribedEvents {
    fn from_iter<I: IntoIterator<Item = EventKind>>(kinds: I) -> Self {
        let bit = |kind: EventKind| {
            EventKind::ALL.iter().position(|one| *one == kind).map_or(0, |bit| 1 << bit)
        };
        Self(kinds.into_iter().fold(0, |bits, kind| bits | bit(kind)))
    }
}

/// The stored form.
impl fmt::Display for SubscribedEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, kind) in self.iter().enumerate() {
            f.write_str(if n > 0 { " " } else { "" })?;
            f.write_str(kind.as_str())?;
        }
        Ok(())
    }
}

/// Parses the URL of a receiver. It must use https unless private receivers are allowed, because
/// events contain the owner's data.
pub fn receiver(text: &str, rules: &TargetRules) -> Result<Target, ValidationError> {
    let refuse = |kind, detail: &'static str| Err(ValidationError::new(kind, "url", detail));
    let target = Target::parse(text, rules).map_err(|refusal| refusal.on("url"))?;
    let url = target.as_str();
    if !url.starts_with("https://") && !rules.allow_private {
        return refuse(ValidationErrorKind::SchemeNotAllowed, "events are sent by https only");
    }
    if url.len() > MAX_RECEIVER_URL {
        return refuse(
            ValidationErrorKind::InvalidUrl,
            "the address of a receiver has at most 2,048 bytes",
        );
    }
    if url.contains('#')
        || url::Url::parse(url)
            .is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
    {
        return refuse(
            ValidationErrorKind::InvalidUrl,
            "the address of a receiver has no user name, password or fragment",
        );
    }
    Ok(target)
}

/// Why and since when a webhook is switched off.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Deactivation {
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub why: String,
}

/// A receiver of events.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// The owner whose links it receives events for.
    pub owner: OwnerId,
    /// Where events are sent.
    pub url: Target,
    /// Which events.
    pub events: SubscribedEvents,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was created or last enabled again: it receives no event from before.
    pub active_since: Timestamp,
    /// The generation of its current secret; the first is 1.
    pub generation: u32,
    /// When the current secret replaced the one before, which also signs for a while.
    pub rotated_at: Option<Timestamp>,
    /// Whether and why nothing is sent.
    pub disabled: Option<Deactivation>,
    /// How many events wait to be sent.
    pub waiting: u64,
    /// How many were dropped because too many waited.
    pub dropped: u64,
    /// When the receiver last accepted an event.
    pub delivered_at: Option<Timestamp>,
}

/// A webhook to create.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    /// Its owner.
    pub owner: OwnerId,
    /// Where events are sent.
    pub url: Target,
    /// Which events.
    pub events: SubscribedEvents,
    /// When.
    pub created_at: Timestamp,
}

impl NewWebhook {
    /// The webhook with this id.
    pub fn into_webhook(self, id: WebhookId) -> Webhook {
        let Self { owner, url, events, created_at } = self;
        Webhook {
            id,
            owner,
            url,
            events,
            created_at,
            active_since: created_at,
            generation: 1,
            rotated_at: None,
            disabled: None,
            waiting: 0,
            dropped: 0,
            delivered_at: None,
        }
    }
}

/// Switches a webhook off or on again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WebhookToggle {
    /// Nothing is sent from now on.
    Off(Deactivation),
    /// Events from this time on are sent.
    On(Timestamp),
}

/// Changes to a webhook; `None` keeps a value.
#[derive(Clone, Debug, Default)]
pub struct WebhookChange {
    /// Another URL.
    pub url: Option<Target>,
    /// Other events.
    pub events: Option<SubscribedEvents>,
    /// Switched off with a reason, or on again.
    pub switch: Option<WebhookToggle>,
    /// Creates a new secret.
    pub rotate: Option<Timestamp>,
}

impl WebhookChange {
    /// The changed webhook.
    pub fn apply(&self, before: &Webhook) -> Webhook {
        let mut after = before.clone();
        if let Some(url) = &self.url {
            after.url = url.clone();
        }
        after.events = self.events.unwrap_or(after.events);
        match (&self.switch, &before.disabled) {
            (Some(WebhookToggle::Off(why)), None) => after.disabled = Some(why.clone()),
            (Some(WebhookToggle::On(at)), Some(_)) => {
                after.disabled = None;
                after.active_since = *at;
            }
            // It was off before, so the first reason stays; or it was on before.
            (Some(_), _) | (None, _) => {}
        }
        if let Some(at) = self.rotate {
            after.generation += 1;
            after.rotated_at = Some(at);
        }
        after
    }
}

/// The key that all webhook secrets are derived from: stores keep no secret of a webhook.
#[derive(Clone)]
pub struct WebhookKey([u8; 32]);

impl WebhookKey {
    /// How long the secret before the last rotation also signs.
    pub const OVERLAP: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

    /// Wraps a key that is used for nothing else.
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The current secret, to be shown once.
    pub fn secret(&self, webhook: &Webhook) -> String {
        self.of(webhook, webhook.generation)
    }

    /// The secrets to sign with at this time, the current one first.
    pub fn secrets(&self, webhook: &Webhook, now: Timestamp) -> Vec<String> {
        let mut secrets = vec![self.secret(webhook)];
        if webhook.rotated_at.is_some_and(|at| now.saturating_sub(Self::OVERLAP) < at) {
            secrets.push(self.of(webhook, webhook.generation.saturating_sub(1)));
        }
        secrets
    }

    /// The creation time is part of the key, because ids restart when the registry is replaced and
    /// the links are kept.
    fn of(&self, webhook: &Webhook, generation: u32) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(
            format!("{}.{}.{generation}", webhook.id.0, webhook.created_at.as_ms()).as_bytes(),
        );
        let hex: String =
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("whsec_{hex}")
    }
}

impl fmt::Debug for WebhookKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn webhook(id: u64) -> Webhook {
        let url = Target::from_stored("https://hook.example/x".into());
        let new = NewWebhook {
            owner: OwnerId(1000),
            url,
            events: SubscribedEvents::default(),
            created_at: Timestamp::from_ms(5),
        };
        new.into_webhook(WebhookId(id))
    }

    #[test]
    fn events_survive_being_stored() {
        for events in [
            &[][..],
            &[EventKind::LinkBlocked],
            &[EventKind::LinkDeleted, EventKind::LinkCreated],
            &EventKind::ALL,
        ] {
            let set: SubscribedEvents = events.iter().copied().collect();
            assert_eq!(SubscribedEvents::from_stored(&set.to_string()), Some(set));
            assert!(EventKind::ALL.iter().all(|kind| set.contains(*kind) == events.contains(kind)));
        }
        assert_eq!(SubscribedEvents::from_stored("link.eaten"), None);
        assert!(
            [EventKind::Test].into_iter().collect::<SubscribedEvents>().is_empty(),
            "tests cannot be subscribed to"
        );
    }

    #[test]
    fn receivers_are_public_and_reached_by_https() {
        let rules = TargetRules::default();
        assert_eq!(
            receiver("https://Hook.example/a?b=c", &rules).unwrap().as_str(),
            "https://hook.example/a?b=c"
        );
        let long = format!("https://hook.example/{}", "a".repeat(MAX_RECEIVER_URL));
        for text in [
            "http://hook.example/",
            "https://u:p@hook.example/",
            "https://hook.example/#x",
            "https://10.0.0.1/",
            "nonsense",
            &long,
        ] {
            assert_eq!(receiver(text, &rules).unwrap_err().field, "url", "{text}");
        }
        let inside = TargetRules { allow_private: true, ..rules };
        assert!(receiver("http://10.0.0.1:8080/hook", &inside).is_ok());
    }

    #[test]
    fn secrets_differ_by_webhook_generation_and_key() {
        let (key, other) = (WebhookKey::new([1; 32]), WebhookKey::new([2; 32]));
        let (one, two) = (webhook(1), webhook(2));
        let later = Webhook { created_at: Timestamp::from_ms(6), ..one.clone() };
        let rotated =
            WebhookChange { rotate: Some(Timestamp::from_ms(1000)), ..WebhookChange::default() }
                .apply(&one);
        let all = [
            key.secret(&one),
            key.secret(&two),
            key.secret(&later),
            key.secret(&rotated),
            other.secret(&one),
        ];
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), all.len());
        assert_eq!(key.secrets(&one, Timestamp::from_ms(1000)), [key.secret(&one)]);
        assert_eq!(
            key.secrets(&rotated, Timestamp::from_ms(2000)),
            [key.secret(&rotated), key.secret(&one)]
        );
        let after = Timestamp::from_ms(1000)
            .checked_add(WebhookKey::OVERLAP + Duration::from_secs(1))
            .unwrap();
        assert_eq!(key.secrets(&rotated, after), [key.secret(&rotated)]);
        assert_eq!(format!("{key:?}"), "[hidden]");
    }

    #[test]
    fn the_first_reason_for_being_off_stays() {
        let off = |why: &str| WebhookChange {
            switch: Some(WebhookToggle::Off(Deactivation {
                at: Timestamp::from_ms(1),
                why: why.into(),
            })),
            ..WebhookChange::default()
        };
        let one = off("first").apply(&webhook(1));
        assert_eq!(off("second").apply(&one), one);
        assert_eq!(WebhookChange::default().apply(&one), one);
        let at = Timestamp::from_ms(9);
        let on = WebhookChange { switch: Some(WebhookToggle::On(at)), ..WebhookChange::default() };
        assert_eq!(on.apply(&one), Webhook { active_since: at, ..webhook(1) });
        assert_eq!(on.apply(&webhook(1)), webhook(1), "it was on before");
    }
}
