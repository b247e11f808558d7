//! Deletes clicks: by age, and with the link or the owner they belong to.

use std::collections::BTreeMap;

use async_trait::async_trait;
use terse_core::clicks::{
    ClickRetention, JournalId, LOG_GENERATIONS, MAX_VALUES_PER_DAY, Pruned, Retention, StoredSum,
    Unit,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};

use super::ingest::Columns;
use super::sum::{Slot, merge_stored};
use super::{DAY, ERASURE_LOCK, HOUR, PostgresClicks, TOMBSTONES, partitions};
use crate::exclusive::Transaction;
use crate::failure::Failure;
use crate::pool::retried;
use crate::sql::params;

/// The largest number of rows that one statement deletes, whatever the caller asks for.
const MAX_BATCH: usize = 10_000;

#[async_trait]
impl ClickRetention for PostgresClicks {
    async fn erase_links(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), StoreError> {
        Ok(retried(|| self.erase_links_once(links, created_by, erased_at)).await?)
    }

    async fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) -> Result<(), StoreError> {
        Ok(retried(|| self.erase_owner_once(owner, erased_at)).await?)
    }

    async fn forget_logs(&self, before: Timestamp) -> Result<u64, StoreError> {
        let sql = "WITH logs AS (DELETE FROM click_journals \
             WHERE generation >= $1 AND generation < $2 RETURNING id), \
             positions AS (DELETE FROM click_positions p USING logs WHERE p.journal = logs.id) \
             SELECT count(*) FROM logs";
        let (from, to) = (LOG_GENERATIONS, JournalId::log_generation(before));
        let rows = self
            .pool
            .write_unrepeatable(sql, params![from.cast_signed(), to.cast_signed()])
            .await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned, StoreError> {
        Ok(retried(|| self.prune_once(retention)).await?)
    }
}

/// Deletes everything about these subjects.
async fn delete(transaction: &Transaction<'_>, subjects: &[i64]) -> Result<(), Failure> {
    let subjects = subjects.to_vec();
    let raw = "DELETE FROM click_raw WHERE subject = ANY($1) RETURNING at, click";
    partitions::delete(transaction, raw, params![subjects]).await?;
    for sql in [
        "DELETE FROM click_buckets WHERE subject = ANY($1)",
        "DELETE FROM click_subjects WHERE id = ANY($1)",
    ] {
        transaction.execute(sql, params![subjects]).await?;
    }
    Ok(())
}

impl PostgresClicks {
    async fn begin_erasure(&self) -> Result<Transaction<'_>, Failure> {
        let transaction = self.pool.begin().await?;
        transaction.execute("SELECT pg_advisory_xact_lock($1)", params![ERASURE_LOCK]).await?;
        Ok(transaction)
    }

    async fn erase_links_once(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), Failure> {
        let domains: Vec<&str> = links.iter().map(|key| key.domain.as_str()).collect();
        let codes: Vec<&str> = links.iter().map(|key| key.code.as_str()).collect();
        let transaction = self.begin_erasure().await?;
        TOMBSTONES.erase_links(&transaction, (&domains, &codes), created_by, erased_at).await?;
        let created_by = created_by.as_ms();
        let rows = transaction
            .query(
                "SELECT s.id FROM unnest($1, $2) AS k (domain, code) JOIN click_subjects s \
                 ON s.kind = 0 AND s.domain = k.domain COLLATE \"C\" \
                 AND s.code = k.code COLLATE \"C\" AND s.link_created_at <= $3",
                params![domains, codes, created_by],
            )
            .await?;
        let subjects: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        delete(&transaction, &subjects).await?;
        transaction.commit().await
    }

    async fn erase_owner_once(&self, owner: OwnerId, erased_at: Timestamp) -> Result<(), Failure> {
        let transaction = self.begin_erasure().await?;
        TOMBSTONES.erase_owner(&transaction, owner, erased_at).await?;
        let owner = owner.0.cast_signed();
        let rows = transaction
            .query(
                "SELECT id FROM click_subjects WHERE kind = 0 AND owner = $1 \
                 OR kind = 1 AND sum_of = $1",
                params![owner],
            )
            .await?;
        let subjects: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        delete(&transaction, &subjects).await?;
        transaction.commit().await
    }

    async fn prune_once(&self, retention: Retention) -> Result<Pruned, Failure> {
        // Reports sum up hours until the hours become days.
        let Retention {
            raw_before,
            max_raw,
            days_before: _,
            hours_before,
            tombstones_before,
            limit,
        } = retention;
        let most = limit.min(MAX_BATCH) as u64;
        if let Err(error) = self.create_months().await {
            let error = StoreError::from(error);
            tracing::warn!(%error, "the tables for single clicks of the next months are missing");
        }
        let raw = self.prune_raw(Unit::Hour.floor(raw_before), max_raw, most).await?;
        let mut pruned = Pruned { raw: raw.deleted, ..Pruned::default() };
        let transaction = self.pool.begin().await?;
        let left = most.saturating_sub(raw.deleted);
        let before = Unit::Day.floor(hours_before).as_ms();
        pruned.hours = merge_hours(&transaction, before, left).await?;
        let mut left = left - pruned.hours;
        pruned.tombstones = TOMBSTONES.prune(&transaction, tombstones_before, left).await?;
        left -= pruned.tombstones;
        transaction.commit().await?;
        // A full batch may have left something.
        pruned.more = left == 0 || raw.more;
        Ok(pruned)
    }
}

