//! Webhooks and their deliveries.

use async_trait::async_trait;
use terse_core::registry::{
    Attribution, AuditRecord, Delivery, DeliveryAttempt, DeliveryClaim, DueDelivery, EnqueueResult,
    NewEvent, NewWebhook, Webhook, WebhookChange, WebhookId, WebhookStore,
};
use terse_core::{OwnerId, Timestamp};

use super::{Answer, MemoryRegistry, State};

#[async_trait]
impl WebhookStore for MemoryRegistry {
    async fn add_webhook(&self, webhook: NewWebhook, by: Attribution) -> Answer<Webhook> {
        let mut state = self.enter().await?;
        if webhook.owner != OwnerId::ADMIN {
            state.account(webhook.owner)?;
        }
        let webhook = state.outbox.add(webhook)?;
        state.write(AuditRecord::webhook_added(&webhook), by);
        Ok(webhook)
    }

    async fn webhooks(&self, owner: OwnerId) -> Answer<Vec<Webhook>> {
        Ok(self.enter().await?.outbox.of(owner))
    }

    async fn change_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        change: WebhookChange,
        by: Attribution,
    ) -> Answer<Webhook> {
        let mut state = self.enter().await?;
        let webhook = state.outbox.find(owner, id)?;
        let before = webhook.clone();
        *webhook = change.apply(&before);
        let after = webhook.clone();
        if let Some(line) = AuditRecord::webhook_changed(&before, &after) {
            state.write(line, by);
        }
        Ok(after)
    }

    async fn remove_webhook(&self, owner: OwnerId, id: WebhookId, by: Attribution) -> Answer<()> {
        let mut state = self.enter().await?;
        let webhook = state.outbox.remove(owner, id)?;
        state.write(AuditRecord::webhook_removed(&webhook), by);
        Ok(())
    }

    async fn owners_with_webhooks(&self) -> Answer<Vec<OwnerId>> {
        Ok(self.enter().await?.outbox.owners())
    }

    async fn enqueue_all(&self, events: Vec<NewEvent>) -> Answer<EnqueueResult> {
        let mut state = self.enter().await?;
        let deliveries = events.iter().map(|event| state.outbox.enqueue(event)).sum();
        Ok(EnqueueResult { deliveries, unreadable: Vec::new() })
    }

    async fn due(&self, claim: DeliveryClaim) -> Answer<Vec<DueDelivery>> {
        let State { outbox, accounts, .. } = &mut *self.enter().await?;
        Ok(outbox.due(claim, |owner| {
            accounts.get(&owner).is_some_and(|account| account.suspended.is_some())
        }))
    }

    async fn record_attempt(&self, attempt: DeliveryAttempt) -> Answer<bool> {
        let mut state = self.enter().await?;
        let Some(written) = state.outbox.record_attempt(attempt) else { return Ok(false) };
        if let Some((line, by)) = written {
            state.write(line, by);
        }
        Ok(true)
    }

    async fn resend(
        &self,
        owner: OwnerId,
        id: WebhookId,
        event: String,
        now: Timestamp,
    ) -> Answer<()> {
        self.enter().await?.outbox.resend(owner, id, &event, now)
    }

    async fn deliveries(
        &self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Answer<Vec<Delivery>> {
        self.enter().await?.outbox.deliveries(owner, id, limit)
    }

    async fn waiting_deliveries(&self) -> Answer<u64> {
        Ok(self.enter().await?.outbox.waiting())
    }
}
