//! Reads the single clicks of all links, for an archive.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::params;
use terse_core::clicks::{
    Click, ClickCursor, ClickPage, ClickTarget, ErasedLink, Period, PeriodQuery, Unit,
};
use terse_core::{Code, Domain, LinkKey, OwnerId, Timestamp};

use crate::clicks::block::Block;
use crate::clicks::blocks::{BlockKey, IN_TIME};
use crate::clicks::queries::ClickQueries;
use crate::clicks::raw::{FIRST_HOUR, read_row};
use crate::clicks::report::TimeRange;
use crate::failure::{Failure, corrupt};

/// Clicks that earlier versions stored, of one hour.
pub(crate) const OLD_ROWS: &str = "SELECT at, number, took, visitor, address, machine, referrer, \
     country, city, device, browser, system, language, utm_source, utm_medium, utm_campaign, \
     utm_term, utm_content, took_nanos, subject FROM clicks \
     WHERE hour = ?1 AND (at, number) > (?2, ?3) AND at < ?4 ORDER BY at, number LIMIT ?5";
pub(crate) const ERASED_LINKS: &str = "SELECT domain, code, created_by, erased_at \
     FROM erased_links WHERE (domain, code, created_by) > (?2, ?3, ?4) AND erased_at >= ?1 \
     ORDER BY domain, code, created_by LIMIT ?5";
pub(crate) const ERASED_OWNERS: &str =
    "SELECT owner FROM erased_owners WHERE erased_at >= ?1 ORDER BY owner";

/// The largest page, because a whole page is in memory at once.
const MAX_PAGE: usize = 50_000;
const HOUR: i64 = Unit::Hour.ms();

/// The links of row ids; `None` for an erased one.
type Targets = HashMap<i64, Option<ClickTarget>>;

/// A click of a page that is not complete yet.
struct Found {
    cursor: (i64, i64),
    subject: i64,
    click: FoundClick,
}

enum FoundClick {
    InBlock(Rc<Block>, usize),
    InRow(Box<Click>),
}

impl ClickQueries {
    pub(crate) fn clicks_between(&self, query: &PeriodQuery) -> Result<ClickPage, Failure> {
        let range = TimeRange::of(Period { from: Some(query.from), to: Some(query.to) });
        let limit = query.limit.min(MAX_PAGE);
        // Begins just before the first millisecond, or where the last page ended.
        let begin = (range.from - 1, i64::MAX);
        let after =
            query.after.map_or(begin, |after| (after.at_ms, after.number.cast_signed()).max(begin));
        let mut targets = Targets::new();
        // One more than a page, to know whether there are more.
        let mut found = self.all_in_rows(&mut targets, range, after, limit + 1)?;
        self.all_in_blocks(&mut targets, &mut found, range, after, limit + 1)?;
        found.sort_by_key(|found| found.cursor);
        let next = found.get(limit).and_then(|_| found.get(limit.checked_sub(1)?));
        let next = next.map(|found| ClickCursor {
            at_ms: found.cursor.0,
            number: found.cursor.1.cast_unsigned(),
        });
        found.truncate(limit);
        let click = |Found { subject, click, .. }: Found| match click {
            FoundClick::InRow(click) => Some(*click),
            FoundClick::InBlock(block, row) => {
                let target = targets.get(&subject)?.clone()?;
                Some(block.columns.click_with_target(&block.columns.row(row), target))
            }
        };
        Ok(ClickPage { clicks: found.into_iter().filter_map(click).collect(), next })
    }

    /// Whether the link of a row id is not erased.
    fn has_target(&self, targets: &mut Targets, subject: i64) -> Result<bool, Failure> {
        if let Some(known) = targets.get(&subject) {
            return Ok(known.is_some());
        }
        let target = self.link_by_id(subject)?.map(|(link, owner)| ClickTarget::Link(link, owner));
        let is_there = target.is_some();
        targets.insert(subject, target);
        Ok(is_there)
    }

