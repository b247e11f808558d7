//! Webhooks and their queued deliveries.

use async_trait::async_trait;
use rusqlite::{Row, params};
use terse_core::registry::{
    Actor, Attribution, AuditRecord, Deactivation, Delivery, DeliveryAttempt, DeliveryClaim,
    DeliveryId, DeliveryState, DueDelivery, EnqueueResult, MAX_SETTLED_PER_WEBHOOK,
    MAX_WAITING_PER_WEBHOOK, MAX_WEBHOOKS_PER_OWNER, NewEvent, NewWebhook, RegistryError, Webhook,
    WebhookChange, WebhookId, WebhookStore, WebhookToggle,
};
use terse_core::{OwnerId, StoreError, Timestamp};

use crate::failure::Failure;
use crate::registry::queries::RegistryQueries;
use crate::registry::rows::{self, at_most, bound, delivery_columns, filed, webhook_columns};
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

pub(crate) const WEBHOOKS_OF: &str =
    concat!("SELECT ", webhook_columns!(), " FROM webhooks w WHERE w.owner = ?1 ORDER BY w.id");
pub(crate) const WEBHOOK: &str = concat!(
    "SELECT ",
    webhook_columns!(),
    ", w.loan FROM webhooks w WHERE w.id = ?1 AND (?2 IS NULL OR w.owner = ?2)"
);
pub(crate) const WEBHOOK_OWNERS: &str = "SELECT DISTINCT owner FROM webhooks INDEXED BY webhooks_on WHERE \
    disabled_at IS NULL ORDER BY owner";
const WAITING: &str = "SELECT coalesce(sum(waiting), 0) FROM webhooks";
pub(crate) const DELIVERIES: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    " FROM deliveries d WHERE d.webhook = ?1 ORDER BY d.id DESC LIMIT ?2"
);
pub(crate) const DELIVERY: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    " FROM deliveries d WHERE d.id = ?1 AND d.webhook = ?2"
);
pub(crate) const DELIVERY_OF_EVENT: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    " FROM deliveries d WHERE d.webhook = ?1 AND d.event = ?2"
);
/// Webhooks in a range of ids that are enabled and not claimed, have a due delivery, and whose
/// owner is not suspended.
pub(crate) const READY: &str = concat!(
    "SELECT ",
    webhook_columns!(),
    ", w.loan FROM webhooks w INDEXED BY webhooks_waiting LEFT JOIN users u ON u.id = w.owner \
     WHERE w.waiting > 0 AND w.disabled_at IS NULL AND w.id > ?1 AND w.id <= ?2 \
     AND (w.lent_until IS NULL OR w.lent_until <= ?3 OR w.lent_until > ?5) \
     AND u.suspended_at IS NULL \
     AND (EXISTS (SELECT 1 FROM deliveries d WHERE d.webhook = w.id AND d.state = 'waiting' AND \
     d.next_at <= ?3) OR EXISTS (SELECT 1 FROM deliveries d WHERE d.webhook = w.id AND \
     d.state = 'waiting' AND d.next_at > ?6)) \
     ORDER BY w.id LIMIT ?4"
);
pub(crate) const NEXT: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    " FROM deliveries d WHERE d.webhook = ?1 AND d.state = 'waiting' AND d.next_at <= ?2 ORDER BY \
     d.next_at, d.id LIMIT 1"
);
/// A delivery whose time was written by a clock that was ahead.
pub(crate) const TOO_LATE: &str = concat!(
    "SELECT ",
    delivery_columns!(),
    " FROM deliveries d WHERE d.webhook = ?1 AND d.state = 'waiting' AND d.next_at > ?2 ORDER BY \
     d.next_at, d.id LIMIT 1"
);
pub(crate) const CLAIM_WEBHOOK: &str =
    "UPDATE webhooks SET loan = ?2, lent_until = ?3 WHERE id = ?1";
pub(crate) const DROP_OLDEST: &str = "DELETE FROM deliveries WHERE id = \
     (SELECT id FROM deliveries INDEXED BY deliveries_of WHERE webhook = ?1 AND state = 'waiting' \
     ORDER BY id LIMIT 1)";
pub(crate) const TRIM: &str = "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries \
    INDEXED BY deliveries_settled \
     WHERE webhook = ?1 AND state <> 'waiting' ORDER BY id DESC LIMIT -1 OFFSET ?2)";
pub(crate) const EMPTY: &str = "DELETE FROM deliveries WHERE webhook = ?1";
pub(crate) const EMPTY_OF: &str =
    "DELETE FROM deliveries WHERE webhook IN (SELECT id FROM webhooks WHERE owner = ?1)";
pub(crate) const REMOVE_OF: &str = "DELETE FROM webhooks WHERE owner = ?1";
/// Ends the claims of an earlier process.
pub(crate) const RELEASE_CLAIMS: &str =
    "UPDATE webhooks SET lent_until = NULL WHERE lent_until IS NOT NULL";
