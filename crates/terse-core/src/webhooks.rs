//! The one service for the webhooks of owners. A separate job sends the events.

mod owners;
mod signature;

pub use owners::{WebhookOwners, WebhookState};
pub use signature::{SIGNATURE_HEADER, SignatureError, WebhookSecret, sign, verify};

use std::sync::Arc;

use crate::clock::Clock;
use crate::link::OwnerId;
use crate::principal::Principal;
use crate::registry::{
    Actor, Attribution, Deactivation, Delivery, EventKind, NewEvent, NewWebhook, RegistryError,
    Role, SubscribedEvents, Webhook, WebhookChange, WebhookId, WebhookKey, WebhookStore,
    WebhookToggle, receiver,
};
use crate::store::StoreError;
use crate::target::TargetRules;
use crate::validation::{ValidationError, ValidationErrorKind};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The input is invalid.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// The owner has no such webhook.
    #[error("there is no such webhook")]
    NotFound,
    /// The registry refused or failed.
    #[error(transparent)]
    Registry(RegistryError),
}

impl From<RegistryError> for WebhookError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Missing => Self::NotFound,
            error => Self::Registry(error),
        }
    }
}

/// Receives signals for the job that sends events.
pub trait WebhookSignals: Send + Sync {
    /// The owner has a webhook that is on.
    fn owner_added(&self, owner: OwnerId);
    /// There is something to send.
    fn wake(&self);
}

/// Changes to a webhook; `None` keeps a value.
#[derive(Clone, Debug, Default)]
pub struct WebhookEdit {
    /// Another receiver.
    pub url: Option<String>,
    /// Other events.
    pub events: Option<Vec<String>>,
    /// Switches it off, or on again.
    pub enabled: Option<bool>,
    /// Makes a new secret.
    pub rotate_secret: bool,
}

/// The service.
pub struct Webhooks {
    registry: Arc<dyn WebhookStore>,
    key: WebhookKey,
    rules: TargetRules,
    signals: Arc<dyn WebhookSignals>,
    clock: Clock,
}

impl Webhooks {
    /// Wires the service.
    pub fn new(
        registry: Arc<dyn WebhookStore>,
        key: WebhookKey,
        rules: TargetRules,
        signals: Arc<dyn WebhookSignals>,
        clock: Clock,
    ) -> Self {
        Self { registry, key, rules, signals, clock }
    }

    /// The webhooks of an owner, the oldest first.
    pub async fn list(&self, owner: OwnerId) -> Result<Vec<Webhook>, WebhookError> {
        Ok(self.registry.webhooks(owner).await?)
    }

    /// How many deliveries wait, of all owners. Only for admins.
    pub async fn waiting_deliveries(&self, principal: &Principal) -> Result<u64, WebhookError> {
        principal.require(Role::Admin).map_err(|_| WebhookError::NotFound)?;
        Ok(self.registry.waiting_deliveries().await?)
    }

    /// A webhook of an owner.
    pub async fn get(&self, owner: OwnerId, id: WebhookId) -> Result<Webhook, WebhookError> {
        let mut webhooks = self.registry.webhooks(owner).await?.into_iter();
        webhooks.find(|webhook| webhook.id == id).ok_or(WebhookError::NotFound)
    }

    /// Creates a webhook, for all events unless some are named. Returns it and its secret, which is
    /// shown once.
    pub async fn create(
        &self,
        owner: OwnerId,
        url: &str,
        wanted: Option<&[String]>,
    ) -> Result<(Webhook, String), WebhookError> {
        let events = match wanted {
            Some(words) => events(words)?,
            None => EventKind::ALL.into_iter().collect(),
        };
        let by = self.by(owner);
        let url = receiver(url, &self.rules)?;
        let new = NewWebhook { owner, url, events, created_at: by.at };
        let webhook = self.registry.add_webhook(new, by).await?;
        self.signals.owner_added(owner);
        let secret = self.key.secret(&webhook);
        Ok((webhook, secret))
    }

