//! Webhooks and their queued deliveries, in memory.

use std::collections::{BTreeMap, HashSet};

use terse_core::registry::{
    Actor, Attribution, AuditRecord, Deactivation, Delivery, DeliveryAttempt, DeliveryClaim,
    DeliveryId, DeliveryState, DueDelivery, MAX_SETTLED_PER_WEBHOOK, MAX_WAITING_PER_WEBHOOK,
    MAX_WEBHOOKS_PER_OWNER, NewEvent, NewWebhook, RegistryError, Webhook, WebhookChange, WebhookId,
    WebhookToggle,
};
use terse_core::{OwnerId, Timestamp};

#[derive(Debug, Default)]
pub(super) struct Outbox {
    webhooks_made: u64,
    deliveries_made: u64,
    webhooks: BTreeMap<WebhookId, Webhook>,
    /// The number of the last claim of each, and until when it lasts.
    claims: BTreeMap<WebhookId, (u64, Option<Timestamp>)>,
    deliveries: BTreeMap<DeliveryId, Delivery>,
    /// Every event that a webhook ever got.
    enqueued: HashSet<(WebhookId, String)>,
}

impl Outbox {
    pub(super) fn add(&mut self, webhook: NewWebhook) -> Result<Webhook, RegistryError> {
        if self.webhooks.values().filter(|one| one.owner == webhook.owner).count()
            >= MAX_WEBHOOKS_PER_OWNER
        {
            return Err(RegistryError::TooMany);
        }
        self.webhooks_made += 1;
        let webhook = webhook.into_webhook(WebhookId(self.webhooks_made));
        self.webhooks.insert(webhook.id, webhook.clone());
        Ok(webhook)
    }

    pub(super) fn of(&self, owner: OwnerId) -> Vec<Webhook> {
        self.webhooks.values().filter(|webhook| webhook.owner == owner).cloned().collect()
    }

    pub(super) fn find(
        &mut self,
        owner: OwnerId,
        id: WebhookId,
    ) -> Result<&mut Webhook, RegistryError> {
        self.webhooks
            .get_mut(&id)
            .filter(|webhook| webhook.owner == owner)
            .ok_or(RegistryError::Missing)
    }

    pub(super) fn remove(
        &mut self,
        owner: OwnerId,
        id: WebhookId,
    ) -> Result<Webhook, RegistryError> {
        let webhook = self.find(owner, id)?.clone();
        self.webhooks.remove(&id);
        self.claims.remove(&id);
        self.deliveries.retain(|_, delivery| delivery.webhook != id);
        Ok(webhook)
    }

    pub(super) fn forget(&mut self, owner: OwnerId) {
        for webhook in self.of(owner) {
            let _gone = self.remove(owner, webhook.id);
        }
    }

    pub(super) fn owners(&self) -> Vec<OwnerId> {
        let on = self.webhooks.values().filter(|webhook| webhook.disabled.is_none());
        let owners: std::collections::BTreeSet<OwnerId> = on.map(|webhook| webhook.owner).collect();
        owners.into_iter().collect()
    }

    pub(super) fn enqueue(&mut self, event: &NewEvent) -> u64 {
        let mut count = 0;
        for webhook in self.webhooks.values_mut().filter(|webhook| event.concerns(webhook)) {
            if !self.enqueued.insert((webhook.id, event.id.clone())) {
                continue;
            }
            self.deliveries_made += 1;
            let delivery = event.delivery(DeliveryId(self.deliveries_made), webhook.id);
            self.deliveries.insert(delivery.id, delivery);
            webhook.waiting += 1;
            if webhook.waiting > MAX_WAITING_PER_WEBHOOK {
                let waits = |one: &&Delivery| {
                    one.webhook == webhook.id && one.state == DeliveryState::Waiting
                };
                if let Some(oldest) = self.deliveries.values().find(waits).map(|one| one.id) {
                    self.deliveries.remove(&oldest);
                    webhook.waiting -= 1;
                    webhook.dropped += 1;
                }
            }
            count += 1;
        }
        count
    }