const ADD: &str = "INSERT INTO webhooks (owner, url, events, created_at, generation, waiting, \
    dropped, loan) \
     VALUES (?1, ?2, ?3, ?4, 1, 0, 0, 0)";
const CHANGE: &str = "UPDATE webhooks SET url = ?2, events = ?3, generation = ?4, rotated_at = \
    ?5, disabled_at = ?6, \
     disabled_why = ?7, waiting = ?8, dropped = ?9, delivered_at = ?10, active_since = ?11 \
     WHERE id = ?1";
const ENQUEUE: &str = "INSERT INTO deliveries (webhook, event, kind, body, created_at, state, \
    attempts, next_at) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7) ON CONFLICT (webhook, event) DO NOTHING";
const SETTLE: &str = "UPDATE deliveries SET body = ?2, state = ?3, attempts = ?4, next_at = ?5, \
    tried_at = ?6, status = ?7, \
     problem = ?8 WHERE id = ?1";

const RESEND: &str = "UPDATE deliveries SET state = ?2, attempts = ?3, next_at = ?4 WHERE id = ?1";

fn webhook_with_claim_number(row: &Row<'_>) -> Result<(Webhook, u64), Failure> {
    Ok((rows::webhook(row)?, row.get::<_, i64>(rows::WEBHOOK)?.cast_unsigned()))
}

impl RegistryQueries {
    pub(crate) fn webhooks(&self, owner: OwnerId) -> Result<Vec<Webhook>, Failure> {
        self.all(WEBHOOKS_OF, [filed(owner.0)], rows::webhook)
    }

    pub(crate) fn owners_with_webhooks(&self) -> Result<Vec<OwnerId>, Failure> {
        self.all(WEBHOOK_OWNERS, [], |row| Ok(OwnerId(row.get::<_, i64>(0)?.cast_unsigned())))
    }

    /// `None` if the owner has no such webhook.
    pub(crate) fn deliveries(
        &self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Result<Option<Vec<Delivery>>, Failure> {
        match self.webhook(Some(owner), id)? {
            Some(_) => {
                self.all(DELIVERIES, [filed(id.0), at_most(limit)], rows::delivery).map(Some)
            }
            None => Ok(None),
        }
    }

    /// A webhook, optionally only if it belongs to this owner, and the number of its last claim.
    fn webhook(
        &self,
        owner: Option<OwnerId>,
        id: WebhookId,
    ) -> Result<Option<(Webhook, u64)>, Failure> {
        self.one(
            WEBHOOK,
            params![filed(id.0), owner.map(|owner| filed(owner.0))],
            webhook_with_claim_number,
        )
    }

    /// Webhooks with a due delivery, starting after the given id and wrapping around.
    pub(crate) fn ready(&self, claim: &DeliveryClaim) -> Result<Vec<(Webhook, u64)>, Failure> {
        let (after, now) = (bound(claim.after.0), claim.now.as_ms());
        let (until, latest) = (claim.until().as_ms(), claim.latest_attempt().as_ms());
        let mut ready = Vec::new();
        for (from, to) in [(after, i64::MAX), (i64::MIN, after)] {
            let left = at_most(claim.limit.saturating_sub(ready.len()));
            ready.extend(self.all(
                READY,
                params![from, to, now, left, until, latest],
                webhook_with_claim_number,
            )?);
        }
        Ok(ready)
    }
}

impl RegistryWrites {
    pub(crate) fn add_webhook(
        &self,
        webhook: &NewWebhook,
        by: &Attribution,
    ) -> Result<Webhook, RegistryWriteError> {
        let NewWebhook { owner, url, events, created_at } = webhook;
        if *owner != OwnerId::ADMIN {
            self.account(*owner)?.ok_or(RegistryError::Missing)?;
        }
        if self.webhooks(*owner)?.len() >= MAX_WEBHOOKS_PER_OWNER {
            return Err(RegistryError::TooMany.into());
        }
        let id = self.insert(
            ADD,
            params![filed(owner.0), url.as_str(), events.to_string(), created_at.as_ms()],
        )?;
        let webhook = webhook.clone().into_webhook(WebhookId(id));
        self.write(&AuditRecord::webhook_added(&webhook), by)?;
        Ok(webhook)
    }

    pub(crate) fn change_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        change: &WebhookChange,
        by: &Attribution,
    ) -> Result<Webhook, RegistryWriteError> {
        let (before, _) = self.webhook(Some(owner), id)?.ok_or(RegistryError::Missing)?;
        let after = change.apply(&before);
        self.keep_webhook(&before, &after, by)?;
        Ok(after)
    }

