//! The feed of changes.
//!
//! Transactions become visible in another order than their rows are numbered. A handle therefore
//! keeps its last snapshot, and reads the rows that this snapshot did not see: it reads each row
//! once, whatever other transactions are under way. It numbers the rows in the order in which it
//! reads them, and keeps the last ones, so that a caller may ask for the same page again.

use std::collections::VecDeque;
use std::time::Duration;

use terse_core::{
    CHANGES_KEPT, ChangeCursor, ChangePage, LinkChange, LinkKey, Revision, StoreError, Timestamp,
};

use super::row::key_of;
use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt};
use crate::pool::Pool;
use crate::sql::{SqlTimestamp, params};

/// How many changes a handle keeps.
const KEPT: usize = 20_000;
/// A reader that finds more new rows than this forgets everything instead.
const MAX_NEW: usize = 10_000;

/// What a handle has read of the feed.
#[derive(Default)]
pub(crate) struct Feed {
    seen: Option<LastRead>,
    changes: VecDeque<LinkChange>,
    /// How many changes have arrived.
    arrived: u64,
    /// A cursor before this one has missed changes.
    complete_from: u64,
}

/// The state of the store at the last read.
struct LastRead {
    snapshot: String,
    /// One past the last transaction that had ended.
    end: i64,
    incarnation: i64,
    /// By the server's clock.
    at: Timestamp,
    /// The same as the server writes it, with microseconds.
    clock: String,
}

/// The rows that snapshot $1 did not see, or that were written after it was taken: a server that
/// crashed may give the number of a transaction again that had rolled back. The first column is the
/// snapshot of this statement, which is returned even without a change.
const NEW_ROWS: &str = "SELECT s.snapshot::text, \
     pg_snapshot_xmax(s.snapshot)::text::bigint, s.incarnation, s.at, s.at::text, \
     c.domain, c.code, c.revision, c.at \
     FROM (SELECT pg_current_snapshot() AS snapshot, incarnation, clock_timestamp() AS at \
     FROM link_store OFFSET 0) AS s LEFT JOIN LATERAL (SELECT * FROM link_changes c \
         WHERE (c.xid >= pg_snapshot_xmin($1::text::pg_snapshot) \
         AND NOT pg_visible_in_snapshot(c.xid, $1::text::pg_snapshot) OR c.at > $3::text::timestamptz) \
         AND c.xid < pg_snapshot_xmax(s.snapshot) ORDER BY c.id LIMIT $2) AS c ON true \
     ORDER BY c.id";

/// The state without rows, for the first read.
const STATE: &str = "SELECT s.snapshot::text, pg_snapshot_xmax(s.snapshot)::text::bigint, \
     s.incarnation, s.at, s.at::text \
     FROM (SELECT pg_current_snapshot() AS snapshot, incarnation, clock_timestamp() AS at \
     FROM link_store OFFSET 0) AS s";

impl Feed {
    pub(crate) fn last(&self) -> ChangeCursor {
        ChangeCursor(self.arrived)
    }

