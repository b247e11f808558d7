//! Events that were written with a link and wait for dispatch.

use rusqlite::params;
use terse_core::{EventId, Link, OutboxEvent, OutboxPage, OutboxRow, Timestamp, link_codec};

use crate::failure::Failure;
use crate::queries::LinkQueries;
use crate::writes::LinkWrites;

pub(crate) const WAITING: &str =
    "SELECT id, kind, at, link, event FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2";
/// The largest number of rows that one query reads.
const MAX_PAGE: usize = 1000;

impl LinkQueries {
    pub(crate) fn outbox(&self, after: Option<u64>, limit: usize) -> Result<OutboxPage, Failure> {
        let mut statement = self.conn.prepare_cached(WAITING)?;
        let after = after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX));
        let mut rows = statement.query([after, limit.min(MAX_PAGE) as i64])?;
        let mut page = OutboxPage::default();
        while let Some(row) = rows.next()? {
            let (position, kind) = (row.get::<_, i64>(0)? as u64, row.get::<_, String>(1)?);
            let link: Vec<u8> = row.get(3)?;
            let id = row.get::<_, Option<[u8; 16]>>(4)?.map(EventId);
            let at = Timestamp::from_ms(row.get(2)?);
            if !page.push(OutboxRow { position, id, kind: &kind, at, link: &link }) {
                tracing::error!(position, kind, "left out an event that cannot be read");
            }
        }
        Ok(page)
    }
}

impl LinkWrites {
    /// Call this in the transaction of the write that the event describes.
    pub(crate) fn post(&self, event: OutboxEvent, link: &Link) -> Result<(), Failure> {
        let mut statement = self.conn.prepare_cached(
            "INSERT INTO outbox (kind, at, link, event) VALUES (?1, ?2, ?3, randomblob(16))",
        )?;
        statement.execute(params![
            event.kind.as_str(),
            event.at.as_ms(),
            link_codec::encode(link),
        ])?;
        Ok(())
    }

    pub(crate) fn outbox_done(&self, positions: &[u64]) -> Result<(), Failure> {
        let mut statement = self.conn.prepare_cached("DELETE FROM outbox WHERE id = ?1")?;
        for position in positions {
            statement.execute([i64::try_from(*position).unwrap_or(-1)])?;
        }
        Ok(())
    }
}