    /// Writes a changed webhook, with an audit record unless only its counters changed.
    fn keep_webhook(
        &self,
        before: &Webhook,
        after: &Webhook,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        if before == after {
            return Ok(());
        }
        let Webhook {
            id,
            url,
            events,
            active_since,
            generation,
            rotated_at,
            disabled,
            waiting,
            dropped,
            delivered_at,
            ..
        } = after;
        let (off, why) =
            (disabled.as_ref().map(|off| off.at.as_ms()), disabled.as_ref().map(|off| &off.why));
        let (rotated, delivered) =
            (rotated_at.map(Timestamp::as_ms), delivered_at.map(Timestamp::as_ms));
        let (waiting, dropped) = (filed(*waiting), filed(*dropped));
        let events = events.to_string();
        let row = params![
            filed(id.0),
            url.as_str(),
            events,
            generation,
            rotated,
            off,
            why,
            waiting,
            dropped,
            delivered,
            active_since.as_ms()
        ];
        self.run(CHANGE, row)?;
        if let Some(line) = AuditRecord::webhook_changed(before, after) {
            self.write(&line, by)?;
        }
        Ok(())
    }

    pub(crate) fn remove_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        by: &Attribution,
    ) -> Result<(), RegistryWriteError> {
        let (webhook, _) = self.webhook(Some(owner), id)?.ok_or(RegistryError::Missing)?;
        self.run(EMPTY, [filed(id.0)])?;
        self.run("DELETE FROM webhooks WHERE id = ?1", [filed(id.0)])?;
        self.write(&AuditRecord::webhook_removed(&webhook), by)?;
        Ok(())
    }

    pub(crate) fn enqueue_all(
        &self,
        events: &[NewEvent],
    ) -> Result<EnqueueResult, RegistryWriteError> {
        let mut enqueued = EnqueueResult::default();
        for event in events {
            match self.webhooks(event.owner) {
                Ok(webhooks) => enqueued.deliveries += self.enqueue(event, webhooks)?,
                Err(Failure::Refused(error @ StoreError::Corrupt(_))) => {
                    tracing::error!(%error, owner = event.owner.0, "a webhook cannot be read");
                    enqueued.unreadable.push(event.id.clone());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(enqueued)
    }

    fn enqueue(&self, event: &NewEvent, webhooks: Vec<Webhook>) -> Result<u64, RegistryWriteError> {
        let mut count = 0;
        for mut webhook in webhooks.into_iter().filter(|webhook| event.concerns(webhook)) {
            let Delivery { event: name, kind, body, created_at, state, next_at, .. } =
                event.delivery(DeliveryId(0), webhook.id);
            let (at, next) = (created_at.as_ms(), next_at.as_ms());
            let row =
                params![filed(webhook.id.0), name, kind.as_str(), body, at, state.as_str(), next];
            if self.run(ENQUEUE, row)? == 0 {
                continue; // It was enqueued before.
            }
            webhook.waiting += 1;
            if webhook.waiting > MAX_WAITING_PER_WEBHOOK {
                let gone = self.run(DROP_OLDEST, [filed(webhook.id.0)])? as u64;
                webhook.waiting -= gone;
                webhook.dropped += gone;
            }
            let row = [filed(webhook.id.0), filed(webhook.waiting), filed(webhook.dropped)];
            self.run("UPDATE webhooks SET waiting = ?2, dropped = ?3 WHERE id = ?1", row)?;
            count += 1;
        }
        Ok(count)
    }

    pub(crate) fn due(
        &self,
        claim: &DeliveryClaim,
    ) -> Result<Vec<DueDelivery>, RegistryWriteError> {
        let (until, latest) = (claim.until().as_ms(), claim.latest_attempt().as_ms());
        let mut due = Vec::new();
        for (webhook, claim_number) in self.ready(claim)? {
            let id = filed(webhook.id.0);
            let next = match self.one(NEXT, [id, claim.now.as_ms()], rows::delivery)? {
                Some(next) => Some(next),
                None => self.one(TOO_LATE, [id, latest], rows::delivery)?,
            };
            let Some(delivery) = next else { continue };
            let claim_number = claim_number + 1;
            self.run(CLAIM_WEBHOOK, [filed(webhook.id.0), filed(claim_number), until])?;
            due.push(DueDelivery { webhook, delivery, claim_number });
        }
        Ok(due)
    }

    pub(crate) fn resend(
        &self,
        owner: OwnerId,
        id: WebhookId,
        event: &str,
        now: Timestamp,
    ) -> Result<(), RegistryWriteError> {
        self.webhook(Some(owner), id)?.ok_or(RegistryError::Missing)?;
        let before = self.one(DELIVERY_OF_EVENT, params![filed(id.0), event], rows::delivery)?;
        let before = before.ok_or(RegistryError::Missing)?;
        let again = before.to_resend(now).ok_or(RegistryError::Missing)?;
        let Delivery { state, attempts, next_at, .. } = again;
        let row = params![filed(again.id.0), state.as_str(), attempts, next_at.as_ms()];
        self.run(RESEND, row)?;
        if before.state != DeliveryState::Waiting {
            let sql = "UPDATE webhooks SET waiting = waiting + 1 WHERE id = ?1";
            self.run(sql, [filed(id.0)])?;
        }
        Ok(())
    }

    pub(crate) fn record_attempt(
        &self,
        attempt: &DeliveryAttempt,
    ) -> Result<bool, RegistryWriteError> {
        let DeliveryAttempt { webhook: id, claim_number, delivery, disable } = attempt;
        let Some((before, last)) = self.webhook(None, *id)? else { return Ok(false) };
        if last != *claim_number {
            return Ok(false);
        }
        self.run("UPDATE webhooks SET lent_until = NULL WHERE id = ?1", [filed(id.0)])?;
        let kept = self.one(DELIVERY, [filed(delivery.id.0), filed(id.0)], rows::delivery)?;
        if kept.is_none_or(|kept| kept.state != DeliveryState::Waiting) {
            return Ok(false);
        }
        let Delivery { body, state, attempts, next_at, tried_at, status, problem, .. } = delivery;
        let tried = tried_at.map(Timestamp::as_ms);
        let row = params![
            filed(delivery.id.0),
            body,
            state.as_str(),
            attempts,
            next_at.as_ms(),
            tried,
            status,
            problem
        ];
        self.run(SETTLE, row)?;
        let at = tried_at.unwrap_or(delivery.created_at);
        let off = |why: &String| WebhookToggle::Off(Deactivation { at, why: why.clone() });
        let switch = disable.as_ref().map(off);
        let mut after = WebhookChange { switch, ..WebhookChange::default() }.apply(&before);
        if *state != DeliveryState::Waiting {
            after.waiting = after.waiting.saturating_sub(1);
            self.run(TRIM, [filed(id.0), MAX_SETTLED_PER_WEBHOOK as i64])?;
        }
        if *state == DeliveryState::Delivered {
            after.delivered_at = after.delivered_at.max(*tried_at);
        }
        self.keep_webhook(
            &before,
            &after,
            &Attribution { actor: Actor::Terse, at, why: disable.clone() },
        )?;
        Ok(true)
    }
}

#[async_trait]
impl WebhookStore for EmbeddedRegistry {
    async fn add_webhook(&self, webhook: NewWebhook, by: Attribution) -> Answer<Webhook> {
        self.write(move |writes| writes.add_webhook(&webhook, &by)).await
    }

    async fn webhooks(&self, owner: OwnerId) -> Answer<Vec<Webhook>> {
        self.list(move |queries| queries.webhooks(owner)).await
    }

    async fn change_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        change: WebhookChange,
        by: Attribution,
    ) -> Answer<Webhook> {
        self.write(move |writes| writes.change_webhook(owner, id, &change, &by)).await
    }

    async fn remove_webhook(&self, owner: OwnerId, id: WebhookId, by: Attribution) -> Answer<()> {
        self.write(move |writes| writes.remove_webhook(owner, id, &by)).await
    }

    async fn owners_with_webhooks(&self) -> Answer<Vec<OwnerId>> {
        self.list(RegistryQueries::owners_with_webhooks).await
    }

    async fn enqueue_all(&self, events: Vec<NewEvent>) -> Answer<EnqueueResult> {
        self.write(move |writes| writes.enqueue_all(&events)).await
    }

    async fn due(&self, claim: DeliveryClaim) -> Answer<Vec<DueDelivery>> {
        // Callers poll this, mostly without a result, so a reader checks first and saves a write.
        let any = self
            .list(move |queries| {
                queries.ready(&DeliveryClaim { limit: claim.limit.min(1), ..claim })
            })
            .await?;
        match any.is_empty() {
            true => Ok(Vec::new()),
            false => self.write(move |writes| writes.due(&claim)).await,
        }
    }

    async fn record_attempt(&self, attempt: DeliveryAttempt) -> Answer<bool> {
        self.write(move |writes| writes.record_attempt(&attempt)).await
    }

    async fn resend(
        &self,
        owner: OwnerId,
        id: WebhookId,
        event: String,
        now: Timestamp,
    ) -> Answer<()> {
        self.write(move |writes| writes.resend(owner, id, &event, now)).await
    }

    async fn deliveries(
        &self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Answer<Vec<Delivery>> {
        self.list(move |queries| queries.deliveries(owner, id, limit))
            .await?
            .ok_or(RegistryError::Missing)
    }

    async fn waiting_deliveries(&self) -> Answer<u64> {
        self.list(|queries| {
            let sum = queries.one(WAITING, [], |row| rows::number(row, 0))?;
            Ok(sum.unwrap_or_default())
        })
        .await
    }
}
