//! Clicks over time, in a time zone that the caller chooses.

use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};

use super::report::{Bucket, Unit};
use super::tally::Count;
use crate::time::Timestamp;

/// The largest number of points of a series.
const MAX_POINTS: usize = 2000;

/// The length of a point of a series.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interval {
    /// By hour.
    Hour,
    /// By day, from midnight to midnight.
    Day,
    /// By week, from Monday.
    Week,
    /// By month.
    Month,
}

impl Interval {
    /// The interval that gives up to a few dozen points.
    pub fn fitting(from: Timestamp, to: Timestamp) -> Self {
        match (to.as_ms() - from.as_ms()) / Unit::Day.ms() {
            ..3 => Self::Hour,
            3..=92 => Self::Day,
            93..=730 => Self::Week,
            _ => Self::Month,
        }
    }

    /// The stable name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Hour, Self::Day, Self::Week, Self::Month]
            .into_iter()
            .find(|interval| interval.as_str() == word)
    }

    /// The beginning of the interval that contains `at`.
    fn floor(self, at: &Zoned) -> Result<Zoned, jiff::Error> {
        match self {
            // Sums are stored by the hour in UTC, so in a zone with a half-hour offset the hours
            // begin at half past.
            Self::Hour => {
                let hour = Unit::Hour.floor(Timestamp::from_ms(at.timestamp().as_millisecond()));
                Ok(jiff::Timestamp::from_millisecond(hour.as_ms())?
                    .to_zoned(at.time_zone().clone()))
            }
            Self::Day => at.start_of_day(),
            Self::Week => at
                .checked_sub(i64::from(at.weekday().to_monday_zero_offset()).days())?
                .start_of_day(),
            Self::Month => at.first_of_month()?.start_of_day(),
        }
    }

    fn next(self, start: &Zoned) -> Result<Zoned, jiff::Error> {
        match self {
            Self::Hour => start.checked_add(1.hour()),
            // Adds a calendar day, then takes the start of that day: some days have no midnight,
            // others have two.
            Self::Day => start.checked_add(1.day())?.start_of_day(),
            Self::Week => start.checked_add(7.days())?.start_of_day(),
            Self::Month => start.checked_add(1.month())?.start_of_day(),
        }
    }
}

/// One point of a series.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Point {
    /// When it begins: RFC 3339 with the zone's offset at that time.
    pub start: String,
    /// The clicks from there to the next point.
    pub clicks: Count,
}

/// Why a series cannot be computed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SeriesError {
    /// Too many points: use a longer interval or a shorter period.
    #[error("more than 2,000 points")]
    TooMany,
    /// The period lies outside the calendar's range.
    #[error("outside the calendar")]
    OutOfRange,
}