    fn all_in_blocks(
        &self,
        targets: &mut Targets,
        found: &mut Vec<Found>,
        range: TimeRange,
        after: (i64, i64),
        limit: usize,
    ) -> Result<(), Failure> {
        let mut statement = self.conn.prepare_cached(IN_TIME)?;
        let mut rows = statement.query([after.0, range.to])?;
        while let Some(row) = rows.next()? {
            let key = BlockKey::of_row(row)?;
            // Blocks come in the order of their earliest click.
            if found.len() >= limit && found[limit - 1].cursor.0 < key.first {
                break;
            }
            let block = match self.block(key) {
                Ok(block) => block,
                // Its clicks are lost. It must not hide all others.
                Err(Failure::Refused(error)) => {
                    tracing::error!(%error, "left a damaged block of clicks out of the archive");
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (row, &subject) in block.subjects.iter().enumerate() {
                let cursor = (block.columns.at_ms[row], block.numbers[row].cast_signed());
                if cursor > after && cursor.0 < range.to && self.has_target(targets, subject)? {
                    let click = FoundClick::InBlock(Rc::clone(&block), row);
                    found.push(Found { cursor, subject, click });
                }
            }
            found.sort_by_key(|found| found.cursor);
            found.truncate(limit);
        }
        Ok(())
    }

    /// Clicks that earlier versions stored.
    fn all_in_rows(
        &self,
        targets: &mut Targets,
        range: TimeRange,
        after: (i64, i64),
        limit: usize,
    ) -> Result<Vec<Found>, Failure> {
        let mut found = Vec::new();
        let mut first = self.conn.prepare_cached(FIRST_HOUR)?;
        if !first.exists([])? {
            return Ok(found);
        }
        let hours = after.0.max(range.from).div_euclid(HOUR)..=(range.to - 1).div_euclid(HOUR);
        let mut statement = self.conn.prepare_cached(OLD_ROWS)?;
        for hour in hours {
            let left = (limit - found.len()) as i64;
            if left == 0 {
                break;
            }
            let mut rows = statement.query([hour, after.0, after.1, range.to, left])?;
            while let Some(row) = rows.next()? {
                let (cursor, subject) = ((row.get(0)?, row.get(1)?), row.get(19)?);
                if !self.has_target(targets, subject)? {
                    continue;
                }
                if let Some(Some(ClickTarget::Link(link, owner))) = targets.get(&subject) {
                    let click = read_row(row, link, owner.0.cast_signed())?;
                    let click = FoundClick::InRow(Box::new(click));
                    found.push(Found { cursor, subject, click });
                }
            }
        }
        Ok(found)
    }

    pub(crate) fn erased_links(
        &self,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, Failure> {
        let (domain, code, created_by) = after.map_or(("", "", i64::MIN), |after| {
            (after.key.domain.as_str(), after.key.code.as_str(), after.created_by.as_ms())
        });
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.conn.prepare_cached(ERASED_LINKS)?;
        let mut rows = statement.query(params![since.as_ms(), domain, code, created_by, limit])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
            let code =
                Code::parse(text(1)?).ok_or_else(|| corrupt("an erased link has no valid code"))?;
            found.push(ErasedLink {
                key: LinkKey { domain: Domain::from_stored(text(0)?), code },
                created_by: Timestamp::from_ms(row.get(2)?),
                erased_at: Timestamp::from_ms(row.get(3)?),
            });
        }
        Ok(found)
    }

    pub(crate) fn erased_owners(&self, since: Timestamp) -> Result<Vec<OwnerId>, Failure> {
        let mut statement = self.conn.prepare_cached(ERASED_OWNERS)?;
        let owners = statement.query_map([since.as_ms()], |row| row.get::<_, i64>(0))?;
        Ok(owners
            .map(|owner| Ok(OwnerId(owner?.cast_unsigned())))
            .collect::<Result<_, rusqlite::Error>>()?)
    }
}
