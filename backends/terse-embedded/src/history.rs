//! Earlier revisions of links.

use rusqlite::params;
use terse_core::{LinkKey, LinkVersion, MAX_REVISIONS, Timestamp};

use crate::failure::Failure;
use crate::queries::LinkQueries;
use crate::row::COLUMNS;
use crate::writes::LinkWrites;

/// All revisions of a link but the newest ones.
pub(crate) const TOO_OLD: &str =
    "id = ?1 AND n <= (SELECT n FROM revisions WHERE id = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2)";

impl LinkQueries {
    pub(crate) fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<LinkVersion>, Failure> {
        let Some(id) = self.locate(key)? else {
            return Ok(Vec::new());
        };
        let limit = limit.min(MAX_REVISIONS) as i64;
        let sql = format!(
            "SELECT {COLUMNS}, until FROM revisions WHERE id = ?1 ORDER BY n DESC LIMIT ?2"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![id, limit])?;
        let mut history = Vec::new();
        while let Some(row) = rows.next()? {
            match self.read(row, Some(&key.code)) {
                Ok(link) => {
                    history
                        .push(LinkVersion { link, until: Timestamp::from_ms(row.get("until")?) });
                }
                // One damaged row must not hide all earlier ones.
                Err(Failure::Refused(error)) => {
                    tracing::error!(%error, "left a damaged revision out of a history");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(history)
    }
}

impl LinkWrites {
    /// Copies the stored row of a link into its history, before it is changed.
    pub(crate) fn keep(&self, id: i64, until: Timestamp) -> Result<(), Failure> {
        let sql = format!(
            "INSERT INTO revisions ({COLUMNS}, until) SELECT {COLUMNS}, ?2 FROM links WHERE id = ?1"
        );
        self.conn.prepare_cached(&sql)?.execute([id, until.as_ms()])?;
        let sql = format!("DELETE FROM revisions WHERE {TOO_OLD}");
        self.conn.prepare_cached(&sql)?.execute(params![id, MAX_REVISIONS as i64])?;
        Ok(())
    }

    pub(crate) fn forget_history_of(&self, key: &LinkKey) -> Result<(), Failure> {
        self.locate(key)?.map_or(Ok(()), |id| self.forget_history(id))
    }

    /// Deletes the history of a link.
    pub(crate) fn forget_history(&self, id: i64) -> Result<(), Failure> {
        self.conn.prepare_cached("DELETE FROM revisions WHERE id = ?1")?.execute([id])?;
        Ok(())
    }
}