    /// Reads what is new.
    pub(crate) async fn refresh(&mut self, pool: &Pool) -> Result<(), StoreError> {
        let rows = match &self.seen {
            None => pool.lookup(STATE, &[]).await?,
            Some(seen) => {
                let limit = MAX_NEW as i64 + 1;
                pool.lookup(NEW_ROWS, params![seen.snapshot, limit, seen.clock]).await?
            }
        };
        let first = rows.first().ok_or_else(|| corrupt("the store has no identity"))?;
        let now = LastRead {
            snapshot: first.get(0),
            end: first.get(1),
            incarnation: first.get(2),
            at: first.get::<_, SqlTimestamp>(3).0,
            clock: first.get(4),
        };
        let mut new = Vec::new();
        for row in &rows {
            // The first read, and one without changes, have no change in their row.
            if row.len() > 5
                && let Some(revision) = row.get::<_, Option<i64>>(7)
            {
                let revision = Revision(revision.cast_unsigned());
                new.push(LinkChange {
                    key: key_of(row, 5)?,
                    revision,
                    at: row.get::<_, SqlTimestamp>(8).0,
                });
            }
        }
        let Some(before) = self.seen.replace(now) else { return Ok(()) };
        let Some(now) = &self.seen else { return Ok(()) };
        let was_away = now.at.saturating_sub(CHANGES_KEPT) > before.at;
        let was_restored = now.end < before.end || now.incarnation != before.incarnation;
        if was_away || was_restored || rows.len() > MAX_NEW {
            // One number that no page contains, so that every cursor up to now has missed it.
            self.arrived += 1;
            self.complete_from = self.arrived;
            self.changes.clear();
            return Ok(());
        }
        self.arrived += new.len() as u64;
        self.changes.extend(new);
        while self.changes.len() > KEPT {
            self.changes.pop_front();
        }
        self.complete_from = self.complete_from.max(self.arrived - self.changes.len() as u64);
        Ok(())
    }

    /// The changes after a cursor.
    pub(crate) fn page(&self, after: ChangeCursor, limit: usize) -> ChangePage {
        let first = self.arrived - self.changes.len() as u64;
        let gap = after.0 < self.complete_from || after.0 > self.arrived;
        let from = if gap { first } else { after.0 };
        let skipped = usize::try_from(from - first).unwrap_or(usize::MAX);
        let changes: Vec<LinkChange> =
            self.changes.iter().skip(skipped).take(limit).cloned().collect();
        let next = ChangeCursor(from + changes.len() as u64);
        ChangePage { changes, next, gap }
    }
}

/// The changes of the last `span`; `None` if there are more than `limit`.
pub(crate) async fn recent(
    pool: &Pool,
    span: Duration,
    limit: usize,
) -> Result<Option<Vec<LinkChange>>, StoreError> {
    let (most, seconds) = (i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1, span.as_secs_f64());
    let rows = pool
        .lookup(
            "SELECT domain, code, revision, at FROM link_changes \
             WHERE at > clock_timestamp() - make_interval(secs => $1) ORDER BY id DESC LIMIT $2",
            params![seconds, most],
        )
        .await?;
    if rows.len() > limit {
        return Ok(None);
    }
    let change = |row| {
        let revision = Revision(tokio_postgres::Row::get::<_, i64>(row, 2).cast_unsigned());
        Ok(LinkChange { key: key_of(row, 0)?, revision, at: row.get::<_, SqlTimestamp>(3).0 })
    };
    rows.iter().map(change).collect::<Result<_, _>>().map(Some)
}

/// Writes change rows in the transaction of the changes.
pub(crate) async fn record(
    transaction: &Transaction<'_>,
    changes: &[(&LinkKey, Revision)],
) -> Result<(), Failure> {
    if changes.is_empty() {
        return Ok(());
    }
    let domains: Vec<&str> = changes.iter().map(|(key, _)| key.domain.as_str()).collect();
    let codes: Vec<&str> = changes.iter().map(|(key, _)| key.code.as_str()).collect();
    let revisions: Vec<i64> =
        changes.iter().map(|(_, revision)| revision.0.cast_signed()).collect();
    transaction
        .execute(
            "INSERT INTO link_changes (domain, code, revision) SELECT * FROM unnest($1, $2, $3)",
            params![domains, codes, revisions],
        )
        .await?;
    Ok(())
}

/// Writes a change row of a link that has not changed.
pub(crate) async fn announce(pool: &Pool, key: &LinkKey) -> Result<(), StoreError> {
    pool.write_unrepeatable(
        "INSERT INTO link_changes (domain, code, revision) VALUES ($1, $2, $3)",
        params![key.domain.as_str(), key.code.as_str(), Revision::UNKNOWN.0.cast_signed()],
    )
    .await
    .map(drop)
}
