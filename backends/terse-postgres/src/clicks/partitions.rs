//! Single clicks have a table per month, created ahead and dropped as a whole. The size of each day
//! is known without reading its clicks.

use std::collections::BTreeMap;

use terse_core::Timestamp;
use terse_core::clicks::Unit;

use super::PostgresClicks;
use crate::exclusive::Transaction;
use crate::failure::Failure;
use crate::pool::retried;
use crate::sql::{Param, params};

/// What a row takes beside the click: its head, its other columns, and its two index entries.
const ROW_OCTETS: i64 = 96;

/// How many months ahead have a table.
const MONTHS_AHEAD: i32 = 2;

/// What one step of [`PostgresClicks::prune_raw`] did.
pub(super) struct PrunedRaw {
    pub(super) deleted: u64,
    pub(super) more: bool,
}

fn day_of(at_ms: i64) -> i64 {
    at_ms.div_euclid(Unit::Day.ms())
}

/// Adds single clicks to the sizes of their days.
pub(super) async fn add_to_days(
    transaction: &Transaction<'_>,
    at: &[i64],
    clicks: &[Vec<u8>],
) -> Result<(), Failure> {
    let mut days: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for (at, click) in at.iter().zip(clicks) {
        let (count, octets) = days.entry(day_of(*at)).or_default();
        *count += 1;
        *octets += click.len() as i64 + ROW_OCTETS;
    }
    let day: Vec<i64> = days.keys().copied().collect();
    let count: Vec<i64> = days.values().map(|(count, _)| *count).collect();
    let octets: Vec<i64> = days.values().map(|(_, octets)| *octets).collect();
    transaction
        .execute(
            "INSERT INTO click_raw_days AS d (day, clicks, octets) \
             SELECT * FROM unnest($1, $2, $3) AS a (day, clicks, octets) ORDER BY day \
             ON CONFLICT (day) DO UPDATE SET clicks = d.clicks + excluded.clicks, \
             octets = d.octets + excluded.octets",
            params![day, count, octets],
        )
        .await?;
    Ok(())
}