/// Merges at most `limit` hours into days, and returns how many.
async fn merge_hours(
    transaction: &Transaction<'_>,
    before: i64,
    limit: u64,
) -> Result<u64, Failure> {
    let due = transaction
        .query(
            "SELECT subject, start FROM click_buckets WHERE unit = 1 AND start < $1 \
             ORDER BY start LIMIT $2",
            params![before, limit.cast_signed()],
        )
        .await?;
    if due.is_empty() {
        return Ok(0);
    }
    let subjects: Vec<i64> = due.iter().map(|row| row.get(0)).collect();
    let starts: Vec<i64> = due.iter().map(|row| row.get(1)).collect();
    // Counting locks the same rows, in the same order.
    transaction
        .execute(
            "SELECT FROM click_subjects WHERE id = ANY($1) ORDER BY id FOR UPDATE",
            params![subjects],
        )
        .await?;
    let hours = transaction
        .query(
            "DELETE FROM click_buckets b USING unnest($1, $2) AS k (subject, start) \
             WHERE b.subject = k.subject AND b.unit = 1 AND b.start = k.start \
             RETURNING b.subject, b.start, b.sum",
            params![subjects, starts],
        )
        .await?;
    let mut days: BTreeMap<Slot, StoredSum> = BTreeMap::new();
    for row in &hours {
        let (subject, start): (i64, i64) = (row.get(0), row.get(1));
        let day = Unit::Day.floor(Timestamp::from_ms(start)).as_ms();
        let sum = days.entry(Slot { subject, unit: DAY, start: day }).or_default();
        merge_stored(sum, row.get(2), Slot { subject, unit: HOUR, start })?;
    }
    let ids: Vec<i64> = days.keys().map(|slot| slot.subject).collect();
    let starts: Vec<i64> = days.keys().map(|slot| slot.start).collect();
    let kept = transaction
        .query(
            "SELECT b.subject, b.start, b.sum FROM unnest($1, $2) AS k (subject, start) \
             JOIN click_buckets b ON b.subject = k.subject AND b.unit = 2 AND b.start = k.start",
            params![ids, starts],
        )
        .await?;
    for row in &kept {
        let slot = Slot { subject: row.get(0), unit: DAY, start: row.get(1) };
        if let Some(sum) = days.get_mut(&slot) {
            merge_stored(sum, row.get(2), slot)?;
        }
    }
    let mut columns = Columns::default();
    for (slot, mut sum) in days {
        sum.tally.trim(MAX_VALUES_PER_DAY);
        columns.push(slot, &sum, 0);
    }
    columns.write_buckets(transaction).await?;
    Ok(hours.len() as u64)
}
