//! Pages of single clicks, from blocks and from the rows of earlier versions.

use rusqlite::{OptionalExtension, Row};
use terse_core::clicks::{
    BotKind, Click, ClickCursor, ClickPage, ClickTarget, Interned, LinkId, REPEAT, RawQuery, Unit,
    WarningVisit,
};
use terse_core::{OwnerId, Timestamp};

use crate::clicks::bucket::{day_id, hour_id, of_day_id, of_hour_id};
use crate::clicks::queries::ClickQueries;
use crate::clicks::report::{DAYS, HOURS, TimeRange};
use crate::failure::{Failure, corrupt};

pub(crate) const FIRST_HOUR: &str = "SELECT hour FROM clicks ORDER BY hour LIMIT 1";
pub(crate) const CLICKS: &str = "SELECT at, number, took, visitor, address, machine, referrer, \
    country, city, device, browser, \
     system, language, utm_source, utm_medium, utm_campaign, utm_term, utm_content, took_nanos FROM \
     clicks \
     WHERE hour = ?1 AND subject = ?2 AND (at, number) > (?3, ?4) AND at < ?5 ORDER BY hour, \
     subject, at, number LIMIT ?6";
/// The largest page, because a whole page is in memory at once.
const MAX_PAGE: usize = 10_000;
const HOUR: i64 = Unit::Hour.ms();

impl ClickQueries {
    pub(crate) fn clicks(&self, query: &RawQuery) -> Result<ClickPage, Failure> {
        let Some((subject, owner)) = self.link(&query.link)? else {
            return Ok(ClickPage::default());
        };
        let range = TimeRange::of(terse_core::clicks::Period { from: query.from, to: query.to });
        let limit = query.limit.min(MAX_PAGE);
        // Begins just before the first millisecond, or where the last page ended.
        let begin = (range.from - 1, i64::MAX);
        let after =
            query.after.map_or(begin, |after| (after.at_ms, after.number.cast_signed()).max(begin));
        // One more than a page, to know whether there are more.
        let mut found = self.clicks_in_rows(
            &query.link,
            subject,
            owner.0.cast_signed(),
            range,
            after,
            limit + 1,
        )?;
        let target = ClickTarget::Link(query.link.clone(), owner);
        found.extend(self.clicks_in_blocks(&target, subject, range, after, limit + 1)?);
        found.sort_by_key(|(cursor, _)| *cursor);
        let next = found.get(limit).and_then(|_| found.get(limit.checked_sub(1)?));
        let next = next.map(|(cursor, _)| *cursor);
        found.truncate(limit);
        Ok(ClickPage { clicks: found.into_iter().map(|(_, click)| click).collect(), next })
    }

    /// Clicks that earlier versions stored.
    fn clicks_in_rows(
        &self,
        link: &LinkId,
        subject: i64,
        owner: i64,
        range: TimeRange,
        after: (i64, i64),
        limit: usize,
    ) -> Result<Vec<(ClickCursor, Click)>, Failure> {
        let mut found = Vec::new();
        let mut statement = self.conn.prepare_cached(CLICKS)?;
        for hour in self.hours_with_clicks(subject, TimeRange { from: after.0, ..range })? {
            let left = (limit - found.len()) as i64;
            let mut rows = statement.query([hour, subject, after.0, after.1, range.to, left])?;
            while let Some(row) = rows.next()? {
                let cursor = ClickCursor {
                    at_ms: row.get(0)?,
                    number: row.get::<_, i64>(1)?.cast_unsigned(),
                };
                found.push((cursor, read_row(row, link, owner)?));
            }
        }
        Ok(found)
    }

    /// The hours that may have raw clicks of a subject: those with counted clicks, within the time
    /// for which raw clicks are kept.
    pub(crate) fn hours_with_clicks(
        &self,
        subject: i64,
        range: TimeRange,
    ) -> Result<Vec<i64>, Failure> {
        let first: Option<i64> =
            self.conn.prepare_cached(FIRST_HOUR)?.query_row([], |row| row.get(0)).optional()?;
        let Some(first) = first else {
            return Ok(Vec::new());
        };
        let range = TimeRange { from: range.from.max(first * HOUR), ..range };
        let (first_day, last_day) = range.days();
        let mut hours = Vec::new();
        let mut days = self.conn.prepare_cached(DAYS[0])?;
        for id in days
            .query_map([day_id(subject, first_day), day_id(subject, last_day)], |row| row.get(0))?
        {
            let day = of_day_id(id?);
            hours.extend((0..24).map(|hour| day * 24 + hour));
        }
        let mut statement = self.conn.prepare_cached(HOURS[0])?;
        for day in self.days_with_hours(&self.runs()?, first_day, last_day)? {
            for id in statement
                .query_map([hour_id(day, subject, 0), hour_id(day, subject, 24)], |row| {
                    row.get(0)
                })?
            {
                let (.., hour) = of_hour_id(id?);
                hours.push(day * 24 + hour);
            }
        }
        hours.retain(|hour| {
            *hour >= range.from.div_euclid(HOUR) && *hour <= (range.to - 1).div_euclid(HOUR)
        });
        hours.sort_unstable();
        hours.dedup();
        Ok(hours)
    }
}

/// Reads a row of [`CLICKS`].
pub(crate) fn read_row(row: &Row<'_>, link: &LinkId, owner: i64) -> Result<Click, Failure> {
    let text = |column: usize| -> rusqlite::Result<Option<Interned>> {
        Ok(row.get_ref(column)?.as_str_or_null()?.map(Interned::from))
    };
    let reason = row.get_ref(5)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let repeat = reason == Some(REPEAT);
    let bot = match reason.filter(|_| !repeat) {
        Some(word) => Some(
            BotKind::parse(word).ok_or_else(|| corrupt("a click has an unknown kind of bot"))?,
        ),
        None => None,
    };
    Ok(Click {
        at: Timestamp::from_ms(row.get(0)?),
        target: ClickTarget::Link(link.clone(), OwnerId(owner.cast_unsigned())),
        weight: 1,
        took_nanos: row.get::<_, i64>(2)?.cast_unsigned() * 1000
            + row.get::<_, i64>(18)?.cast_unsigned(),
        visitor: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
        address: text(4)?,
        bot,
        repeat,
        warning: WarningVisit::None,
        referrer: text(6)?,
        country: text(7)?,
        city: text(8)?,
        device: text(9)?,
        browser: text(10)?,
        system: text(11)?,
        language: text(12)?,
        utm: [text(13)?, text(14)?, text(15)?, text(16)?, text(17)?],
    })
}
