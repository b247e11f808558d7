//! The parameters of a statistics query: its period, time zone and interval, and which clicks it
//! counts.

use std::time::Duration;

use jiff::tz::{Offset, TimeZone};
use terse_core::clicks::{
    BotFilter, Bucket, Interval, Period, Point, SeriesError, TopQuery, Unit, series,
};
use terse_core::{OwnerId, Timestamp};

use super::stats_shapes::MAX_TOP;
use crate::http::params::Params;
use crate::http::problem::Problem;

/// The longest period without `from`. No click is older.
const MAX_PERIOD: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The parameters of a query about clicks, not yet parsed.
pub(super) struct PeriodText {
    from: Option<String>,
    to: Option<String>,
    interval: Option<String>,
    bots: Option<String>,
    /// The name that was sent, and the value.
    time_zone: Option<(&'static str, String)>,
}

/// The parsed parameters of a query about clicks.
pub(super) struct ClickQuery {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) bots: BotFilter,
    /// Whether the query gives neither `from` nor `to` and so covers all clicks.
    pub(super) whole: bool,
    zone: TimeZone,
    interval: Option<Interval>,
}

impl PeriodText {
    pub(super) fn take(params: &mut Params) -> Result<Self, Problem> {
        Ok(Self {
            from: params.take("from"),
            to: params.take("to"),
            interval: params.take("interval"),
            bots: params.take("bots"),
            time_zone: params.take_renamed("tz", "time_zone")?,
        })
    }

    /// Parses the parameters. Without `from`, the period begins at `since(to)`.
    pub(super) fn read(
        self,
        now: Timestamp,
        since: impl FnOnce(Timestamp) -> Timestamp,
    ) -> Result<ClickQuery, Problem> {
        let zone = self.time_zone.map_or(Ok(TimeZone::UTC), |(field, text)| zone(field, &text))?;
        let interval = self
            .interval
            .map(|word| Interval::parse(&word).ok_or_else(bad_interval))
            .transpose()?;
        let bots = self
            .bots
            .map(|word| BotFilter::parse(&word).ok_or_else(bad_bots))
            .transpose()?
            .unwrap_or_default();
        let from = self.from.map(|text| parse_time("from", &text, &zone)).transpose()?;
        let to = self.to.map(|text| parse_time("to", &text, &zone)).transpose()?;
        let begin =
            from.unwrap_or_else(|| since(to.unwrap_or(now)).max(now.saturating_sub(MAX_PERIOD)));
        // A period that has just begun is at least one millisecond long.
        let end = to.unwrap_or_else(|| if from.is_none() { now.max(after(begin)) } else { now });
        if begin >= end {
            let field = if from.is_some() { "from" } else { "to" };
            return Err(Problem::invalid(
                field,
                "`to` must be after `from`; a date means its beginning, so for one day give the \
                 next one as `to`",
            ));
        }
        Ok(ClickQuery {
            from: begin,
            to: end,
            bots,
            whole: from.is_none() && to.is_none(),
            zone,
            interval,
        })
    }
}

impl ClickQuery {
    /// The period to query the store for.
    pub(super) fn period(&self) -> Period {
        if self.whole {
            Period::default()
        } else {
            Period { from: Some(self.from), to: Some(self.to) }
        }
    }

    /// The ranking of links to query the store for.
    pub(super) fn top(&self, owner: Option<OwnerId>) -> TopQuery {
        TopQuery { owner, period: self.period(), bots: self.bots, after: None, limit: MAX_TOP }
    }

    /// If the query covers all clicks, extends the period to all buckets found: a clock may have
    /// been wrong when a link was created or visited.
    pub(super) fn extended_to(mut self, buckets: &[Bucket]) -> Self {
        if let (true, [first, ..], [.., last]) = (self.whole, buckets, buckets) {
            self.from = self.from.min(first.start);
            self.to = self.to.max(after(last.start));
        }
        self
    }

    /// The name of the time zone.
    pub(super) fn zone_name(&self) -> String {
        match self.zone.iana_name() {
            Some(name) => name.to_owned(),
            None => self.zone.to_fixed_offset().map_or_else(|_| "UTC".into(), written),
        }
    }

    /// The points of the series and their interval.
    pub(super) fn series(&self, buckets: &[Bucket]) -> Result<(Interval, Vec<Point>), Problem> {
        let by_day = buckets.iter().any(|bucket| bucket.unit == Unit::Day);
        let interval = match self.interval {
            Some(Interval::Hour) if by_day => {
                return Err(Problem::invalid(
                    "interval",
                    "part of this period is no longer kept by the hour; take day",
                ));
            }
            Some(interval) => interval,
            None => match Interval::fitting(self.from, self.to) {
                Interval::Hour if by_day => Interval::Day,
                fitting => fitting,
            },
        };
        let points = series(buckets, self.from, self.to, interval, &self.zone).map_err(
            |error| match error {
                SeriesError::TooMany => Problem::invalid(
                    "interval",
                    "more than 2,000 points; take a longer one or a shorter period",
                ),
                SeriesError::OutOfRange => {
                    Problem::invalid("from", "the dates are too far in the past or in the future")
                }
            },
        )?;
        Ok((interval, points))
    }
}

