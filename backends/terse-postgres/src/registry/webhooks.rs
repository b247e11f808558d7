//! Webhooks and their deliveries. A transaction locks the webhooks that it changes.

use async_trait::async_trait;
use terse_core::registry::{
    Actor, Attribution, AuditRecord, Deactivation, Delivery, DeliveryAttempt, DeliveryClaim,
    DeliveryId, DeliveryState, DueDelivery, EnqueueResult, MAX_SETTLED_PER_WEBHOOK,
    MAX_WAITING_PER_WEBHOOK, MAX_WEBHOOKS_PER_OWNER, NewEvent, NewWebhook, RegistryError, Webhook,
    WebhookChange, WebhookId, WebhookStore, WebhookToggle,
};
use terse_core::{OwnerId, StoreError, Timestamp};

use super::rows::{self, DELIVERY_COLUMNS, WEBHOOK_COLUMNS, id};
use super::step::{Step, StepError, step};
use super::{Answer, PostgresRegistry, all, at_most, bound, first};
use crate::failure::Failure;
use crate::sql::{SqlTimestamp, params};

/// Webhooks in a range of ids that are enabled and not claimed, have a due delivery, and whose
/// owner is not suspended.
const READY: &str = "FROM webhooks w LEFT JOIN accounts a ON a.id = w.owner \
     WHERE w.waiting > 0 AND w.disabled_at IS NULL AND w.id > $1 AND w.id <= $2 \
     AND (w.lent_until IS NULL OR w.lent_until <= $3 OR w.lent_until > $4) \
     AND a.suspended_at IS NULL \
     AND EXISTS (SELECT FROM deliveries d WHERE d.webhook = w.id AND d.state = 'waiting' \
     AND (d.next_at <= $3 OR d.next_at > $5))";

