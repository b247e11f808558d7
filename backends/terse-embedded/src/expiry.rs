//! Marks expired links, and purges expired and deleted ones.

use std::collections::HashSet;

use rusqlite::params;
use terse_core::registry::EventKind;
use terse_core::{Link, LinkKey, LinkStatus, OutboxEvent, OwnerId, PurgeBefore, Timestamp};

use crate::failure::Failure;
use crate::queries::LinkQueries;
use crate::row::{COLUMNS, FIRST_NAMED};
use crate::writes::LinkWrites;

/// The largest batch, whatever the caller asks for: all other writes wait behind it.
const MAX_BATCH: usize = 10_000;

/// How many links of owners one purge deletes: erasing each from the search index takes about a
/// millisecond.
const MAX_ERASED: usize = 250;

/// Links that can be purged, except blocked ones (32, as in the schema): those of owners that were
/// marked as expired, those without an owner, and deleted ones.
pub(crate) const MARKED: &str = "marked IS NOT NULL AND (flags & 32) = 0 AND owner <> 0 AND \
    marked <= ?1 AND expires_at <= ?1 ORDER BY marked";
pub(crate) const MARKED_ANONYMOUS: &str = "marked IS NOT NULL AND (flags & 32) = 0 AND owner = 0 \
    AND marked <= ?1 AND expires_at <= ?1 ORDER BY marked";
pub(crate) const DELETED: &str =
    "deleted_at IS NOT NULL AND (flags & 32) = 0 AND deleted_at <= ?1 ORDER BY deleted_at";

impl LinkQueries {
    pub(crate) fn count_purgeable(&self, before: PurgeBefore) -> Result<u64, Failure> {
        let count = |condition: &str, before: Timestamp| -> Result<u64, Failure> {
            let sql = format!("SELECT count(*) FROM links WHERE {condition}");
            let count: i64 =
                self.conn.prepare_cached(&sql)?.query_row([before.as_ms()], |row| row.get(0))?;
            Ok(count.cast_unsigned())
        };
        let PurgeBefore { ended, expired_with_owner } = before;
        let deleted = "deleted_at IS NOT NULL AND (flags & 32) = 0 AND deleted_at <= ?1 AND \
                       deleted_at > 0";
        Ok(count(MARKED, expired_with_owner)?
            + count(MARKED_ANONYMOUS, ended)?
            + count(deleted, ended)?)
    }

    pub(crate) fn count_links(&self) -> Result<u64, Failure> {
        let count: i64 = self.conn.query_row("SELECT count(*) FROM links", [], |row| row.get(0))?;
        Ok(count.cast_unsigned())
    }
}

impl LinkWrites {
    pub(crate) fn mark_expired(
        &mut self,
        now: Timestamp,
        limit: usize,
        subscribers: &HashSet<OwnerId>,
    ) -> Result<Vec<LinkKey>, Failure> {
        let due = self.due(
            "expires_at IS NOT NULL AND marked IS NULL AND expires_at <= ?1 ORDER BY expires_at",
            now,
            limit.min(MAX_BATCH),
        )?;
        let mut keys = Vec::with_capacity(due.len());
        for (id, was) in due {
            let was_reusable = was.reusable;
            let link = Link { reusable: false, ..was };
            if was_reusable {
                self.rewrite(id, &link)?;
            }
            self.conn
                .prepare_cached("UPDATE links SET marked = ?2 WHERE id = ?1")?
                .execute([id, now.as_ms()])?;
            self.record_change(&link.key, link.revision)?;
            if link.status(now) == LinkStatus::Expired && subscribers.contains(&link.owner) {
                self.post(OutboxEvent { kind: EventKind::LinkExpired, at: now }, &link)?;
            }
            keys.push(link.key);
        }
        Ok(keys)
    }

    pub(crate) fn purge(
        &mut self,
        before: PurgeBefore,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, Failure> {
        let (mut keys, mut erased) = (Vec::new(), 0);
        let PurgeBefore { ended, expired_with_owner } = before;
        for (condition, before) in
            [(MARKED, expired_with_owner), (MARKED_ANONYMOUS, ended), (DELETED, ended)]
        {
            let left = limit.min(MAX_BATCH) - keys.len();
            for (id, link) in self.due(condition, before, left)? {
                if id >= FIRST_NAMED {
                    let domain = self.domain_id(&link.key.domain)?;
                    let mut statement = self
                        .conn
                        .prepare_cached("DELETE FROM aliases WHERE domain = ?1 AND code = ?2")?;
                    statement.execute(params![domain, link.key.code.as_str()])?;
                    drop(statement);
                    if let (Some(until), Some(domain), false) =
                        (quarantine_until, domain, link.generated)
                    {
                        self.quarantine(domain, &link, until)?;
                    }
                }
                self.forget_history(id)?;
                erased += usize::from(self.unindex(id, &link)?);
                self.conn.prepare_cached("DELETE FROM links WHERE id = ?1")?.execute([id])?;
                self.record_change(&link.key, link.revision)?;
                keys.push(link.key);
                if erased == MAX_ERASED {
                    return Ok(keys);
                }
            }
        }
        Ok(keys)
    }

    pub(crate) fn forget_requests(
        &mut self,
        before: Timestamp,
        limit: usize,
    ) -> Result<usize, Failure> {
        let mut statement = self.conn.prepare_cached(
            "DELETE FROM requests WHERE id IN (SELECT id FROM requests WHERE at < \
                ?1 ORDER BY at LIMIT ?2)",
        )?;
        Ok(statement.execute(params![before.as_ms(), limit.min(MAX_BATCH) as i64])?)
    }

    /// Due links. Damaged ones stay where they are, for an operator to inspect.
    fn due(
        &self,
        condition: &str,
        by: Timestamp,
        limit: usize,
    ) -> Result<Vec<(i64, Link)>, Failure> {
        let mut due = Vec::new();
        let mut statement =
            self.conn.prepare_cached(&format!("SELECT {COLUMNS} FROM links WHERE {condition}"))?;
        let mut rows = statement.query([by.as_ms()])?;
        while due.len() < limit
            && let Some(row) = rows.next()?
        {
            match self.read(row, None) {
                Ok(link) => due.push((row.get(0)?, link)),
                Err(Failure::Refused(error)) => {
                    tracing::error!(%error, "skipped a damaged link that has ended");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(due)
    }
}