    pub(super) fn due(
        &mut self,
        claim: DeliveryClaim,
        is_suspended: impl Fn(OwnerId) -> bool,
    ) -> Vec<DueDelivery> {
        let DeliveryClaim { now, after, limit, .. } = claim;
        let (latest, end) = (claim.latest_attempt(), claim.until());
        let (before, behind): (Vec<_>, Vec<_>) =
            self.webhooks.values().partition(|webhook| webhook.id <= after);
        let mut due = Vec::new();
        for webhook in behind.into_iter().chain(before) {
            let (claims, until) = self.claims.entry(webhook.id).or_default();
            if due.len() >= limit
                || webhook.disabled.is_some()
                || until.is_some_and(|until| until > now && until <= end)
                || is_suspended(webhook.owner)
            {
                continue;
            }
            let waits = self
                .deliveries
                .values()
                .filter(|one| one.webhook == webhook.id && one.state == DeliveryState::Waiting);
            let is_due = |one: &&Delivery| one.next_at <= now || one.next_at > latest;
            let Some(first) = waits.filter(is_due).min_by_key(|one| (one.next_at, one.id)) else {
                continue;
            };
            *claims += 1;
            *until = Some(end);
            due.push(DueDelivery {
                webhook: webhook.clone(),
                delivery: first.clone(),
                claim_number: *claims,
            });
        }
        due
    }

    /// `None` if there is nothing to record; otherwise the audit record to write with it.
    pub(super) fn record_attempt(
        &mut self,
        attempt: DeliveryAttempt,
    ) -> Option<Option<(AuditRecord, Attribution)>> {
        let DeliveryAttempt { webhook: id, claim_number, delivery, disable } = attempt;
        let webhook = self.webhooks.get_mut(&id)?;
        let (last, until) = self.claims.get_mut(&id)?;
        if *last != claim_number {
            return None;
        }
        *until = None;
        let kept = self
            .deliveries
            .get_mut(&delivery.id)
            .filter(|one| one.webhook == id && one.state == DeliveryState::Waiting)?;
        *kept = delivery.clone();
        if delivery.state != DeliveryState::Waiting {
            webhook.waiting -= 1;
        }
        if delivery.state == DeliveryState::Delivered {
            webhook.delivered_at = webhook.delivered_at.max(delivery.tried_at);
        }
        let line = disable.and_then(|why| {
            let at = delivery.tried_at?;
            let before = webhook.clone();
            let switch = Some(WebhookToggle::Off(Deactivation { at, why: why.clone() }));
            *webhook = WebhookChange { switch, ..WebhookChange::default() }.apply(&before);
            Some((
                AuditRecord::webhook_changed(&before, webhook)?,
                Attribution { actor: Actor::Terse, at, why: Some(why) },
            ))
        });
        let settled = self
            .deliveries
            .values()
            .filter(|one| one.webhook == id && one.state != DeliveryState::Waiting);
        let old: Vec<DeliveryId> =
            settled.rev().skip(MAX_SETTLED_PER_WEBHOOK).map(|one| one.id).collect();
        old.iter().for_each(|id| drop(self.deliveries.remove(id)));
        Some(line)
    }

    pub(super) fn resend(
        &mut self,
        owner: OwnerId,
        id: WebhookId,
        event: &str,
        now: Timestamp,
    ) -> Result<(), RegistryError> {
        self.find(owner, id)?;
        let found =
            self.deliveries.values_mut().find(|one| one.webhook == id && one.event == event);
        let kept = found.ok_or(RegistryError::Missing)?;
        let again = kept.to_resend(now).ok_or(RegistryError::Missing)?;
        let settled = kept.state != DeliveryState::Waiting;
        *kept = again;
        if settled {
            self.find(owner, id)?.waiting += 1;
        }
        Ok(())
    }

    pub(super) fn deliveries(
        &mut self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Result<Vec<Delivery>, RegistryError> {
        self.find(owner, id)?;
        Ok(self
            .deliveries
            .values()
            .rev()
            .filter(|one| one.webhook == id)
            .take(limit)
            .cloned()
            .collect())
    }

    pub(super) fn waiting(&self) -> u64 {
        let waits = |one: &&Delivery| one.state == DeliveryState::Waiting;
        self.deliveries.values().filter(waits).count() as u64
    }

    pub(super) fn prune(&mut self, old: Timestamp, is_kept: &mut impl FnMut(bool) -> bool) {
        self.deliveries
            .retain(|_, one| is_kept(one.state != DeliveryState::Waiting && one.created_at < old));
    }
}