impl Step<'_> {
    /// A webhook, optionally only if it belongs to this owner, and the number of its last claim. No
    /// other transaction can change it until this one ends.
    async fn webhook(
        &self,
        owner: Option<OwnerId>,
        webhook: WebhookId,
    ) -> Result<Option<(Webhook, u64)>, Failure> {
        let sql = format!(
            "SELECT {WEBHOOK_COLUMNS}, w.loan FROM webhooks w \
             WHERE w.id = $1 AND ($2::bigint IS NULL OR w.owner = $2) FOR UPDATE"
        );
        let owner = owner.map(|owner| owner.0.cast_signed());
        self.one(&sql, params![webhook.0.cast_signed(), owner], rows::webhook_with_claim_number)
            .await
    }

    /// Writes a changed webhook, with a record in the audit log unless only its counters changed.
    async fn keep_webhook(
        &self,
        before: &Webhook,
        after: &Webhook,
        by: &Attribution,
    ) -> Result<(), StepError> {
        if before == after {
            return Ok(());
        }
        let off = after.disabled.as_ref();
        self.run(
            "UPDATE webhooks SET url = $2, events = $3, generation = $4, rotated_at = $5, \
             disabled_at = $6, disabled_why = $7, waiting = $8, dropped = $9, delivered_at = $10, \
             active_since = $11 WHERE id = $1",
            params![
                after.id.0.cast_signed(),
                after.url.as_str(),
                after.events.to_string(),
                after.generation.cast_signed(),
                after.rotated_at.map(SqlTimestamp),
                off.map(|off| SqlTimestamp(off.at)),
                off.map(|off| off.why.as_str()),
                after.waiting.cast_signed(),
                after.dropped.cast_signed(),
                after.delivered_at.map(SqlTimestamp),
                SqlTimestamp(after.active_since)
            ],
        )
        .await?;
        if let Some(line) = AuditRecord::webhook_changed(before, after) {
            self.write(&line, by).await?;
        }
        Ok(())
    }

    /// Adds the deliveries of one event.
    async fn enqueue(&self, event: &NewEvent, webhooks: Vec<Webhook>) -> Result<u64, StepError> {
        let mut count = 0;
        for mut webhook in webhooks.into_iter().filter(|webhook| event.concerns(webhook)) {
            let number = webhook.id.0.cast_signed();
            let Delivery { event: name, kind, body, created_at, state, next_at, .. } =
                event.delivery(DeliveryId(0), webhook.id);
            let added = self
                .run(
                    "INSERT INTO deliveries (webhook, event, kind, body, created_at, state, \
                     attempts, next_at) VALUES ($1, $2, $3, $4, $5, $6, 0, $7) \
                     ON CONFLICT (webhook, event) DO NOTHING",
                    params![
                        number,
                        name,
                        kind.as_str(),
                        body,
                        SqlTimestamp(created_at),
                        state.as_str(),
                        SqlTimestamp(next_at)
                    ],
                )
                .await?;
            if added == 0 {
                continue; // It was enqueued before.
            }
            webhook.waiting += 1;
            if webhook.waiting > MAX_WAITING_PER_WEBHOOK {
                let gone = self
                    .run(
                        "DELETE FROM deliveries WHERE id = (SELECT id FROM deliveries \
                         WHERE webhook = $1 AND state = 'waiting' ORDER BY id LIMIT 1)",
                        params![number],
                    )
                    .await?;
                webhook.waiting -= gone;
                webhook.dropped += gone;
            }
            self.run(
                "UPDATE webhooks SET waiting = $2, dropped = $3 WHERE id = $1",
                params![number, webhook.waiting.cast_signed(), webhook.dropped.cast_signed()],
            )
            .await?;
            count += 1;
        }
        Ok(count)
    }

    async fn enqueue_all(&self, events: &[NewEvent]) -> Result<EnqueueResult, StepError> {
        // All webhooks that may change, in the order of their ids, so that two nodes do not wait
        // for each other.
        let owners: Vec<i64> = events.iter().map(|event| event.owner.0.cast_signed()).collect();
        self.run(
            "SELECT FROM webhooks WHERE owner = ANY($1) ORDER BY id FOR UPDATE",
            params![owners],
        )
        .await?;
        let mut enqueued = EnqueueResult::default();
        for event in events {
            let sql = format!(
                "SELECT {WEBHOOK_COLUMNS} FROM webhooks w WHERE w.owner = $1 ORDER BY w.id"
            );
            let rows = self.query(&sql, params![event.owner.0.cast_signed()]).await?;
            match all(&rows, rows::webhook) {
                Ok(webhooks) => enqueued.deliveries += self.enqueue(event, webhooks).await?,
                Err(Failure::Refused(error @ StoreError::Corrupt(_))) => {
                    tracing::error!(%error, owner = event.owner.0, "a webhook cannot be read");
                    enqueued.unreadable.push(event.id.clone());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(enqueued)
    }

    async fn due(&self, claim: &DeliveryClaim) -> Result<Vec<DueDelivery>, StepError> {
        let (until, latest) = (claim.until(), claim.latest_attempt());
        let sql = format!(
            "SELECT {WEBHOOK_COLUMNS}, w.loan {READY} ORDER BY w.id LIMIT $6 \
             FOR UPDATE OF w SKIP LOCKED"
        );
        let after = bound(claim.after.0);
        let mut ready = Vec::new();
        // Those after the given one first, then from the beginning.
        for (from, to) in [(after, i64::MAX), (i64::MIN, after)] {
            let left = at_most(claim.limit.saturating_sub(ready.len()));
            let rows = self
                .query(
                    &sql,
                    params![
                        from,
                        to,
                        SqlTimestamp(claim.now),
                        SqlTimestamp(until),
                        SqlTimestamp(latest),
                        left
                    ],
                )
                .await?;
            ready.extend(all(&rows, rows::webhook_with_claim_number)?);
        }
        let next = format!(
            "SELECT {DELIVERY_COLUMNS} FROM deliveries d WHERE d.webhook = $1 \
             AND d.state = 'waiting' AND (d.next_at <= $2 OR d.next_at > $3) \
             ORDER BY d.next_at, d.id LIMIT 1"
        );
        let mut due = Vec::new();
        for (webhook, claim_number) in ready {
            let number = webhook.id.0.cast_signed();
            let times = params![number, SqlTimestamp(claim.now), SqlTimestamp(latest)];
            let delivery = self.one(&next, times, rows::delivery).await?;
            let Some(delivery) = delivery else { continue };
            let claim_number = claim_number + 1;
            self.run(
                "UPDATE webhooks SET loan = $2, lent_until = $3 WHERE id = $1",
                params![number, claim_number.cast_signed(), SqlTimestamp(until)],
            )
            .await?;
            due.push(DueDelivery { webhook, delivery, claim_number });
        }
        Ok(due)
    }

    async fn resend(
        &self,
        owner: OwnerId,
        webhook: WebhookId,
        event: &str,
        now: Timestamp,
    ) -> Result<(), StepError> {
        self.webhook(Some(owner), webhook).await?.ok_or(RegistryError::Missing)?;
        let number = webhook.0.cast_signed();
        let sql = format!(
            "SELECT {DELIVERY_COLUMNS} FROM deliveries d WHERE d.webhook = $1 AND d.event = $2"
        );
        let before = self.one(&sql, params![number, event], rows::delivery).await?;
        let before = before.ok_or(RegistryError::Missing)?;
        let again = before.to_resend(now).ok_or(RegistryError::Missing)?;
        self.run(
            "UPDATE deliveries SET state = $2, attempts = $3, next_at = $4 WHERE id = $1",
            params![
                again.id.0.cast_signed(),
                again.state.as_str(),
                again.attempts.cast_signed(),
                SqlTimestamp(again.next_at)
            ],
        )
        .await?;
        if before.state != DeliveryState::Waiting {
            let sql = "UPDATE webhooks SET waiting = waiting + 1 WHERE id = $1";
            self.run(sql, params![number]).await?;
        }
        Ok(())
    }

    async fn record_attempt(&self, attempt: &DeliveryAttempt) -> Result<bool, StepError> {
        let DeliveryAttempt { webhook: id, claim_number, delivery, disable } = attempt;
        let Some((before, last)) = self.webhook(None, *id).await? else { return Ok(false) };
        if last != *claim_number {
            return Ok(false);
        }
        let number = id.0.cast_signed();
        self.run("UPDATE webhooks SET lent_until = NULL WHERE id = $1", params![number]).await?;
        let waits = "SELECT true FROM deliveries WHERE id = $1 AND webhook = $2 \
             AND state = 'waiting'";
        if !self.any(waits, params![delivery.id.0.cast_signed(), number]).await? {
            return Ok(false);
        }
        let Delivery { body, state, attempts, next_at, tried_at, status, problem, .. } = delivery;
        self.run(
            "UPDATE deliveries SET body = $2, state = $3, attempts = $4, next_at = $5, \
             tried_at = $6, status = $7, problem = $8 WHERE id = $1",
            params![
                delivery.id.0.cast_signed(),
                *body,
                state.as_str(),
                attempts.cast_signed(),
                SqlTimestamp(*next_at),
                tried_at.map(SqlTimestamp),
                status.map(i32::from),
                *problem
            ],
        )
        .await?;
        let at = tried_at.unwrap_or(delivery.created_at);
        let off = |why: &String| WebhookToggle::Off(Deactivation { at, why: why.clone() });
        let switch = disable.as_ref().map(off);
        let mut after = WebhookChange { switch, ..WebhookChange::default() }.apply(&before);
        if *state != DeliveryState::Waiting {
            after.waiting = after.waiting.saturating_sub(1);
            let most = MAX_SETTLED_PER_WEBHOOK as i64;
            self.run(
                "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries \
                 WHERE webhook = $1 AND state <> 'waiting' ORDER BY id DESC OFFSET $2)",
                params![number, most],
            )
            .await?;
        }
        if *state == DeliveryState::Delivered {
            after.delivered_at = after.delivered_at.max(*tried_at);
        }
        let by = Attribution { actor: Actor::Terse, at, why: disable.clone() };
        self.keep_webhook(&before, &after, &by).await?;
        Ok(true)
    }
}

#[async_trait]
impl WebhookStore for PostgresRegistry {
    async fn add_webhook(&self, webhook: NewWebhook, by: Attribution) -> Answer<Webhook> {
        step!(self, Registry, |step| {
            let NewWebhook { owner, url, events, created_at } = &webhook;
            if *owner != OwnerId::ADMIN {
                step.account(*owner).await?.ok_or(RegistryError::Missing)?;
            }
            let owner = owner.0.cast_signed();
            let sql = "SELECT count(*) FROM webhooks WHERE owner = $1";
            let count = step.one(sql, params![owner], |row| id(row, 0)).await?;
            if count.unwrap_or(0) >= MAX_WEBHOOKS_PER_OWNER as u64 {
                return Err(RegistryError::TooMany.into());
            }
            let number = step
                .insert(
                    "INSERT INTO webhooks (owner, url, events, created_at, generation, waiting, \
                     dropped, loan) VALUES ($1, $2, $3, $4, 1, 0, 0, 0) RETURNING id",
                    params![owner, url.as_str(), events.to_string(), SqlTimestamp(*created_at)],
                )
                .await?;
            let webhook = webhook.clone().into_webhook(WebhookId(number));
            step.write(&AuditRecord::webhook_added(&webhook), &by).await?;
            Ok(webhook)
        })
    }

    async fn webhooks(&self, owner: OwnerId) -> Answer<Vec<Webhook>> {
        let sql =
            format!("SELECT {WEBHOOK_COLUMNS} FROM webhooks w WHERE w.owner = $1 ORDER BY w.id");
        let rows = self.query(&sql, params![owner.0.cast_signed()]).await?;
        Ok(all(&rows, rows::webhook)?)
    }

    async fn change_webhook(
        &self,
        owner: OwnerId,
        id: WebhookId,
        change: WebhookChange,
        by: Attribution,
    ) -> Answer<Webhook> {
        step!(self, Rows, |step| {
            let found = step.webhook(Some(owner), id).await?;
            let (before, _) = found.ok_or(RegistryError::Missing)?;
            let after = change.apply(&before);
            step.keep_webhook(&before, &after, &by).await?;
            Ok(after)
        })
    }

    async fn remove_webhook(&self, owner: OwnerId, id: WebhookId, by: Attribution) -> Answer<()> {
        step!(self, Rows, |step| {
            let found = step.webhook(Some(owner), id).await?;
            let (webhook, _) = found.ok_or(RegistryError::Missing)?;
            let number = id.0.cast_signed();
            step.run("DELETE FROM deliveries WHERE webhook = $1", params![number]).await?;
            step.run("DELETE FROM webhooks WHERE id = $1", params![number]).await?;
            step.write(&AuditRecord::webhook_removed(&webhook), &by).await?;
            Ok(())
        })
    }

    async fn owners_with_webhooks(&self) -> Answer<Vec<OwnerId>> {
        let sql = "SELECT DISTINCT owner FROM webhooks WHERE disabled_at IS NULL ORDER BY owner";
        let rows = self.pool.list(sql, &[]).await?;
        Ok(all(&rows, |row| Ok(OwnerId(id(row, 0)?)))?)
    }

    async fn enqueue_all(&self, events: Vec<NewEvent>) -> Answer<EnqueueResult> {
        step!(self, Rows, |step| { step.enqueue_all(&events).await })
    }

    async fn due(&self, claim: DeliveryClaim) -> Answer<Vec<DueDelivery>> {
        // Callers poll this, mostly without a result: a read first saves a transaction.
        let sql = format!("SELECT true {READY} LIMIT 1");
        let (until, latest) = (SqlTimestamp(claim.until()), SqlTimestamp(claim.latest_attempt()));
        let all = params![i64::MIN, i64::MAX, SqlTimestamp(claim.now), until, latest];
        let any = self.query(&sql, all).await?;
        if any.is_empty() {
            return Ok(Vec::new());
        }
        step!(self, Rows, |step| { step.due(&claim).await })
    }

    async fn record_attempt(&self, attempt: DeliveryAttempt) -> Answer<bool> {
        step!(self, Rows, |step| { step.record_attempt(&attempt).await })
    }

    async fn resend(
        &self,
        owner: OwnerId,
        id: WebhookId,
        event: String,
        now: Timestamp,
    ) -> Answer<()> {
        step!(self, Rows, |step| { step.resend(owner, id, &event, now).await })
    }

    async fn deliveries(
        &self,
        owner: OwnerId,
        id: WebhookId,
        limit: usize,
    ) -> Answer<Vec<Delivery>> {
        let number = id.0.cast_signed();
        let owned = "SELECT true FROM webhooks WHERE id = $1 AND owner = $2";
        let owned = self.query(owned, params![number, owner.0.cast_signed()]).await?;
        first(&owned, |_| Ok(()))?.ok_or(RegistryError::Missing)?;
        let sql = format!(
            "SELECT {DELIVERY_COLUMNS} FROM deliveries d WHERE d.webhook = $1 \
             ORDER BY d.id DESC LIMIT $2"
        );
        let rows = self.pool.list(&sql, params![number, at_most(limit)]).await?;
        Ok(all(&rows, rows::delivery)?)
    }

    async fn waiting_deliveries(&self) -> Answer<u64> {
        let sql = "SELECT coalesce(sum(waiting), 0)::bigint FROM webhooks";
        let sum = first(&self.pool.list(sql, &[]).await?, |row| rows::id(row, 0))?;
        Ok(sum.unwrap_or_default())
    }
}
