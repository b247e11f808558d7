//! The period that a page of statistics shows, and the one before it.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{ToSpan, Unit as JiffUnit, Zoned};
use terse_core::Timestamp;
use terse_core::clicks::{Bucket, Interval, Period, Point, Unit, series};

use super::form::FormError;
use super::shell::named_zone;
use crate::http::params::Params;

/// The longest period, in days: its months fit on a page.
const MAX_DAYS: i32 = 3660;
/// The periods by the word in the query, with their labels.
const PERIODS: [(&str, &str, &str); 4] = [
    ("24h", "24 h", "the last 24 hours"),
    ("7d", "7 d", "the last 7 days"),
    ("30d", "30 d", "the last 30 days"),
    ("12m", "12 m", "the last 12 months"),
];

/// A period in a time zone, and the one of the same length before it.
#[derive(Clone)]
pub(super) struct Window {
    /// The word in the query.
    pub(super) period: &'static str,
    from: Timestamp,
    to: Timestamp,
    before_from: Timestamp,
    before_to: Timestamp,
    zone: TimeZone,
    /// The first and last day, for the form.
    pub(super) first: String,
    pub(super) last: String,
    /// The zone, if it is not that of the browser.
    pub(super) tz: Option<String>,
    /// The zone that was typed, if there is none of that name.
    wrong_zone: Option<String>,
}

/// The fields of the form of a period, as they were typed; `None` if empty.
struct PeriodFields {
    period: Option<String>,
    from: Option<String>,
    to: Option<String>,
    tz: Option<String>,
}

impl PeriodFields {
    fn take(params: &mut Params) -> Self {
        let mut take = |name| params.take(name).filter(|text| !text.is_empty());
        Self { period: take("period"), from: take("from"), to: take("to"), tz: take("tz") }
    }
}

impl Window {
    /// Reads `period`, `from`, `to` and `tz`. If one is wrong, the page shows the usual period, and
    /// the form what was typed and what is wrong with which field.
    pub(super) fn read(
        params: &mut Params,
        viewer: &TimeZone,
        now: Timestamp,
    ) -> Result<(Self, Option<FormError>), jiff::Error> {
        let typed = PeriodFields::take(params);
        let problem = match Self::of(&typed, viewer, now) {
            Ok(window) => return Ok((window, None)),
            Err(problem) => problem,
        };
        let mut usual = Self::until("30d", viewer, now)?;
        usual.wrong_zone = typed.tz;
        if typed.period.as_deref() == Some("custom") {
            usual.first = typed.from.unwrap_or_default();
            usual.last = typed.to.unwrap_or_default();
        }
        Ok((usual, Some(problem)))
    }

    /// The period of these fields. An error says what is wrong with which field.
    fn of(typed: &PeriodFields, viewer: &TimeZone, now: Timestamp) -> Result<Self, FormError> {
        let zone = match &typed.tz {
            None => viewer.clone(),
            Some(name) => named_zone(name).ok_or_else(|| {
                ("tz", "Enter a time zone such as Europe/Berlin or UTC.".to_owned())
            })?,
        };
        let tz = typed.tz.clone().filter(|name| viewer.iana_name() != Some(name));
        let outside =
            |_| ("from", "The dates are too far in the past or in the future.".to_owned());
        let made = match typed.period.as_deref() {
            Some("custom") => {
                let (first, last) = days(typed.from.as_deref(), typed.to.as_deref())?;
                Self::of_days(first, last, &zone, now)
            }
            word => {
                let known = PERIODS.iter().find(|(have, ..)| Some(*have) == word);
                Self::until(known.map_or("30d", |(word, ..)| word), &zone, now)
            }
        };
        let made = made.map_err(outside)?;
        Ok(Self { tz, ..made })
    }

    /// The period that ends now.
    fn until(period: &'static str, zone: &TimeZone, now: Timestamp) -> Result<Self, jiff::Error> {
        let at = jiff::Timestamp::from_millisecond(now.as_ms())?.to_zoned(zone.clone());
        let (from, length) = match period {
            "24h" => {
                let hour = Unit::Hour.floor(now).as_ms();
                let hour = jiff::Timestamp::from_millisecond(hour)?.to_zoned(zone.clone());
                (hour.checked_sub(23.hours())?, 24.hours())
            }
            "7d" => (at.start_of_day()?.checked_sub(6.days())?.start_of_day()?, 7.days()),
            "12m" => {
                let monday = i64::from(at.weekday().to_monday_zero_offset()).days();
                let week = at.start_of_day()?.checked_sub(monday)?;
                (week.checked_sub(51.weeks())?.start_of_day()?, 52.weeks())
            }
            _ => (at.start_of_day()?.checked_sub(29.days())?.start_of_day()?, 30.days()),
        };
        let (first, last) = (from.date().to_string(), at.date().to_string());
        let (before_from, before_to) = (from.checked_sub(length)?, at.checked_sub(length)?);
        Ok(Self {
            period,
            from: stamp(&from),
            // A period that has just begun is at least one millisecond long.
            to: now.max(Timestamp::from_ms(stamp(&from).as_ms() + 1)),
            before_from: stamp(&before_from),
            before_to: stamp(&before_to),
            zone: zone.clone(),
            first,
            last,
            tz: None,
            wrong_zone: None,
        })
    }

