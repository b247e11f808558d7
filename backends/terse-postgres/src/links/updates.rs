//! Changes of links, their earlier versions, and the events that wait.

use terse_core::{
    EventId, Link, LinkKey, LinkVersion, MAX_REVISIONS, OutboxEvent, OutboxPage, OutboxRow,
    Revision, StoreError, Timestamp, Updated, link_codec,
};

use super::PostgresLinks;
use super::changes;
use super::insert_batch::{position, post};
use super::row::{self, COLUMNS, NewRows, unnested, written_columns};
use crate::exclusive::Transaction;
use crate::failure::Failure;
use crate::pool::retried;
use crate::sql::{SqlTimestamp, params};

/// The largest number of events that one query reads.
const MAX_EVENTS: usize = 1000;

impl PostgresLinks {
    pub(super) async fn update_link(
        &self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, StoreError> {
        Ok(retried(|| self.update_once(link, expected, events)).await?)
    }

    async fn update_once(
        &self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, Failure> {
        let transaction = self.pool.begin().await?;
        let sql =
            format!("SELECT {COLUMNS} FROM links l WHERE l.domain = $1 AND l.code = $2 FOR UPDATE");
        let (domain, code) = (link.key.domain.as_str(), link.key.code.as_str());
        let Some(stored) = transaction.query_opt(&sql, params![domain, code]).await? else {
            transaction.rollback().await?;
            return Ok(Updated::Missing);
        };
        let old = row::read(&stored, 0)?;
        if old.revision != expected {
            transaction.rollback().await?;
            return Err(StoreError::Conflict.into());
        }
        let new = old.updated_to(link);
        if !old.owner_visible_eq(&new) {
            keep(&transaction, &old, new.updated_at).await?;
        }
        rewrite(&transaction, &[&new]).await?;
        if old.expires_at != new.expires_at {
            // With a new expiry, the link can expire once more.
            let sql = "UPDATE links SET marked = NULL WHERE domain = $1 AND code = $2";
            transaction.execute(sql, params![domain, code]).await?;
        }
        changes::record(&transaction, &[(&new.key, new.revision)]).await?;
        let events: Vec<_> = events.iter().map(|event| (*event, &new)).collect();
        post(&transaction, &events).await?;
        transaction.commit().await?;
        Ok(Updated::Done)
    }

    pub(super) async fn versions(
        &self,
        key: &LinkKey,
        limit: usize,
    ) -> Result<Vec<LinkVersion>, StoreError> {
        let limit = limit.min(MAX_REVISIONS) as i64;
        let rows = self
            .pool
            .lookup(
                "SELECT link, until FROM link_revisions WHERE domain = $1 AND code = $2 \
                 ORDER BY n DESC LIMIT $3",
                params![key.domain.as_str(), key.code.as_str(), limit],
            )
            .await?;
        let mut versions = Vec::with_capacity(rows.len());
        for row in &rows {
            match link_codec::decode(row.get(0)).filter(|link| link.key == *key) {
                Some(link) => {
                    versions.push(LinkVersion { link, until: row.get::<_, SqlTimestamp>(1).0 });
                }
                // One damaged row must not hide all earlier ones.
                None => tracing::error!("left a damaged revision out of a history"),
            }
        }
        Ok(versions)
    }

    pub(super) async fn waiting_events(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<OutboxPage, StoreError> {
        let limit = limit.min(MAX_EVENTS) as i64;
        let after = after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX));
        let rows = self
            .pool
            .list(
                "SELECT id, kind, at, link, event FROM link_outbox WHERE id > $1 \
                 ORDER BY id LIMIT $2",
                params![after, limit],
            )
            .await?;
        let mut page = OutboxPage::default();
        for row in &rows {
            let (position, kind) = (position(row), row.get(1));
            let id = row.get::<_, &[u8]>(4).try_into().ok().map(EventId);
            let (at, link) = (row.get::<_, SqlTimestamp>(2).0, row.get(3));
            if !page.push(OutboxRow { position, id, kind, at, link }) {
                tracing::error!(position, kind, "left out an event that cannot be read");
            }
        }
        Ok(page)
    }
}

/// Keeps a link as it was until now, and the last versions only.
async fn keep(transaction: &Transaction<'_>, old: &Link, until: Timestamp) -> Result<(), Failure> {
    let (domain, code) = (old.key.domain.as_str(), old.key.code.as_str());
    transaction
        .execute(
            "INSERT INTO link_revisions (domain, code, until, link) VALUES ($1, $2, $3, $4)",
            params![domain, code, SqlTimestamp(until), link_codec::encode(old)],
        )
        .await?;
    let most = MAX_REVISIONS as i64;
    transaction
        .execute(
            "DELETE FROM link_revisions WHERE domain = $1 AND code = $2 AND n <= (SELECT n \
             FROM link_revisions WHERE domain = $1 AND code = $2 ORDER BY n DESC LIMIT 1 OFFSET $3)",
            params![domain, code, most],
        )
        .await?;
    Ok(())
}

/// Writes every column that can change, of rows that this transaction has locked.
pub(super) async fn rewrite(transaction: &Transaction<'_>, links: &[&Link]) -> Result<(), Failure> {
    let columns = "updated_at, expires_at, valid_from, max_clicks, redirect, title, tags, notes, \
         password, archived_at, rules, forward_query, crawlable, moderation, moderated_by, flags, \
         deleted_at, reuse, revision, checksum, target, preview";
    let sets: Vec<String> =
        columns.split(", ").map(|column| format!("{column} = v.{column}")).collect();
    let names = row::NEW_COLUMNS;
    let sql = format!(
        "UPDATE links SET {} FROM (SELECT {} FROM {}) AS v ({names}) \
         WHERE links.domain = v.domain COLLATE \"C\" AND links.code = v.code COLLATE \"C\"",
        sets.join(", "),
        written_columns(),
        unnested(),
    );
    let rows = NewRows::of(links.iter().copied());
    transaction.execute(&sql, &rows.params()).await?;
    Ok(())
}