fn after(at: Timestamp) -> Timestamp {
    Timestamp::from_ms(at.as_ms() + 1)
}

fn bad_interval() -> Problem {
    Problem::invalid("interval", "one of hour, day, week and month")
}

pub(super) fn bad_bots() -> Problem {
    Problem::invalid("bots", "one of include, exclude and only")
}

/// Parses a time or a date. A date means the start of that day in the zone, which is not always
/// midnight.
pub(super) fn parse_time(
    field: &'static str,
    text: &str,
    zone: &TimeZone,
) -> Result<Timestamp, Problem> {
    Timestamp::parse_in(&with_plus(text), zone)
        .map_err(|error| Problem::invalid(field, error.to_string()))
}

/// Restores the plus of an offset: an unescaped plus in a query arrives as a space. A space before
/// the time of day stays.
fn with_plus(text: &str) -> String {
    let Some((before, after)) = text.rsplit_once(' ') else { return text.to_owned() };
    let digits = after.bytes().filter(u8::is_ascii_digit).count();
    let is_offset = match after.len() {
        2 | 4 => digits == after.len(),
        5 => digits == 4 && after.as_bytes()[2] == b':',
        _ => false,
    };
    let is_first = before.is_empty() || before.contains(['T', 't', ' ']);
    if is_offset && is_first { format!("{before}+{after}") } else { text.to_owned() }
}

/// A zone of the IANA database, UTC, or an offset such as `+05:30`.
fn zone(field: &'static str, text: &str) -> Result<TimeZone, Problem> {
    let refuse =
        || Problem::invalid(field, "must be a time zone such as Europe/Berlin, UTC or +05:30");
    let text = with_plus(text);
    if let [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] = text.as_bytes() {
        let two = |tens: u8, ones: u8| {
            let digits = tens.is_ascii_digit() && ones.is_ascii_digit();
            digits.then(|| i32::from(tens - b'0') * 10 + i32::from(ones - b'0'))
        };
        let (hours, minutes) = two(*h1, *h2).zip(two(*m1, *m2)).ok_or_else(refuse)?;
        if hours > 23 || minutes > 59 {
            return Err(refuse());
        }
        let seconds = (hours * 60 + minutes) * 60 * if *sign == b'+' { 1 } else { -1 };
        return Offset::from_seconds(seconds).map(TimeZone::fixed).map_err(|_| refuse());
    }
    let shaped = (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-/".contains(&b));
    if !shaped {
        return Err(refuse());
    }
    TimeZone::get(&text).map_err(|_| refuse())
}

fn written(offset: Offset) -> String {
    let minutes = offset.seconds() / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_the_beginning_of_that_day_in_its_zone() {
        for (text, tz, want) in [
            ("2026-03-29", "UTC", "2026-03-29T00:00:00Z"),
            ("2026-03-29", "Europe/Berlin", "2026-03-28T23:00:00Z"),
            ("2026-03-30", "Europe/Berlin", "2026-03-29T22:00:00Z"),
            ("2026-03-30", "europe/berlin", "2026-03-29T22:00:00Z"),
            ("2026-01-01", "+05:30", "2025-12-31T18:30:00Z"),
            ("2026-01-01", " 05:30", "2025-12-31T18:30:00Z"),
            ("2026-01-01", "-03:00", "2026-01-01T03:00:00Z"),
            // Here the clocks went from 23:59:59 to 01:00: the day has no midnight.
            ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00Z"),
            // A time with an offset does not depend on the zone.
            ("2026-03-29T12:00:00+02:00", "Asia/Tokyo", "2026-03-29T10:00:00Z"),
            ("2026-03-29T12:00:00 02:00", "Asia/Tokyo", "2026-03-29T10:00:00Z"),
            ("2026-03-29 12:00 0200", "Asia/Tokyo", "2026-03-29T10:00:00Z"),
            ("20260329T120000 02", "Asia/Tokyo", "2026-03-29T10:00:00Z"),
            ("20260329", "Europe/Berlin", "2026-03-28T23:00:00Z"),
        ] {
            let zone = zone("tz", tz).unwrap();
            assert_eq!(parse_time("from", text, &zone).unwrap().to_string(), want, "{text} {tz}");
        }
        let refused = parse_time("from", "2026-03-29 12:00", &TimeZone::UTC).unwrap_err();
        assert!(refused.detail().contains("no offset"), "{refused:?}");
        for bad in [
            "",
            "Mars/Olympus",
            "+24:00",
            "+1:00",
            "+00:60",
            "+05:3x",
            "Europe/Berlin ",
            "../etc/passwd",
            "é",
            "Z",
        ] {
            assert_eq!(
                zone("tz", bad)
                    .err()
                    .and_then(|problem| problem.field().map(str::to_owned))
                    .as_deref(),
                Some("tz"),
                "{bad}"
            );
        }
    }
}
