//! Single clicks, as rows.

use rusqlite::{OptionalExtension, Row, Statement};
use terse_core::clicks::{
    BotKind, Click, ClickColumns, ClickCursor, ClickKind, ClickPage, ClickRow, ClickTarget,
    Interned, LinkId, REPEAT, RawQuery, Unit,
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
pub(crate) const INSERT: &str = "INSERT INTO clicks VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, \
    ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";

/// The largest page, because a whole page is in memory at once.
const MAX_PAGE: usize = 10_000;
const HOUR: i64 = Unit::Hour.ms();

/// Inserts a click through [`INSERT`].
pub(crate) fn write(
    insert: &mut Statement<'_>,
    subject: i64,
    number: u64,
    columns: &ClickColumns,
    row: &ClickRow,
) -> rusqlite::Result<()> {
    let at = row.at_ms;
    let agent = &columns.agents[row.agent as usize];
    let network = &columns.networks[row.network as usize];
    let place = &columns.places[network.place as usize];
    let texts = [
        &columns.referrers[row.referrer as usize],
        &place.country,
        &place.city,
        &agent.device,
        &agent.browser,
        &agent.system,
        &columns.languages[row.language as usize],
    ];
    let repeat = (row.kind == ClickKind::REPEAT).then_some(REPEAT);
    insert.raw_bind_parameter(1, at.div_euclid(HOUR))?;
    insert.raw_bind_parameter(2, subject)?;
    insert.raw_bind_parameter(3, at)?;
    insert.raw_bind_parameter(4, number.cast_signed())?;
    insert.raw_bind_parameter(5, (row.took_nanos / 1000).cast_signed())?;
    insert.raw_bind_parameter(6, (row.visitor != 0).then_some(row.visitor.cast_signed()))?;
    insert.raw_bind_parameter(7, network.address.as_deref())?;
    insert.raw_bind_parameter(8, row.kind.bot().map(BotKind::as_str).or(repeat))?;
    insert.raw_bind_parameter(21, (row.took_nanos % 1000).cast_signed())?;
    let campaign = &columns.campaigns[row.campaign as usize];
    for (text, column) in texts.into_iter().chain(campaign).zip(9..) {
        insert.raw_bind_parameter(column, text.as_deref())?;
    }
    insert.raw_execute().map(|_| ())
}

impl ClickQueries {
    pub(crate) fn clicks(&self, query: &RawQuery) -> Result<ClickPage, Failure> {
        let mut page = ClickPage::default();
        let Some((subject, owner)) = self.link(&query.link)? else {
            return Ok(page);
        };
        let range = TimeRange::of(terse_core::clicks::Period { from: query.from, to: query.to });
        let limit = query.limit.min(MAX_PAGE);
        // Begins just before the first millisecond, or where the last page ended.
        let begin = (range.from - 1, i64::MAX);
        let after =
            query.after.map_or(begin, |after| (after.at_ms, after.number.cast_signed()).max(begin));
        let mut statement = self.conn.prepare_cached(CLICKS)?;
        for hour in self.hours_with_clicks(subject, TimeRange { from: after.0, ..range })? {
            let left = (limit - page.clicks.len()) as i64 + 1;
            let mut rows = statement.query([hour, subject, after.0, after.1, range.to, left])?;
            while let Some(row) = rows.next()? {
                if page.clicks.len() == limit {
                    return Ok(page);
                }
                page.next = Some(ClickCursor {
                    at_ms: row.get(0)?,
                    number: row.get::<_, i64>(1)?.cast_unsigned(),
                });
                page.clicks.push(read(row, &query.link, owner)?);
            }
        }
        page.next = None;
        Ok(page)
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
        for day in self.days_with_hours(first_day, last_day)? {
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
fn read(row: &Row<'_>, link: &LinkId, owner: i64) -> Result<Click, Failure> {
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
