//! Expiry, purging and quarantine of links, and the deletion of old request ids.

use std::collections::HashSet;

use terse_core::registry::EventKind;
use terse_core::{
    Link, LinkKey, LinkStatus, OutboxEvent, OwnerId, PurgeBefore, Revision, StoreError, Timestamp,
};

use super::PostgresLinks;
use super::changes;
use super::insert_batch::post;
use super::row::{self, COLUMNS};
use super::updates::rewrite;
use crate::exclusive::Transaction;
use crate::failure::Failure;
use crate::pool::retried;
use crate::sql::{SqlTimestamp, params};

/// The largest batch, whatever the caller asks for: a transaction must be short.
const MAX_BATCH: usize = 10_000;

/// Links that can be purged, except blocked ones: those of owners that were marked as expired,
/// those without an owner, and deleted ones.
const MARKED: &str = "l.marked IS NOT NULL AND l.moderation <> 2 AND l.owner <> 0 \
     AND l.marked <= $1 AND l.expires_at <= $1";
const MARKED_ANONYMOUS: &str = "l.marked IS NOT NULL AND l.moderation <> 2 AND l.owner = 0 \
     AND l.marked <= $1 AND l.expires_at <= $1";
const DELETED: &str = "l.deleted_at IS NOT NULL AND l.moderation <> 2 AND l.deleted_at <= $1";

impl PostgresLinks {
    pub(super) async fn mark(
        &self,
        now: Timestamp,
        limit: usize,
        subscribers: &[OwnerId],
    ) -> Result<Vec<LinkKey>, StoreError> {
        Ok(retried(|| self.mark_once(now, limit, subscribers)).await?)
    }

    async fn mark_once(
        &self,
        now: Timestamp,
        limit: usize,
        subscribers: &[OwnerId],
    ) -> Result<Vec<LinkKey>, Failure> {
        let subscribers: HashSet<OwnerId> = subscribers.iter().copied().collect();
        let transaction = self.pool.begin().await?;
        let condition = "l.expires_at IS NOT NULL AND l.marked IS NULL AND l.expires_at <= $1";
        let due = due(&transaction, condition, "l.expires_at", now, limit).await?;
        if due.is_empty() {
            transaction.rollback().await?;
            return Ok(Vec::new());
        }
        let were_reusable: Vec<bool> = due.iter().map(|link| link.reusable).collect();
        let links: Vec<Link> =
            due.into_iter().map(|link| Link { reusable: false, ..link }).collect();
        let rewritten: Vec<&Link> = links
            .iter()
            .zip(were_reusable)
            .filter(|(_, was_reusable)| *was_reusable)
            .map(|(link, _)| link)
            .collect();
        if !rewritten.is_empty() {
            rewrite(&transaction, &rewritten).await?;
        }
        let (domains, codes) = keys(&links);
        transaction
            .execute(
                "UPDATE links l SET marked = $3 FROM unnest($1, $2) AS k (domain, code) \
                 WHERE l.domain = k.domain COLLATE \"C\" AND l.code = k.code COLLATE \"C\"",
                params![domains, codes, SqlTimestamp(now)],
            )
            .await?;
        changes::record(&transaction, &changed(&links)).await?;
        let event = OutboxEvent { kind: EventKind::LinkExpired, at: now };
        let events: Vec<_> = links
            .iter()
            .filter(|link| {
                link.status(now) == LinkStatus::Expired && subscribers.contains(&link.owner)
            })
            .map(|link| (event, link))
            .collect();
        post(&transaction, &events).await?;
        transaction.commit().await?;
        Ok(links.into_iter().map(|link| link.key).collect())
    }

