//! Reads clicks and their sums. Each answer comes from one snapshot.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use terse_core::clicks::{
    BotFilter, Bucket, ClickCursor, ClickPage, ClickReport, ClickReports, ClickSubject,
    ClickTarget, Count, JournalId, LinkId, MAX_VALUES_TOTAL, Period, Rank, RankedLink, RawQuery,
    ReportSnapshot, StoredSum, TopQuery, Unit,
};
use terse_core::{OwnerId, StoreError, Timestamp};
use tokio_postgres::Row;

use super::ingest::positions_of;
use super::sum::{Slot, merge_stored};
use super::{DAY, LINK, PostgresClicks, SubjectKey, link_id, raw};
use crate::failure::{Failure, corrupt};
use crate::replica::Source;
use crate::sql::params;

/// The largest page, whatever the caller asks for.
const MAX_PAGE: usize = 10_000;

fn count(row: &Row, at: usize) -> Count {
    Count {
        humans: row.get::<_, i64>(at).cast_unsigned(),
        bots: row.get::<_, i64>(at + 1).cast_unsigned(),
    }
}

#[async_trait]
impl ClickReports for PostgresClicks {
    async fn counts_with(
        &self,
        links: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<Count>>, StoreError> {
        Ok(self.pool.report(|source| self.counts_once(source, links, journal)).await?)
    }

    async fn report_with(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<ClickReport>, StoreError> {
        Ok(self
            .pool
            .report(|source| self.report_once(source, subject, period, now, journal))
            .await?)
    }

    async fn top_with(
        &self,
        query: &TopQuery,
        also: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<RankedLink>>, StoreError> {
        Ok(self.pool.report(|source| self.top_once(source, query, also, journal)).await?)
    }

    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError> {
        let key = SubjectKey::of(&ClickSubject::Link(query.link.clone()));
        let from = query.from.map_or(i64::MIN, Timestamp::as_ms);
        let to = query.to.map_or(i64::MAX, Timestamp::as_ms);
        let (after_at, after_number) = match query.after {
            Some(ClickCursor { at_ms, number }) => (at_ms, number.cast_signed()),
            None => (i64::MIN, i64::MIN),
        };
        let limit = query.limit.min(MAX_PAGE);
        // One more, to know whether there is a next page.
        let most = limit as i64 + 1;
        let rows = self
            .pool
            .search(
                "SELECT r.at, r.number, r.click, s.owner FROM click_subjects s \
                 JOIN click_raw r ON r.subject = s.id WHERE s.kind = $1 AND s.domain = $2 \
                 AND s.code = $3 AND s.link_created_at = $4 AND s.sum_of = 0 \
                 AND r.at >= $5 AND r.at < $6 AND (r.at, r.number) > ($7, $8) \
                 ORDER BY r.at, r.number LIMIT $9",
                params![
                    LINK,
                    key.domain,
                    key.code,
                    key.created_at,
                    from,
                    to,
                    after_at,
                    after_number,
                    most
                ],
            )
            .await?;
        let (mut clicks, mut last) = (Vec::new(), None);
        for row in rows.iter().take(limit) {
            let at_ms: i64 = row.get(0);
            last = Some(ClickCursor { at_ms, number: row.get::<_, i64>(1).cast_unsigned() });
            let owner = OwnerId(row.get::<_, i64>(3).cast_unsigned());
            let target = ClickTarget::Link(query.link.clone(), owner);
            match raw::decode(row.get(2), at_ms, target) {
                Some(click) => clicks.push(click),
                // One damaged row must not hide all rows after it.
                None => tracing::error!("left a damaged click out of a list"),
            }
        }
        Ok(ClickPage { clicks, next: last.filter(|_| rows.len() > limit) })
    }

    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError> {
        let limit = limit.min(MAX_PAGE) as i64;
        let columns = "SELECT domain, code, link_created_at FROM click_subjects WHERE kind = 0";
        let order = "ORDER BY domain, code, link_created_at";
        let rows = match after {
            None => self.pool.list(&format!("{columns} {order} LIMIT $1"), params![limit]).await?,
            Some(LinkId { key, created_at }) => {
                let sql = format!(
                    "{columns} AND (domain, code, link_created_at) \
                     > ($2 COLLATE \"C\", $3 COLLATE \"C\", $4) {order} LIMIT $1"
                );
                let at = created_at.as_ms();
                let params = params![limit, key.domain.as_str(), key.code.as_str(), at];
                self.pool.list(&sql, params).await?
            }
        };
        let read = |row: &Row| {
            link_id(row.get(0), row.get(1), row.get(2))
                .ok_or_else(|| corrupt("a link with clicks has no code"))
        };
        rows.iter().map(read).collect()
    }
}

impl PostgresClicks {
    async fn counts_once(
        &self,
        source: Source,
        links: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<Count>>, Failure> {
        let domains: Vec<&str> = links.iter().map(|link| link.key.domain.as_str()).collect();
        let codes: Vec<&str> = links.iter().map(|link| link.key.code.as_str()).collect();
        let created: Vec<i64> = links.iter().map(|link| link.created_at.as_ms()).collect();
        let transaction = self.pool.begin_report(source).await?;
        let rows = transaction
            .query(
                "SELECT s.domain, s.code, s.link_created_at, s.humans, s.bots \
                 FROM unnest($1, $2, $3) AS k (domain, code, created) JOIN click_subjects s \
                 ON s.kind = 0 AND s.domain = k.domain COLLATE \"C\" \
                 AND s.code = k.code COLLATE \"C\" AND s.link_created_at = k.created \
                 AND s.sum_of = 0",
                params![domains, codes, created],
            )
            .await?;
        let positions = positions_of(&transaction, journal).await?;
        transaction.commit().await?;
        let found: HashMap<(&str, &str, i64), Count> =
            rows.iter().map(|row| ((row.get(0), row.get(1), row.get(2)), count(row, 3))).collect();
        let of = |link: &LinkId| {
            let key = (link.key.domain.as_str(), link.key.code.as_str(), link.created_at.as_ms());
            found.get(&key).copied().unwrap_or_default()
        };
        Ok(ReportSnapshot { answer: links.iter().map(of).collect(), positions })
    }

    async fn top_once(
        &self,
        source: Source,
        query: &TopQuery,
        also: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<RankedLink>>, Failure> {
        let from = query.period.from.map_or(i64::MIN / 2, Timestamp::as_ms);
        let to = query.period.to.map_or(i64::MAX, Timestamp::as_ms);
        // The links that `which` selects, with their clicks in the period ($1 to $2).
        let counted = |which: &str| match query.period == Period::default() {
            true => format!(
                "SELECT domain, code, link_created_at, humans, bots FROM click_subjects s \
                 WHERE kind = 0 AND {which}"
            ),
            false => format!(
                "SELECT s.domain, s.code, s.link_created_at, sum(b.humans)::bigint AS humans, \
                 sum(b.bots)::bigint AS bots FROM click_subjects s \
                 JOIN click_buckets b ON b.subject = s.id WHERE s.kind = 0 AND {which} \
                 AND b.start < $2 AND (b.unit = 1 AND b.start > $1 - 3600000 \
                 OR b.unit = 2 AND b.start > $1 - 86400000) GROUP BY s.id"
            ),
        };
        let clicks = match query.bots {
            BotFilter::Include => "humans + bots",
            BotFilter::Exclude => "humans",
            BotFilter::Only => "bots",
        };
        let of_owner = if query.owner.is_some() { "s.owner = $3" } else { "true" };
        let owner = query.owner.map_or(0, |owner| owner.0.cast_signed());
        let after = match &query.after {
            Some(_) => format!(
                "AND (-({clicks}), domain, code, link_created_at) \
                 > ($4, $5 COLLATE \"C\", $6 COLLATE \"C\", $7)"
            ),
            None => String::new(),
        };
        let (rank, domain, code, created_at) = match &query.after {
            Some(Rank { clicks, link: LinkId { key, created_at } }) => (
                -i64::try_from(*clicks).unwrap_or(i64::MAX),
                key.domain.as_str(),
                key.code.as_str(),
                created_at.as_ms(),
            ),
            None => (0, "", "", 0),
        };
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let transaction = self.pool.begin_report(source).await?;
        let ranked = transaction
            .query(
                &format!(
                    "SELECT * FROM ({}) AS counted WHERE {clicks} > 0 {after} \
                     ORDER BY {clicks} DESC, domain, code, link_created_at LIMIT $8",
                    counted(of_owner)
                ),
                params![from, to, owner, rank, domain, code, created_at, limit],
            )
            .await?;
        let others = if also.is_empty() {
            Vec::new()
        } else {
            let domains: Vec<&str> = also.iter().map(|link| link.key.domain.as_str()).collect();
            let codes: Vec<&str> = also.iter().map(|link| link.key.code.as_str()).collect();
            let created: Vec<i64> = also.iter().map(|link| link.created_at.as_ms()).collect();
            let named = "(s.domain, s.code, s.link_created_at) IN \
                 (SELECT k.domain, k.code, k.created \
                 FROM unnest($3, $4, $5) AS k (domain, code, created))";
            let sql =
                format!("SELECT * FROM ({}) AS counted WHERE humans + bots > 0", counted(named));
            transaction.query(&sql, params![from, to, domains, codes, created]).await?
        };
        let positions = positions_of(&transaction, journal).await?;
        transaction.commit().await?;
        let mut answer: Vec<RankedLink> = Vec::with_capacity(ranked.len() + others.len());
        let mut known = HashSet::new();
        for row in ranked.iter().chain(&others) {
            let link = link_id(row.get(0), row.get(1), row.get(2))
                .ok_or_else(|| corrupt("a link with clicks has no code"))?;
            if known.insert(link.clone()) {
                answer.push(RankedLink { link, clicks: count(row, 3) });
            }
        }
        Ok(ReportSnapshot { answer, positions })
    }

    async fn report_once(
        &self,
        source: Source,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<ClickReport>, Failure> {
        let key = SubjectKey::of(subject);
        let transaction = self.pool.begin_report(source).await?;
        let positions = positions_of(&transaction, journal).await?;
        let found = transaction
            .query_opt(
                "SELECT id, sum FROM click_subjects WHERE kind = $1 AND domain = $2 \
                 AND code = $3 AND link_created_at = $4 AND sum_of = $5",
                params![key.kind, key.domain, key.code, key.created_at, key.sum_of],
            )
            .await?;
        let Some(row) = found else {
            transaction.commit().await?;
            return Ok(ReportSnapshot { answer: ClickReport::default(), positions });
        };
        let id: i64 = row.get(0);
        let mut sum = StoredSum::default();
        let is_total = period == Period::default();
        if is_total {
            merge_stored(&mut sum, row.get(1), Slot { subject: id, unit: 0, start: 0 })?;
        }
        // Every bucket that overlaps: an hour begins less than an hour before the period at most.
        // Sums are read only where they are needed.
        let touching = "SELECT unit, start, humans, bots, CASE WHEN $4 THEN sum END \
             FROM click_buckets WHERE subject = $1 AND start < $3 \
             AND (unit = 1 AND start > $2 - 3600000 OR unit = 2 AND start > $2 - 86400000) \
             ORDER BY start, unit DESC";
        let from = period.from.map_or(i64::MIN / 2, Timestamp::as_ms);
        let to = period.to.map_or(i64::MAX, Timestamp::as_ms);
        let rows = transaction.query(touching, params![id, from, to, !is_total]).await?;
        let hour = Unit::Hour.floor(now).as_ms();
        let (since, until) = (hour - 23 * Unit::Hour.ms(), hour + Unit::Hour.ms());
        let lately = transaction.query(touching, params![id, since, until, false]).await?;
        transaction.commit().await?;
        let mut recent = Count::default();
        lately.iter().for_each(|row| recent.add(count(row, 2)));
        let mut buckets = Vec::with_capacity(rows.len());
        for row in &rows {
            let (unit, start): (i16, i64) = (row.get(0), row.get(1));
            if let Some(bytes) = row.get::<_, Option<&[u8]>>(4) {
                merge_stored(&mut sum, bytes, Slot { subject: id, unit, start })?;
            }
            let length = if unit == DAY { Unit::Day } else { Unit::Hour };
            let start = Timestamp::from_ms(start);
            let clicks = count(row, 2);
            // An hour's sum also has views of a warning page, which are not clicks.
            if clicks != Count::default() {
                buckets.push(Bucket { start, unit: length, clicks });
            }
        }
        sum.tally.trim(MAX_VALUES_TOTAL);
        let answer = ClickReport { tally: sum.tally, visitors: sum.visitors, recent, buckets };
        Ok(ReportSnapshot { answer, positions })
    }
}