    /// Changes a webhook. Returns it, and its secret if that is new.
    pub async fn edit(
        &self,
        owner: OwnerId,
        id: WebhookId,
        edit: WebhookEdit,
    ) -> Result<(Webhook, Option<String>), WebhookError> {
        let by = self.by(owner);
        let switch = |on| match on {
            true => WebhookToggle::On(by.at),
            false => {
                WebhookToggle::Off(Deactivation { at: by.at, why: "disabled by its owner".into() })
            }
        };
        let change = WebhookChange {
            url: edit.url.as_deref().map(|url| receiver(url, &self.rules)).transpose()?,
            events: edit.events.as_deref().map(events).transpose()?,
            switch: edit.enabled.map(switch),
            rotate: edit.rotate_secret.then_some(by.at),
        };
        let webhook = self.registry.change_webhook(owner, id, change, by).await?;
        if webhook.disabled.is_none() {
            self.signals.owner_added(owner);
            self.signals.wake();
        }
        let secret = edit.rotate_secret.then(|| self.key.secret(&webhook));
        Ok((webhook, secret))
    }

    /// Removes a webhook and its waiting deliveries.
    pub async fn remove(&self, owner: OwnerId, id: WebhookId) -> Result<(), WebhookError> {
        Ok(self.registry.remove_webhook(owner, id, self.by(owner)).await?)
    }

    /// Sends a `webhook.test` event and returns its id. A webhook that is off receives nothing.
    pub async fn test(&self, owner: OwnerId, id: WebhookId) -> Result<String, WebhookError> {
        let webhook = self.switched_on(owner, id).await?;
        let about = [("webhook_id", id.0.to_string().into())];
        let event = NewEvent::new(EventKind::Test, owner, self.clock.now(), &about)
            .ok_or(RegistryError::Store(StoreError::Busy))?;
        let event_id = event.id.clone();
        self.registry.enqueue(NewEvent { only: Some(webhook.id), ..event }).await?;
        self.signals.wake();
        Ok(event_id)
    }

    /// Sends an event to a webhook again, at once and with the same id, so that the receiver
    /// recognises it. A webhook that is off receives nothing.
    pub async fn resend(
        &self,
        owner: OwnerId,
        id: WebhookId,
        event: &str,
    ) -> Result<(), WebhookError> {
        self.switched_on(owner, id).await?;
        self.registry.resend(owner, id, event.to_owned(), self.clock.now()).await?;
        self.signals.wake();
        Ok(())
    }

    /// A webhook of an owner that receives events.
    async fn switched_on(&self, owner: OwnerId, id: WebhookId) -> Result<Webhook, WebhookError> {
        let webhook = self.get(owner, id).await?;
        if webhook.disabled.is_some() {
            let detail = "the webhook is off; switch it on first";
            let kind = ValidationErrorKind::InvalidRequest;
            return Err(ValidationError::new(kind, "enabled", detail).into());
        }
        Ok(webhook)
    }

    /// Up to `limit` deliveries of a webhook, the latest first.
    pub async fn deliveries(
        &self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Result<Vec<Delivery>, WebhookError> {
        Ok(self.registry.deliveries(owner, id, limit).await?)
    }

    fn by(&self, owner: OwnerId) -> Attribution {
        Attribution { actor: Actor::Owner(owner), at: self.clock.now(), why: None }
    }
}

fn events(words: &[String]) -> Result<SubscribedEvents, ValidationError> {
    let known = |word: &String| EventKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    let events: Option<SubscribedEvents> = words.iter().map(known).collect();
    events.filter(|events| !events.is_empty()).ok_or_else(|| {
        let all = EventKind::ALL.map(EventKind::as_str).join(", ");
        let detail = format!("must be one or more of {all}");
        ValidationError::new(ValidationErrorKind::InvalidRequest, "events", detail)
    })
}
