//! Reads clicks and their sums. The ledger says which rows an answer may use.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use terse_core::clicks::{
    BotFilter, Bucket, ClickCursor, ClickPage, ClickReport, ClickReports, ClickSubject, Count,
    JournalId, LinkId, MAX_VALUES_PER_DAY, MAX_VALUES_PER_HOUR, MAX_VALUES_TOTAL, Period, Rank,
    RankedLink, RawQuery, ReportSnapshot, StoredSum, TopQuery, Unit,
};
use terse_core::{StoreError, Timestamp};

use crate::ClickHouseClicks;
use crate::row_binary::{Reader, quoted};
use crate::rows::{CLICK_COLUMNS, DAY, HOUR, Slot, SubjectKey, link_list, read_click, read_link};
use crate::visible::{self, Table};

/// The largest page, whatever the caller asks for.
const MAX_PAGE: usize = 10_000;
/// Outside of all times, without an overflow where an hour or a day is added.
const ALWAYS: (i64, i64) = (i64::MIN / 2, i64::MAX / 2);

/// The rows of links that are not replaced, one per link, unit and start: `humans`, `bots`, and the
/// owner of the latest click.
pub(crate) fn live_links(condition: &str) -> String {
    format!(
        "SELECT domain, code, link_created_at, unit, start, arraySum(r -> r.2, live) AS humans, \
         arraySum(r -> r.3, live) AS bots, arrayMax(r -> r.4, live) AS latest, \
         tupleElement(arrayFirst(r -> r.4 = latest, live), 5) AS latest_owner FROM \
         (SELECT domain, code, link_created_at, unit, start, max(up_to) AS cut, \
         arrayFilter(r -> r.1 > cut, groupArrayIf((sequence, humans, bots, last, owner), \
         up_to = 0)) AS live FROM sums WHERE kind = 0 AND {condition} \
         GROUP BY domain, code, link_created_at, unit, start) WHERE notEmpty(live)"
    )
}

/// Selects every hour or day that overlaps a period.
fn touches((from, to): (i64, i64)) -> String {
    let (hour, day) = (from - Unit::Hour.ms(), from - Unit::Day.ms());
    format!(
        "(start < {to} AND (unit = {HOUR} AND start > {hour} OR unit = {DAY} AND start > {day}))"
    )
}

fn bounds(period: Period) -> (i64, i64) {
    let from = period.from.map_or(ALWAYS.0, Timestamp::as_ms);
    (from, period.to.map_or(ALWAYS.1, Timestamp::as_ms))
}

fn read_count(row: &mut Reader<'_>) -> Option<Count> {
    Some(Count { humans: row.u64()?, bots: row.u64()? })
}

