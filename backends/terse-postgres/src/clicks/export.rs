//! Reads the single clicks of all links, for an archive.

use async_trait::async_trait;
use terse_core::clicks::{
    ClickCursor, ClickExport, ClickPage, ClickTarget, ErasedLink, PeriodQuery,
};
use terse_core::{OwnerId, StoreError, Timestamp};

use super::{PostgresClicks, TOMBSTONES, link_id, raw};
use crate::sql::params;

/// The largest page, because a whole page is in memory at once.
const MAX_PAGE: usize = 50_000;

#[async_trait]
impl ClickExport for PostgresClicks {
    async fn clicks_between(&self, query: &PeriodQuery) -> Result<ClickPage, StoreError> {
        let (from, to) = (query.from.as_ms(), query.to.as_ms());
        let (after_at, after_number) = match query.after {
            Some(ClickCursor { at_ms, number }) => (at_ms, number.cast_signed()),
            None => (i64::MIN, i64::MIN),
        };
        // The index of times begins where the last page ended.
        let from = from.max(after_at);
        let limit = query.limit.min(MAX_PAGE);
        // One more, to know whether there is a next page.
        let most = limit as i64 + 1;
        let rows = self
            .pool
            .list(
                "SELECT r.at, r.number, r.click, s.owner, s.domain, s.code, s.link_created_at \
                 FROM click_raw r JOIN click_subjects s ON s.id = r.subject AND s.kind = 0 \
                 WHERE r.at >= $1 AND r.at < $2 AND (r.at, r.number) > ($3, $4) \
                 ORDER BY r.at, r.number LIMIT $5",
                params![from, to, after_at, after_number, most],
            )
            .await?;
        let (mut clicks, mut last) = (Vec::new(), None);
        for row in rows.iter().take(limit) {
            let at_ms: i64 = row.get(0);
            last = Some(ClickCursor { at_ms, number: row.get::<_, i64>(1).cast_unsigned() });
            let owner = OwnerId(row.get::<_, i64>(3).cast_unsigned());
            let link = link_id(row.get(4), row.get(5), row.get(6));
            let target = link.map(|link| ClickTarget::Link(link, owner));
            match target.and_then(|target| raw::decode(row.get(2), at_ms, target)) {
                Some(click) => clicks.push(click),
                // One damaged row must not hide all rows after it.
                None => tracing::error!("left a damaged click out of a list"),
            }
        }
        Ok(ClickPage { clicks, next: last.filter(|_| rows.len() > limit) })
    }

    async fn erased_links(
        &self,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, StoreError> {
        Ok(TOMBSTONES.links_since(&self.pool, since, after, limit).await?)
    }

    async fn erased_owners(&self, since: Timestamp) -> Result<Vec<OwnerId>, StoreError> {
        Ok(TOMBSTONES.owners_since(&self.pool, since).await?)
    }
}
