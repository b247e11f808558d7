//! Reads the single clicks of all links, for an archive.

use async_trait::async_trait;
use terse_core::clicks::{ClickCursor, ClickExport, ClickPage, ErasedLink, PeriodQuery};
use terse_core::{OwnerId, StoreError, Timestamp};

use crate::ClickHouseClicks;
use crate::rows::{CLICK_COLUMNS, read_click, read_link};
use crate::visible::{self, Table};

/// The largest page, because a whole page is in memory at once.
const MAX_PAGE: usize = 100_000;

#[async_trait]
impl ClickExport for ClickHouseClicks {
    async fn clicks_between(&self, query: &PeriodQuery) -> Result<ClickPage, StoreError> {
        let snapshot = self.ledger.snapshot(None).await?;
        let (from, to) = (query.from.as_ms(), query.to.as_ms());
        // The days are those of the partitions, so that the server reads no others.
        let mut condition = format!(
            "at >= {from} AND at < {to} AND {}",
            visible::condition(Table::Clicks, &snapshot)
        );
        if let Some(ClickCursor { at_ms, number }) = query.after {
            condition
                .push_str(&format!(" AND at >= {at_ms} AND (at, number) > ({at_ms}, {number})"));
        }
        let limit = query.limit.min(MAX_PAGE);
        // One more, to know whether there is a next page.
        let sql = format!(
            "SELECT domain, code, link_created_at, {CLICK_COLUMNS} FROM clicks \
             WHERE {condition} ORDER BY at, number LIMIT {}",
            limit + 1
        );
        let mut rows = self
            .client
            .rows(&sql, |row| {
                let link = read_link(row)?;
                read_click(row, &link)
            })
            .await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows
            .last()
            .filter(|_| more)
            .map(|(number, click)| ClickCursor { at_ms: click.at.as_ms(), number: *number });
        Ok(ClickPage { clicks: rows.into_iter().map(|(_, click)| click).collect(), next })
    }

    async fn erased_links(
        &self,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, StoreError> {
        self.ledger.erased_links(since, after, limit).await
    }

    async fn erased_owners(&self, since: Timestamp) -> Result<Vec<OwnerId>, StoreError> {
        self.ledger.erased_owners(since).await
    }
}