#[async_trait]
impl ClickReports for ClickHouseClicks {
    async fn counts_with(
        &self,
        links: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<Count>>, StoreError> {
        let snapshot = self.ledger.snapshot(journal).await?;
        let mut found: HashMap<LinkId, Count> = HashMap::new();
        if !links.is_empty() {
            let condition = format!(
                "{} AND (domain, code, link_created_at) IN ({})",
                visible::condition(Table::Sums, &snapshot),
                link_list(links)
            );
            let sql = format!(
                "SELECT domain, code, link_created_at, toUInt64(sum(humans)), toUInt64(sum(bots)) \
                 FROM ({}) GROUP BY domain, code, link_created_at",
                live_links(&condition)
            );
            let read = |row: &mut Reader<'_>| Some((read_link(row)?, read_count(row)?));
            found.extend(self.client.rows(&sql, read).await?);
        }
        let count = |link: &LinkId| found.get(link).copied().unwrap_or_default();
        let answer = links.iter().map(count).collect();
        Ok(ReportSnapshot { answer, positions: snapshot.positions })
    }

    async fn report_with(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<ClickReport>, StoreError> {
        let snapshot = self.ledger.snapshot(journal).await?;
        let key = SubjectKey::of(subject);
        let hour = Unit::Hour.floor(now).as_ms();
        let recent = touches((hour - 23 * Unit::Hour.ms(), hour + Unit::Hour.ms()));
        let wanted = touches(bounds(period));
        // A sum is read only where it is needed.
        let sql = format!(
            "SELECT unit, start, sequence, up_to, {wanted} AS is_wanted, {recent} AS is_recent, \
             humans, bots, if(is_wanted, sum, '') FROM sums \
             WHERE ({columns}) = ({values}) AND {visible} AND (is_wanted OR is_recent) \
             ORDER BY start, unit DESC",
            columns = SubjectKey::COLUMNS,
            values = key.values(),
            visible = visible::condition(Table::Sums, &snapshot),
        );
        let bytes = self.client.query(&sql).await?;
        let answer = tokio::task::spawn_blocking(move || read_report(&bytes, key));
        let answer = answer.await.map_err(|error| StoreError::Unavailable(error.into()))??;
        Ok(ReportSnapshot { answer, positions: snapshot.positions })
    }

    async fn top_with(
        &self,
        query: &TopQuery,
        also: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<RankedLink>>, StoreError> {
        let snapshot = self.ledger.snapshot(journal).await?;
        let mut condition = visible::condition(Table::Sums, &snapshot);
        if query.period != Period::default() {
            condition.push_str(" AND ");
            condition.push_str(&touches(bounds(query.period)));
        }
        let clicks = match query.bots {
            BotFilter::Include => "h + b",
            BotFilter::Exclude => "h",
            BotFilter::Only => "b",
        };
        let grouped = |condition: &str, having: &str| {
            format!(
                "SELECT domain, code, link_created_at, toUInt64(sum(humans)) AS h, \
                 toUInt64(sum(bots)) AS b FROM ({}) GROUP BY domain, code, link_created_at \
                 HAVING {having}",
                live_links(condition)
            )
        };
        let mut having = format!("{clicks} > 0");
        if let Some(owner) = query.owner {
            having.push_str(&format!(" AND argMax(latest_owner, latest) = {}", owner.0));
        }
        if let Some(Rank { clicks: many, link: LinkId { key, created_at } }) = &query.after {
            let many = i64::try_from(*many).unwrap_or(i64::MAX);
            having.push_str(&format!(
                " AND (-toInt64({clicks}), domain, code, link_created_at) \
                 > (-{many}, {}, {}, {})",
                quoted(key.domain.as_str()),
                quoted(key.code.as_str()),
                created_at.as_ms()
            ));
        }
        let read = |row: &mut Reader<'_>| {
            Some(RankedLink { link: read_link(row)?, clicks: read_count(row)? })
        };
        let sql = format!(
            "{} ORDER BY {clicks} DESC, domain, code, link_created_at LIMIT {}",
            grouped(&condition, &having),
            query.limit
        );
        let mut answer = self.client.rows(&sql, read).await?;
        if !also.is_empty() {
            let named =
                format!("{condition} AND (domain, code, link_created_at) IN ({})", link_list(also));
            let known: HashSet<LinkId> = answer.iter().map(|found| found.link.clone()).collect();
            let others = self.client.rows(&grouped(&named, "h + b > 0"), read).await?;
            answer.extend(others.into_iter().filter(|other| !known.contains(&other.link)));
        }
        Ok(ReportSnapshot { answer, positions: snapshot.positions })
    }

    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError> {
        let snapshot = self.ledger.snapshot(None).await?;
        let LinkId { key, created_at } = &query.link;
        let mut condition = format!(
            "domain = {} AND code = {} AND link_created_at = {} AND {}",
            quoted(key.domain.as_str()),
            quoted(key.code.as_str()),
            created_at.as_ms(),
            visible::condition(Table::Clicks, &snapshot)
        );
        if let Some(from) = query.from {
            condition.push_str(&format!(" AND at >= {}", from.as_ms()));
        }
        if let Some(to) = query.to {
            condition.push_str(&format!(" AND at < {}", to.as_ms()));
        }
        if let Some(ClickCursor { at_ms, number }) = query.after {
            condition.push_str(&format!(" AND (at, number) > ({at_ms}, {number})"));
        }
        let limit = query.limit.min(MAX_PAGE);
        // One more, to know whether there is a next page.
        let sql = format!(
            "SELECT {CLICK_COLUMNS} FROM clicks WHERE {condition} ORDER BY at, number LIMIT {}",
            limit + 1
        );
        let mut rows = self.client.rows(&sql, |row| read_click(row, &query.link)).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows
            .last()
            .filter(|_| more)
            .map(|(number, click)| ClickCursor { at_ms: click.at.as_ms(), number: *number });
        Ok(ClickPage { clicks: rows.into_iter().map(|(_, click)| click).collect(), next })
    }

    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError> {
        let snapshot = self.ledger.snapshot(None).await?;
        let after = after.map_or(String::new(), |LinkId { key, created_at }| {
            format!(
                " AND (domain, code, link_created_at) > ({}, {}, {})",
                quoted(key.domain.as_str()),
                quoted(key.code.as_str()),
                created_at.as_ms()
            )
        });
        let sql = format!(
            "SELECT DISTINCT domain, code, link_created_at FROM sums \
             WHERE kind = 0 AND {}{after} ORDER BY domain, code, link_created_at LIMIT {}",
            visible::condition(Table::Sums, &snapshot),
            limit.min(MAX_PAGE)
        );
        self.client.rows(&sql, read_link).await
    }
}

/// A row of a report.
struct ReportRow<'a> {
    unit: u8,
    start: i64,
    sequence: u64,
    up_to: u64,
    is_wanted: bool,
    is_recent: bool,
    clicks: Count,
    sum: &'a [u8],
}

impl<'a> ReportRow<'a> {
    fn read(row: &mut Reader<'a>) -> Option<Self> {
        Some(Self {
            unit: row.u8()?,
            start: row.i64()?,
            sequence: row.u64()?,
            up_to: row.u64()?,
            is_wanted: row.u8()? != 0,
            is_recent: row.u8()? != 0,
            clicks: read_count(row)?,
            sum: row.bytes()?,
        })
    }
}

/// Adds the rows of a subject up, the earliest first.
fn read_report(bytes: &[u8], subject: SubjectKey) -> Result<ClickReport, StoreError> {
    let mut reader = Reader::new(bytes);
    let mut rows = Vec::new();
    let mut replaced: HashMap<(u8, i64), u64> = HashMap::new();
    while !reader.is_empty() {
        let row = ReportRow::read(&mut reader)
            .ok_or_else(|| crate::client::corrupt("a row of a report cannot be read"))?;
        if row.up_to > 0 {
            let cut = replaced.entry((row.unit, row.start)).or_default();
            *cut = row.up_to.max(*cut);
        } else {
            rows.push(row);
        }
    }
    let (mut sum, mut report) = (StoredSum::default(), ClickReport::default());
    // The rows of one hour or day, which together are capped like one.
    let mut bucket = (HOUR, i64::MIN, StoredSum::default());
    let mut slot = Slot { subject, unit: HOUR, start: 0 };
    for row in rows {
        if replaced.get(&(row.unit, row.start)).is_some_and(|cut| row.sequence <= *cut) {
            continue;
        }
        if row.is_recent {
            report.recent.add(row.clicks);
        }
        if !row.is_wanted {
            continue;
        }
        (slot.unit, slot.start) = (row.unit, row.start);
        if (bucket.0, bucket.1) != (row.unit, row.start) {
            add_bucket(&mut sum, &mut bucket);
            (bucket.0, bucket.1) = (row.unit, row.start);
        }
        slot.merge(&mut bucket.2, row.sum)?;
        // An hour's sum also has views of a warning page, which are not clicks.
        if row.clicks == Count::default() {
            continue;
        }
        let unit = if row.unit == DAY { Unit::Day } else { Unit::Hour };
        let start = Timestamp::from_ms(row.start);
        match report.buckets.last_mut() {
            Some(last) if (last.start, last.unit) == (start, unit) => last.clicks.add(row.clicks),
            _ => report.buckets.push(Bucket { start, unit, clicks: row.clicks }),
        }
    }
    add_bucket(&mut sum, &mut bucket);
    sum.tally.trim(MAX_VALUES_TOTAL);
    (report.tally, report.visitors) = (sum.tally, sum.visitors);
    Ok(report)
}

/// Adds the sum of an hour or a day to that of the period, and empties it.
fn add_bucket(sum: &mut StoredSum, (unit, _, bucket): &mut (u8, i64, StoredSum)) {
    let mut one = std::mem::take(bucket);
    one.tally.trim(if *unit == DAY { MAX_VALUES_PER_DAY } else { MAX_VALUES_PER_HOUR });
    sum.tally.merge(&one.tally);
    sum.visitors.merge(&one.visitors);
}
