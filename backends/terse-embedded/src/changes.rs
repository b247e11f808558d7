//! Change rows: which links changed, in the order of the commits.

use std::time::{Duration, SystemTime};

use rusqlite::{OptionalExtension, params};
use terse_core::{
    CHANGES_KEPT, ChangeCursor, ChangePage, Code, LinkChange, LinkKey, Revision, Timestamp,
};

use crate::failure::{Failure, corrupt};
use crate::queries::LinkQueries;
use crate::writes::LinkWrites;

pub(crate) const CHANGES: &str =
    "SELECT id, domain, code, revision, at FROM changes WHERE id > ?1 ORDER BY id LIMIT ?2";
/// The oldest rows, if they are too old. Row times rise with row numbers.
pub(crate) const OUTDATED: &str = "id <= (SELECT max(id) FROM \
     (SELECT id, at FROM changes ORDER BY id LIMIT ?2) WHERE at < ?1)";
/// The largest number of rows that one commit prunes.
const PRUNED_PER_COMMIT: i64 = 1000;
/// The largest number of rows that one query reads.
const MAX_PAGE: usize = 10_000;

impl LinkQueries {
    /// The number of the last row ever written.
    pub(crate) fn last_change(&self) -> Result<ChangeCursor, Failure> {
        let mut statement =
            self.conn.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")?;
        let last: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
        Ok(ChangeCursor(last.unwrap_or(0) as u64))
    }

    pub(crate) fn changes(&self, after: ChangeCursor, limit: usize) -> Result<ChangePage, Failure> {
        let last = self.last_change()?;
        let oldest: Option<i64> = self
            .conn
            .prepare_cached("SELECT min(id) FROM changes")?
            .query_row([], |row| row.get(0))?;
        // Rows up to here were pruned.
        let pruned = oldest.map_or(last.0, |oldest| oldest as u64 - 1);
        // A cursor beyond the last row is from before the store was restored.
        let gap = after.0 < pruned || after > last;
        let from = if after > last { pruned } else { after.0 };
        let mut statement = self.conn.prepare_cached(CHANGES)?;
        let mut rows = statement.query(params![from as i64, limit.min(MAX_PAGE) as i64])?;
        let (mut changes, mut next) = (Vec::new(), ChangeCursor(from.max(pruned)));
        while let Some(row) = rows.next()? {
            let code: String = row.get(2)?;
            changes.push(LinkChange {
                key: LinkKey {
                    domain: self.domain_name(row.get(1)?)?,
                    code: Code::parse(&code).ok_or_else(|| corrupt("a change without a code"))?,
                },
                revision: Revision(row.get::<_, i64>(3)? as u64),
                at: Timestamp::from_ms(row.get(4)?),
            });
            next = ChangeCursor(row.get::<_, i64>(0)? as u64);
        }
        Ok(ChangePage { changes, next, gap })
    }

    /// The changes of the last `span`; `None` if there are more than `limit`.
    pub(crate) fn recent_changes(
        &self,
        span: Duration,
        limit: usize,
    ) -> Result<Option<Vec<LinkChange>>, Failure> {
        let limit = limit.min(MAX_PAGE - 1);
        let mut kept = self.changes(ChangeCursor(0), limit + 1)?.changes;
        if kept.len() > limit {
            return Ok(None);
        }
        let from = Timestamp::from_ms(now_ms()).saturating_sub(span);
        kept.retain(|change| change.at > from);
        Ok(Some(kept))
    }
}

impl LinkWrites {
    /// Call this in the transaction of every write that other nodes must learn about.
    pub(crate) fn record_change(
        &mut self,
        key: &LinkKey,
        revision: Revision,
    ) -> Result<(), Failure> {
        let domain = self.domain_id_or_new(&key.domain)?;
        let mut statement = self.conn.prepare_cached(
            "INSERT INTO changes (domain, code, revision, at) VALUES (?1, ?2, ?3, ?4)",
        )?;
        statement.execute(params![domain, key.code.as_str(), revision.0 as i64, now_ms()])?;
        drop(statement);
        self.recorded_changes = true;
        Ok(())
    }

    /// Before a commit: removes old rows if the transaction has written new ones.
    pub(crate) fn prune_changes(&mut self) -> rusqlite::Result<()> {
        if std::mem::take(&mut self.recorded_changes) {
            let before = now_ms() - CHANGES_KEPT.as_millis() as i64;
            self.conn
                .prepare_cached(&format!("DELETE FROM changes WHERE {OUTDATED}"))?
                .execute([before, PRUNED_PER_COMMIT])?;
        }
        Ok(())
    }
}

fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}