    pub(super) async fn purge_ended(
        &self,
        before: PurgeBefore,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError> {
        Ok(retried(|| self.purge_once(before, limit, quarantine_until)).await?)
    }

    async fn purge_once(
        &self,
        before: PurgeBefore,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, Failure> {
        let transaction = self.pool.begin().await?;
        let PurgeBefore { ended, expired_with_owner } = before;
        let mut links: Vec<Link> = Vec::new();
        let mut seen = HashSet::new();
        for (condition, order, before) in [
            (MARKED, "l.marked", expired_with_owner),
            (MARKED_ANONYMOUS, "l.marked", ended),
            (DELETED, "l.deleted_at", ended),
        ] {
            let left = limit.min(MAX_BATCH) - links.len();
            if left > 0 {
                let due = due(&transaction, condition, order, before, left).await?;
                links.extend(due.into_iter().filter(|link| seen.insert(link.key.clone())));
            }
        }
        if links.is_empty() {
            transaction.rollback().await?;
            return Ok(Vec::new());
        }
        let (domains, codes) = keys(&links);
        for table in ["links", "link_revisions"] {
            let sql = format!(
                "DELETE FROM {table} t USING unnest($1, $2) AS k (domain, code) \
                 WHERE t.domain = k.domain COLLATE \"C\" AND t.code = k.code COLLATE \"C\""
            );
            transaction.execute(&sql, params![domains, codes]).await?;
        }
        if let Some(until) = quarantine_until {
            let held = || links.iter().filter(|link| !link.generated);
            let domains: Vec<&str> = held().map(|link| link.key.domain.as_str()).collect();
            let codes: Vec<&str> = held().map(|link| link.key.code.as_str()).collect();
            let owners: Vec<i64> = held().map(|link| link.owner.0.cast_signed()).collect();
            transaction
                .execute(
                    "INSERT INTO link_quarantine (domain, code, owner, until) \
                     SELECT k.*, $4 FROM unnest($1, $2, $3) AS k ON CONFLICT (domain, code) \
                     DO UPDATE SET owner = excluded.owner, until = excluded.until",
                    params![domains, codes, owners, SqlTimestamp(until)],
                )
                .await?;
        }
        changes::record(&transaction, &changed(&links)).await?;
        transaction.commit().await?;
        Ok(links.into_iter().map(|link| link.key).collect())
    }

    pub(super) async fn purgeable(&self, before: PurgeBefore) -> Result<u64, StoreError> {
        let PurgeBefore { ended, expired_with_owner } = before;
        let deleted = format!("{DELETED} AND l.deleted_at > 'epoch'");
        let mut count = 0;
        for (condition, before) in
            [(MARKED, expired_with_owner), (MARKED_ANONYMOUS, ended), (deleted.as_str(), ended)]
        {
            let sql = format!("SELECT count(*) FROM links l WHERE {condition}");
            let rows = self.pool.list(&sql, params![SqlTimestamp(before)]).await?;
            count += rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned());
        }
        Ok(count)
    }

    pub(super) async fn release_aliases(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let limit = limit.min(MAX_BATCH) as i64;
        let rows = self
            .pool
            .write_unrepeatable(
                "DELETE FROM link_quarantine WHERE (domain, code) IN (SELECT domain, code \
                 FROM link_quarantine WHERE until <= $1 ORDER BY until LIMIT $2) RETURNING true",
                params![SqlTimestamp(now), limit],
            )
            .await?;
        Ok(rows.len())
    }

    pub(super) async fn delete_requests(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let limit = limit.min(MAX_BATCH) as i64;
        let rows = self
            .pool
            .write_unrepeatable(
                "DELETE FROM link_requests WHERE id IN (SELECT id FROM link_requests \
                 WHERE at < $1 ORDER BY at LIMIT $2) RETURNING true",
                params![SqlTimestamp(before), limit],
            )
            .await?;
        Ok(rows.len())
    }
}

/// Due links, locked. Damaged ones stay where they are, for an operator to inspect.
async fn due(
    transaction: &Transaction<'_>,
    condition: &str,
    order: &str,
    moment: Timestamp,
    limit: usize,
) -> Result<Vec<Link>, Failure> {
    let sql = format!(
        "SELECT {COLUMNS} FROM links l WHERE {condition} ORDER BY {order} LIMIT $2 \
         FOR UPDATE SKIP LOCKED"
    );
    let limit = limit.min(MAX_BATCH) as i64;
    let mut due = Vec::new();
    for stored in &transaction.query(&sql, params![SqlTimestamp(moment), limit]).await? {
        match row::read(stored, 0) {
            Ok(link) => due.push(link),
            Err(error) => tracing::error!(%error, "skipped a damaged link that has ended"),
        }
    }
    Ok(due)
}

fn keys(links: &[Link]) -> (Vec<&str>, Vec<&str>) {
    links.iter().map(|link| (link.key.domain.as_str(), link.key.code.as_str())).unzip()
}

fn changed(links: &[Link]) -> Vec<(&LinkKey, Revision)> {
    links.iter().map(|link| (&link.key, link.revision)).collect()
}