/// Sums up buckets, the earliest first, by the intervals that overlap `from..to`. Includes empty
/// intervals.
pub fn series(
    buckets: &[Bucket],
    from: Timestamp,
    to: Timestamp,
    interval: Interval,
    zone: &TimeZone,
) -> Result<Vec<Point>, SeriesError> {
    let zoned = |at: Timestamp| {
        jiff::Timestamp::from_millisecond(at.as_ms()).map(|at| at.to_zoned(zone.clone()))
    };
    let out = |_| SeriesError::OutOfRange;
    let mut start = zoned(from).and_then(|from| interval.floor(&from)).map_err(out)?;
    let mut points = Vec::new();
    // A bucket that begins before the first point, such as a UTC day that overlaps it, counts in
    // that point: no click is left out.
    let mut rest = buckets.iter().peekable();
    while start.timestamp().as_millisecond() < to.as_ms() {
        if points.len() == MAX_POINTS {
            return Err(SeriesError::TooMany);
        }
        let next = interval.next(&start).map_err(out)?;
        let end = next.timestamp().as_millisecond();
        let mut clicks = Count::default();
        while let Some(bucket) = rest.next_if(|bucket| bucket.start.as_ms() < end) {
            clicks.add(bucket.clicks);
        }
        points.push(Point { start: start.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(), clicks });
        start = next;
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    /// One click in every hour from `from` to `to`.
    fn hourly(from: &str, to: &str) -> Vec<Bucket> {
        let (from, to) = (at(from).as_ms(), at(to).as_ms());
        let hours = (from..to).step_by(3_600_000);
        let clicks = Count { humans: 1, bots: 0 };
        hours
            .map(|start| Bucket { start: Timestamp::from_ms(start), unit: Unit::Hour, clicks })
            .collect()
    }

    fn points(from: &str, to: &str, interval: Interval, zone: &str) -> Vec<(String, u64)> {
        let zone = TimeZone::get(zone).unwrap();
        let hours = hourly("2025-01-01", "2027-12-01");
        let first = series(&[], at(from), at(to), interval, &zone).unwrap().remove(0);
        let since = hours.iter().position(|hour| hour.start >= at(&first.start)).unwrap();
        let points = series(&hours[since..], at(from), at(to), interval, &zone).unwrap();
        points.into_iter().map(|point| (point.start, point.clicks.humans)).collect()
    }

    #[test]
    fn days_have_as_many_hours_as_the_zone_gives_them() {
        // Berlin leaves winter time on 2026-03-29 and summer time on 2026-10-25.
        let spring =
            points("2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z", Interval::Day, "Europe/Berlin");
        let want = [
            ("2026-03-28T00:00:00+01:00".to_owned(), 24),
            ("2026-03-29T00:00:00+01:00".to_owned(), 23),
            ("2026-03-30T00:00:00+02:00".to_owned(), 24),
        ];
        assert_eq!(spring, want);
        let autumn =
            points("2026-10-25T12:00:00Z", "2026-10-25T13:00:00Z", Interval::Day, "Europe/Berlin");
        assert_eq!(autumn, [("2026-10-25T00:00:00+02:00".to_owned(), 25)]);
        // Cairo's clocks jump at midnight: the day begins at one.
        let no_midnight =
            points("2026-04-24T12:00:00Z", "2026-04-24T13:00:00Z", Interval::Day, "Africa/Cairo");
        assert_eq!(no_midnight, [("2026-04-24T01:00:00+03:00".to_owned(), 23)]);
    }

    #[test]
    fn the_repeated_hour_is_two_points() {
        let hours =
            points("2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z", Interval::Hour, "Europe/Berlin");
        let starts: Vec<&str> = hours.iter().map(|(start, _)| &**start).collect();
        assert_eq!(
            starts,
            ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"]
        );
    }

    #[test]
    fn years_and_weeks_end_where_the_zone_says() {
        let months = points(
            "2025-12-15T00:00:00Z",
            "2026-01-15T00:00:00Z",
            Interval::Month,
            "America/New_York",
        );
        assert_eq!(months[0], ("2025-12-01T00:00:00-05:00".to_owned(), 31 * 24));
        assert_eq!(months[1], ("2026-01-01T00:00:00-05:00".to_owned(), 31 * 24));
        assert_eq!(months.len(), 2);
        let weeks = points("2026-01-01T12:00:00Z", "2026-01-06T00:00:00Z", Interval::Week, "UTC");
        assert_eq!(
            weeks,
            [
                ("2025-12-29T00:00:00+00:00".to_owned(), 168),
                ("2026-01-05T00:00:00+00:00".to_owned(), 168)
            ]
        );
        // Leap day.
        let empty =
            series(&[], at("2028-02-28"), at("2028-03-01"), Interval::Day, &TimeZone::UTC).unwrap();
        assert_eq!(empty.len(), 2);
    }

    #[test]
    fn kolkata_days_hold_the_utc_hours_that_begin_in_them() {
        let days =
            points("2026-06-01T00:00:00Z", "2026-06-01T12:00:00Z", Interval::Day, "Asia/Kolkata");
        assert_eq!(days, [("2026-06-01T00:00:00+05:30".to_owned(), 24)]);
    }

    #[test]
    fn too_many_points_are_refused() {
        let year = series(&[], at("2025-01-01"), at("2026-01-01"), Interval::Hour, &TimeZone::UTC);
        assert_eq!(year, Err(SeriesError::TooMany));
        assert!(
            series(&[], Timestamp::MIN, Timestamp::MAX, Interval::Month, &TimeZone::UTC).is_err()
        );
        assert_eq!(
            series(&[], at("2026-01-02"), at("2026-01-01"), Interval::Day, &TimeZone::UTC),
            Ok(vec![])
        );
    }
}