/// Deletes single clicks by a statement that returns `at` and `click`, and takes them off the sizes
/// of their days. Returns how many.
pub(super) async fn delete(
    transaction: &Transaction<'_>,
    sql: &str,
    params: &[Param<'_>],
) -> Result<u64, Failure> {
    let sql = format!(
        "WITH gone AS ({sql}), days AS ( \
           SELECT floor(at / {day}.0)::bigint AS day, count(*)::bigint AS clicks, \
           sum(octet_length(click) + {ROW_OCTETS})::bigint AS octets FROM gone GROUP BY 1), \
         changed AS (UPDATE click_raw_days d SET clicks = d.clicks - days.clicks, \
           octets = d.octets - days.octets FROM days WHERE d.day = days.day) \
         SELECT coalesce(sum(clicks), 0)::bigint FROM days",
        day = Unit::Day.ms(),
    );
    let row = transaction.query_opt(&sql, params).await?;
    Ok(row.map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
}

/// A month's table.
struct Month {
    name: String,
    from: i64,
    to: i64,
}

impl PostgresClicks {
    /// Creates the tables of this month and the next ones, where they are missing. A month that has
    /// clicks in the default table gets none.
    pub(super) async fn create_months(&self) -> Result<(), Failure> {
        let months = self
            .pool
            .list(
                "SELECT 'click_raw_' || to_char(m, 'YYYYMM'), \
                 (extract(epoch FROM m) * 1000)::bigint, \
                 (extract(epoch FROM m + interval '1 month') * 1000)::bigint \
                 FROM generate_series(0, $1) AS n, LATERAL (SELECT date_trunc('month', \
                 now() AT TIME ZONE 'UTC') + n * interval '1 month') AS s (m) \
                 WHERE to_regclass('click_raw_' || to_char(m, 'YYYYMM')) IS NULL \
                 AND NOT EXISTS (SELECT FROM click_raw_default \
                 WHERE at >= (extract(epoch FROM m) * 1000)::bigint \
                 AND at < (extract(epoch FROM m + interval '1 month') * 1000)::bigint)",
                params![MONTHS_AHEAD],
            )
            .await?;
        // Mostly none. Whether the default table has clicks of a month is checked before and after
        // the lock: a month that must stay there is not locked again and again.
        for row in &months {
            let month = Month { name: row.get(0), from: row.get(1), to: row.get(2) };
            retried(|| self.create_month(&month)).await?;
        }
        Ok(())
    }

    async fn create_month(&self, month: &Month) -> Result<(), Failure> {
        let Month { name, from, to } = month;
        let transaction = self.pool.begin().await?;
        // With a short timeout, because counting waits for this lock.
        transaction
            .batch("SET LOCAL lock_timeout = 2000; LOCK TABLE click_raw IN ACCESS EXCLUSIVE MODE")
            .await?;
        let taken = transaction
            .query_opt(
                "SELECT FROM click_raw_default WHERE at >= $1 AND at < $2 LIMIT 1",
                params![*from, *to],
            )
            .await?;
        if taken.is_none() {
            transaction
                .batch(&format!(
                    "CREATE TABLE IF NOT EXISTS {name} PARTITION OF click_raw \
                     FOR VALUES FROM ({from}) TO ({to})"
                ))
                .await?;
        }
        transaction.commit().await
    }

    /// One step: drops the months that have ended by `before`, deletes up to `limit` other clicks
    /// before it, and up to `limit` of the oldest beyond `max_octets`.
    pub(super) async fn prune_raw(
        &self,
        before: Timestamp,
        max_octets: Option<u64>,
        limit: u64,
    ) -> Result<PrunedRaw, Failure> {
        let before = before.as_ms();
        let mut deleted = self.drop_months(before).await?;
        let transaction = self.pool.begin().await?;
        let old = "DELETE FROM click_raw WHERE (subject, at, number) IN (SELECT subject, at, \
             number FROM click_raw WHERE at < $1 ORDER BY at LIMIT $2) RETURNING at, click";
        let aged = delete(&transaction, old, params![before, limit.cast_signed()]).await?;
        let mut more = aged >= limit;
        deleted += aged;
        if let Some(max_octets) = max_octets {
            let max = i64::try_from(max_octets).unwrap_or(i64::MAX);
            let row = transaction
                .query_opt(
                    "SELECT least(coalesce(sum(octets), 0), 9223372036854775807)::bigint, \
                     least(coalesce(sum(clicks), 0), 9223372036854775807)::bigint \
                     FROM click_raw_days",
                    &[],
                )
                .await?;
            let (octets, clicks) = row.map_or((0, 0), |row| (row.get(0), row.get(1)));
            let beyond: i64 = i64::max(octets, 0) - max;
            if beyond > 0 && clicks > 0 {
                // Deletes as many clicks as take that much space on average; the next step corrects
                // the estimate.
                let average = i64::max(octets / clicks, 1);
                let wanted = (beyond + average - 1) / average;
                let most = wanted.min(limit.cast_signed());
                let oldest = "DELETE FROM click_raw WHERE (subject, at, number) IN (SELECT \
                     subject, at, number FROM click_raw ORDER BY at LIMIT $1) RETURNING at, click";
                let gone = delete(&transaction, oldest, params![most]).await?;
                more |= gone > 0 && wanted > most;
                deleted += gone;
            }
        }
        let empty = "DELETE FROM click_raw_days WHERE clicks <= 0 AND day < $1";
        transaction.execute(empty, params![day_of(before)]).await?;
        transaction.commit().await?;
        Ok(PrunedRaw { deleted, more })
    }

    /// Drops the tables of months that have ended, and returns how many clicks they had.
    async fn drop_months(&self, before: i64) -> Result<u64, Failure> {
        let tables = self
            .pool
            .list(
                "SELECT name, (extract(epoch FROM m) * 1000)::bigint, \
                 (extract(epoch FROM m + interval '1 month') * 1000)::bigint \
                 FROM (SELECT c.relname::text AS name, to_timestamp(substr(c.relname, 11), \
                 'YYYYMM') AT TIME ZONE current_setting('TimeZone') AS m FROM pg_inherits i \
                 JOIN pg_class c ON c.oid = i.inhrelid \
                 WHERE i.inhparent = to_regclass('click_raw') \
                 AND c.relname ~ '^click_raw_[0-9]{6}$') AS months \
                 WHERE (extract(epoch FROM m + interval '1 month') * 1000)::bigint <= $1",
                params![before],
            )
            .await?;
        let mut deleted = 0;
        for row in &tables {
            let month = Month { name: row.get(0), from: row.get(1), to: row.get(2) };
            deleted += retried(|| self.drop_month(&month)).await?;
        }
        Ok(deleted)
    }

    async fn drop_month(&self, month: &Month) -> Result<u64, Failure> {
        let Month { name, from, to } = month;
        let transaction = self.pool.begin().await?;
        transaction
            .batch("SET LOCAL lock_timeout = 2000; LOCK TABLE click_raw IN ACCESS EXCLUSIVE MODE")
            .await?;
        transaction.batch(&format!("DROP TABLE IF EXISTS {name}")).await?;
        let gone = transaction
            .query_opt(
                "WITH old AS (DELETE FROM click_raw_days WHERE day >= $1 AND day < $2 \
                 RETURNING clicks) SELECT coalesce(sum(clicks), 0)::bigint FROM old",
                params![day_of(*from), day_of(*to)],
            )
            .await?
            .map_or(0, |row| row.get::<_, i64>(0));
        transaction.commit().await?;
        Ok(gone.max(0).cast_unsigned())
    }
}