    /// From the first to the last of these days.
    fn of_days(
        first: Date,
        last: Date,
        zone: &TimeZone,
        now: Timestamp,
    ) -> Result<Self, jiff::Error> {
        let start = |date: Date| date.to_zoned(zone.clone())?.start_of_day();
        let length = first.until((JiffUnit::Day, last))?.get_days() + 1;
        let (from, end) = (start(first)?, start(last.tomorrow()?)?);
        let before = start(first.checked_sub(length.days())?)?;
        // The days to come have no clicks, so the comparison leaves them out, too.
        let to = stamp(&end).min(now).max(Timestamp::from_ms(stamp(&from).as_ms() + 1));
        let cut = stamp(&end).as_ms() - to.as_ms();
        Ok(Self {
            period: "custom",
            from: stamp(&from),
            to,
            before_to: Timestamp::from_ms(
                (stamp(&from).as_ms() - cut).max(stamp(&before).as_ms() + 1),
            ),
            before_from: stamp(&before),
            zone: zone.clone(),
            first: first.to_string(),
            last: last.to_string(),
            tz: None,
            wrong_zone: None,
        })
    }

    /// What is shown, for the store.
    pub(super) fn period(&self) -> Period {
        Period { from: Some(self.from), to: Some(self.to) }
    }

    /// The period before, for the store.
    pub(super) fn before(&self) -> Period {
        // Sums are kept by whole hours: an hour belongs to one of the two periods.
        let to =
            Unit::Hour.floor(self.before_to).max(Timestamp::from_ms(self.before_from.as_ms() + 1));
        Period { from: Some(self.before_from), to: Some(to) }
    }

    /// Whether something that began at this time has a whole period before to compare with.
    pub(super) fn is_comparable(&self, began: Timestamp) -> bool {
        began <= self.before_from
    }

    pub(super) fn zone_name(&self) -> String {
        self.zone.iana_name().unwrap_or("UTC").to_owned()
    }

    /// The zone in the field of the form.
    pub(super) fn typed_zone(&self) -> String {
        self.wrong_zone.clone().unwrap_or_else(|| self.zone_name())
    }

    /// The period in words.
    pub(super) fn words(&self) -> String {
        match PERIODS.iter().find(|(word, ..)| *word == self.period) {
            Some((_, _, words)) => (*words).to_owned(),
            None => format!("{} to {}", self.first, self.last),
        }
    }

    /// The interval of the points: hours only where the store still has them.
    fn interval(&self, buckets: &[Bucket], before: &[Bucket]) -> Interval {
        let by_day = buckets.iter().chain(before).any(|bucket| bucket.unit == Unit::Day);
        match Interval::fitting(self.from, self.to) {
            Interval::Hour if by_day => Interval::Day,
            fitting => fitting,
        }
    }

    /// The points of the period and of the one before. Both are empty if they cannot be computed.
    pub(super) fn points(
        &self,
        buckets: &[Bucket],
        before: &[Bucket],
    ) -> (Interval, Vec<Point>, Vec<Point>) {
        let interval = self.interval(buckets, before);
        let points =
            |buckets, from, to| series(buckets, from, to, interval, &self.zone).unwrap_or_default();
        let now = points(buckets, self.from, self.to);
        (interval, now, points(before, self.before_from, self.before_to))
    }

    /// The labels of the point that begins at this time: a short and a whole one.
    pub(super) fn labels(&self, start: &str, interval: Interval) -> (String, String) {
        let Ok(at) = start.parse::<jiff::Timestamp>() else {
            return (start.to_owned(), start.to_owned());
        };
        let at = at.to_zoned(self.zone.clone());
        let (short, whole) = match interval {
            Interval::Hour => ("%H:%M", "%a %-d %b, %H:%M"),
            Interval::Day => ("%-d %b", "%a %-d %b %Y"),
            Interval::Week => ("%-d %b", "Week of %-d %b %Y"),
            Interval::Month => ("%b %Y", "%B %Y"),
        };
        (at.strftime(short).to_string(), at.strftime(whole).to_string())
    }

    /// The periods, each with its label and whether it is chosen.
    pub(super) fn choices(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        PERIODS.into_iter().map(|(word, label, _)| (word, label, word == self.period))
    }

