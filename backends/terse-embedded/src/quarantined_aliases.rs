//! Aliases of purged links: quarantined for a while, so that printed links do not lead to another
//! owner's target.

use rusqlite::params;
use terse_core::{Link, Timestamp};

use crate::failure::Failure;
use crate::writes::LinkWrites;

pub(crate) const QUARANTINED_CODE: &str =
    "SELECT EXISTS (SELECT 1 FROM held WHERE domain = ?1 AND code = ?2)";
/// Aliases with the folded form ?2, except those that belonged to owner ?3.
pub(crate) const QUARANTINED_ALIAS: &str = "SELECT EXISTS (SELECT 1 FROM held INDEXED BY \
    held_folded \
     WHERE domain = ?1 AND lower(code) = ?2 AND owner IS NOT ?3)";
pub(crate) const OVER: &str = "SELECT domain, code FROM held WHERE until <= ?1 LIMIT ?2";
/// The largest batch, whatever the caller asks for: all other writes wait behind it.
const MAX_BATCH: usize = 10_000;

impl LinkWrites {
    /// Whether any alias is in quarantine. Most stores have none, and an import of many links asks
    /// for each: the answer is kept until an alias gets there.
    pub(crate) fn quarantines_any(&self) -> Result<bool, Failure> {
        if let Some(known) = self.quarantines_any.get() {
            return Ok(known);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM held)";
        let any = self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        self.quarantines_any.set(Some(any));
        Ok(any)
    }

    /// Quarantines the alias of a link that is being purged.
    pub(crate) fn quarantine(
        &self,
        domain: i64,
        link: &Link,
        until: Timestamp,
    ) -> Result<(), Failure> {
        let mut statement =
            self.conn.prepare_cached("INSERT OR REPLACE INTO held VALUES (?1, ?2, ?3, ?4)")?;
        statement.execute(params![
            domain,
            link.key.code.as_str(),
            link.owner.0 as i64,
            until.as_ms()
        ])?;
        self.quarantines_any.set(Some(true));
        Ok(())
    }

    /// Ends the quarantine of an alias that its former owner takes back.
    pub(crate) fn take_back(&self, domain: i64, link: &Link) -> Result<(), Failure> {
        if !self.quarantines_any()? {
            return Ok(());
        }
        let mut statement =
            self.conn.prepare_cached("DELETE FROM held WHERE domain = ?1 AND code = ?2")?;
        statement.execute(params![domain, link.key.code.as_str()])?;
        Ok(())
    }

    pub(crate) fn release(&mut self, now: Timestamp, limit: usize) -> Result<usize, Failure> {
        self.quarantines_any.set(None);
        let sql = format!("DELETE FROM held WHERE (domain, code) IN ({OVER})");
        Ok(self
            .conn
            .prepare_cached(&sql)?
            .execute(params![now.as_ms(), limit.min(MAX_BATCH) as i64])?)
    }
}
