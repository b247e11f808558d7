//! Webhooks and their deliveries.

use async_trait::async_trait;

use super::audit::Attribution;
use super::delivery::{
    Delivery, DeliveryAttempt, DeliveryClaim, DueDelivery, EnqueueResult, NewEvent,
};
use super::store::RegistryError;
use super::webhook::{NewWebhook, Webhook, WebhookChange, WebhookId};
use crate::link::OwnerId;
use crate::store::StoreError;
use crate::time::Timestamp;

/// Webhooks of owners, and the deliveries that wait for them.
#[async_trait]
pub trait WebhookStore: Send + Sync + 'static {
    /// Adds a webhook. At most [`MAX_WEBHOOKS_PER_OWNER`](super::MAX_WEBHOOKS_PER_OWNER) per owner:
    /// `TooMany`. `Missing` if the owner is neither the operator nor has an account.
    async fn add_webhook(
        &self,
        webhook: NewWebhook,
        by: Attribution,
    ) -> Result<Webhook, RegistryError>;

    /// An owner's webhooks, the oldest first.
    async fn webhooks(&self, owner: OwnerId) -> Result<Vec<Webhook>, RegistryError>;

    /// Changes a webhook of an owner and returns it; `Missing` if the owner has no such webhook.
    async fn change_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        change: WebhookChange,
        by: Attribution,
    ) -> Result<Webhook, RegistryError>;

    /// Removes a webhook of an owner with all its deliveries; `Missing` if the owner has no such
    /// webhook.
    async fn remove_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        by: Attribution,
    ) -> Result<(), RegistryError>;

    /// All owners with a webhook that is switched on.
    async fn owners_with_webhooks(&self) -> Result<Vec<OwnerId>, RegistryError>;

    /// Adds one delivery of each event for each webhook that it [concerns](NewEvent::concerns), in
    /// one write. A webhook that has a delivery of the same event, waiting or settled, gets no
    /// second one: after a crash the caller hands over the same events again. If more than
    /// [`MAX_WAITING_PER_WEBHOOK`](super::MAX_WAITING_PER_WEBHOOK) wait, the store deletes the
    /// oldest and counts them. An event whose owner has a damaged webhook is left out and does not
    /// stop the others.
    async fn enqueue_all(&self, events: Vec<NewEvent>) -> Result<EnqueueResult, RegistryError>;

    /// [`Self::enqueue_all`] for one event: how many deliveries were added. `Corrupt` if the owner
    /// has a damaged webhook.
    async fn enqueue(&self, event: NewEvent) -> Result<u64, RegistryError> {
        let EnqueueResult { deliveries, unreadable } = self.enqueue_all(vec![event]).await?;
        match unreadable.is_empty() {
            true => Ok(deliveries),
            false => Err(StoreError::Corrupt("a webhook cannot be read".into()).into()),
        }
    }

    /// Deliveries that are due: the oldest due one of each webhook. The caller holds that webhook
    /// until it records an attempt or its claim expires. Webhooks that are switched off and those
    /// of suspended owners are left out.
    async fn due(&self, claim: DeliveryClaim) -> Result<Vec<DueDelivery>, RegistryError>;

    /// Writes the result of an attempt and ends the claim. `false`, and nothing is written, if
    /// another caller has claimed the webhook since or the delivery is gone. The last
    /// [`MAX_SETTLED_PER_WEBHOOK`](super::MAX_SETTLED_PER_WEBHOOK) settled ones are kept.
    async fn record_attempt(&self, attempt: DeliveryAttempt) -> Result<bool, RegistryError>;

    /// Makes a delivery of a webhook of an owner due at once, see [`Delivery::to_resend`];
    /// `Missing` if the owner has no such webhook, or the webhook no such delivery with its body.
    async fn resend(
        &self,
        owner: OwnerId,
        id: WebhookId,
        event: String,
        now: Timestamp,
    ) -> Result<(), RegistryError>;

    /// Up to `limit` deliveries of a webhook of an owner, the latest first; `Missing` if the owner
    /// has no such webhook.
    async fn deliveries(
        &self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Result<Vec<Delivery>, RegistryError>;

    /// How many deliveries wait, of all webhooks.
    async fn waiting_deliveries(&self) -> Result<u64, RegistryError>;
}