    /// The parameters of this period.
    pub(super) fn params(&self) -> Vec<(&'static str, String)> {
        let mut params = vec![("period", self.period.to_owned())];
        if self.period == "custom" {
            params.extend([("from", self.first.clone()), ("to", self.last.clone())]);
        }
        params.extend(self.tz.clone().map(|tz| ("tz", tz)));
        params
    }
}

fn stamp(at: &Zoned) -> Timestamp {
    Timestamp::from_ms(at.timestamp().as_millisecond())
}

fn days(from: Option<&str>, to: Option<&str>) -> Result<(Date, Date), FormError> {
    let date = |field, text: Option<&str>| {
        let date = text.and_then(|text| text.parse::<Date>().ok());
        date.ok_or_else(|| (field, "Give a date, such as 2026-11-30.".to_owned()))
    };
    let (first, last) = (date("from", from)?, date("to", to)?);
    if last < first {
        return Err(("to", "The last day must not be before the first.".to_owned()));
    }
    let length = first.until((JiffUnit::Day, last)).map_or(i32::MAX, |span| span.get_days());
    if length >= MAX_DAYS || first.year() < 1971 || last.year() > 9000 {
        return Err(("from", format!("A period has at most {MAX_DAYS} days.")));
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, zone: &str, now: &str) -> (Window, Option<FormError>) {
        let mut params = Params::parse(query).unwrap();
        let now = Timestamp::parse(now).unwrap();
        Window::read(&mut params, &TimeZone::get(zone).unwrap(), now).unwrap()
    }

    #[test]
    fn periods_begin_with_whole_hours_days_and_weeks_in_their_zone() {
        let now = "2026-11-16T10:30:00Z";
        for (query, zone, from, before, before_to) in [
            (
                "period=24h",
                "UTC",
                "2026-11-15T11:00:00Z",
                "2026-11-14T11:00:00Z",
                "2026-11-15T10:30:00Z",
            ),
            (
                "period=7d",
                "UTC",
                "2026-11-10T00:00:00Z",
                "2026-11-03T00:00:00Z",
                "2026-11-09T10:30:00Z",
            ),
            (
                "",
                "Europe/Berlin",
                "2026-10-17T22:00:00Z",
                "2026-09-17T22:00:00Z",
                "2026-10-17T09:30:00Z",
            ),
            (
                "period=12m",
                "UTC",
                "2025-11-24T00:00:00Z",
                "2024-11-25T00:00:00Z",
                "2025-11-17T10:30:00Z",
            ),
            (
                "period=nonsense&tz=Asia/Tokyo",
                "UTC",
                "2026-10-17T15:00:00Z",
                "2026-09-17T15:00:00Z",
                "2026-10-17T10:30:00Z",
            ),
            (
                "period=custom&from=2026-11-01&to=2026-11-10",
                "UTC",
                "2026-11-01T00:00:00Z",
                "2026-10-22T00:00:00Z",
                "2026-11-01T00:00:00Z",
            ),
            (
                "period=custom&from=2026-11-15&to=2026-11-18",
                "UTC",
                "2026-11-15T00:00:00Z",
                "2026-11-11T00:00:00Z",
                "2026-11-12T10:30:00Z",
            ),
        ] {
            let (window, problem) = read(query, zone, now);
            assert!(problem.is_none(), "{query}");
            let found = [window.from, window.before_from, window.before_to];
            assert_eq!(found.map(|at| at.to_string()), [from, before, before_to], "{query}");
        }
    }

    #[test]
    fn a_wrong_period_names_its_field() {
        for (query, field) in [
            ("period=custom", "from"),
            ("period=custom&from=2026-01-01&to=x", "to"),
            ("period=custom&from=2026-01-02&to=2026-01-01", "to"),
            ("period=custom&from=0001-01-01&to=2026-01-01", "from"),
            ("period=custom&from=-009999-01-01&to=2026-01-01", "from"),
            ("period=custom&from=9999-12-31&to=9999-12-31", "from"),
            ("tz=Mars", "tz"),
        ] {
            let (window, problem) = read(query, "UTC", "2026-11-16T10:30:00Z");
            assert_eq!(problem.unwrap().0, field, "{query}");
            assert_eq!(window.period, "30d", "{query}");
        }
        let query = "period=custom&from=2026-01-02&to=2026-01-01&tz=Mars";
        let (window, _) = read(query, "UTC", "2026-11-16T10:30:00Z");
        let typed = (&*window.first, &*window.last, &*window.typed_zone());
        assert_eq!(typed, ("2026-01-02", "2026-01-01", "Mars"), "what was typed stays");
        assert_eq!(window.zone_name(), "UTC");
    }
}
