//! Weekly windows: days and hours in a time zone.

use jiff::civil::{DateTime, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::time::Timestamp;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY: u16 = 24 * 60;

/// Days and hours that repeat every week. At least one of the two is limited.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Weekly {
    /// Sorted; empty means every day.
    pub(super) days: Vec<Day>,
    /// Empty means all day.
    pub(super) hours: Vec<Hours>,
    /// UTC if absent.
    pub(super) zone: Option<NamedZone>,
}

/// A day of the week; 0 is Monday.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Day(u8);

/// A half-open range of minutes. An end at or before the start is on the next day.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Hours {
    from: u16,
    until: u16,
}

/// A time zone and its IANA name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NamedZone {
    name: Box<str>,
    zone: TimeZone,
}

impl Weekly {
    pub(super) fn contains(&self, at: Timestamp) -> bool {
        let Some(local) = self.time(at) else { return false };
        let minute =
            u16::from(local.hour().unsigned_abs()) * 60 + u16::from(local.minute().unsigned_abs());
        let today = Day::of(local.weekday());
        let on = |day: Day| self.days.is_empty() || self.days.contains(&day);
        if self.hours.is_empty() {
            return on(today);
        }
        self.hours.iter().any(|hours| match hours.from < hours.until {
            true => on(today) && (hours.from..hours.until).contains(&minute),
            // A range past midnight belongs to the day on which it starts.
            false => {
                (on(today) && minute >= hours.from) || (on(today.before()) && minute < hours.until)
            }
        })
    }

    fn time(&self, at: Timestamp) -> Option<DateTime> {
        let at = jiff::Timestamp::from_millisecond(at.as_ms()).ok()?;
        Some(self.zone.as_ref().map_or(TimeZone::UTC, |zone| zone.zone.clone()).to_datetime(at))
    }

    fn zone_name(&self) -> &str {
        self.zone.as_ref().map_or("UTC", |zone| &zone.name)
    }

    /// A time in this zone: `tue 14:05 (Europe/Berlin)`.
    pub(super) fn local(&self, at: Timestamp) -> String {
        match self.time(at) {
            Some(local) => {
                let (day, zone) = (Day::of(local.weekday()).as_str(), self.zone_name());
                format!("{day} {:02}:{:02} ({zone})", local.hour(), local.minute())
            }
            None => at.to_string(),
        }
    }

    /// `mon, tue 09:00-17:00`.
    pub(super) fn describe(&self) -> String {
        let days: Vec<&str> = self.days.iter().map(|day| day.as_str()).collect();
        let hours: Vec<String> = self.hours.iter().map(|hours| hours.show()).collect();
        let parts = [days.join(", "), hours.join(", ")];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

impl Day {
    pub(super) fn parse(text: &str) -> Option<Self> {
        DAYS.iter().position(|day| day.eq_ignore_ascii_case(text)).map(|day| Self(day as u8))
    }

    pub(super) fn as_str(self) -> &'static str {
        DAYS[usize::from(self.0) % DAYS.len()]
    }

    fn of(day: Weekday) -> Self {
        Self(day.to_monday_zero_offset().unsigned_abs())
    }

    fn before(self) -> Self {
        Self((self.0 + 6) % 7)
    }
}

impl Hours {
    /// `09:00-17:30`; an end may be `24:00`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (from, until) = text.split_once('-')?;
        let (from, until) = (minutes(from)?, minutes(until)?);
        (from < DAY && from != until).then_some(Self { from, until })
    }

    pub(super) fn show(self) -> String {
        let Self { from, until } = self;
        format!("{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, until / 60, until % 60)
    }
}

fn minutes(text: &str) -> Option<u16> {
    let [h1, h2, b':', m1, m2] = *text.as_bytes() else { return None };
    let two = |a: u8, b: u8| {
        (a.is_ascii_digit() && b.is_ascii_digit())
            .then(|| u16::from(a - b'0') * 10 + u16::from(b - b'0'))
    };
    let (hour, minute) = (two(h1, h2)?, two(m1, m2)?);
    (minute < 60 && hour * 60 + minute <= DAY).then_some(hour * 60 + minute)
}

impl NamedZone {
    /// Parses an IANA name. Uses the bundled database, so that every node knows the same names.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // No name in the database is longer.
        let zone =
            (text.len() <= 64).then(|| TimeZoneDatabase::bundled().get(text).ok()).flatten()?;
        let name = zone.iana_name().unwrap_or("UTC").into();
        Some(Self { name, zone })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weekly(days: &[&str], hours: &[&str], zone: Option<&str>) -> Weekly {
        Weekly {
            days: days.iter().map(|day| Day::parse(day).unwrap()).collect(),
            hours: hours.iter().map(|hours| Hours::parse(hours).unwrap()).collect(),
            zone: zone.map(|zone| NamedZone::parse(zone).unwrap()),
        }
    }

    #[test]
    fn windows_repeat_every_week() {
        // 2026-11-13 is a Friday.
        let office = weekly(&["fri"], &["09:00-17:00"], None);
        let night = weekly(&["fri"], &["22:00-06:00"], None);
        let weekend = weekly(&["sat", "sun"], &[], None);
        let late = weekly(&[], &["20:00-24:00", "00:00-01:00"], None);
        for (at, want) in [
            ("2026-11-13T08:59:59Z", [false, false, false, false]),
            ("2026-11-13T09:00:00Z", [true, false, false, false]),
            ("2026-11-13T16:59:59Z", [true, false, false, false]),
            ("2026-11-13T17:00:00Z", [false, false, false, false]),
            ("2026-11-13T22:00:00Z", [false, true, false, true]),
            ("2026-11-14T00:30:00Z", [false, true, true, true]),
            ("2026-11-14T05:59:00Z", [false, true, true, false]),
            ("2026-11-14T06:00:00Z", [false, false, true, false]),
            ("2026-11-14T22:00:00Z", [false, false, true, true]),
            ("2026-11-13T05:00:00Z", [false, false, false, false]),
            ("2026-11-20T09:00:00Z", [true, false, false, false]),
        ] {
            let timestamp = Timestamp::parse(at).unwrap();
            let have = [&office, &night, &weekend, &late].map(|weekly| weekly.contains(timestamp));
            assert_eq!(have, want, "{at}");
        }
    }

    #[test]
    fn windows_follow_daylight_saving_time() {
        let berlin = weekly(&[], &["09:00-10:00"], Some("europe/berlin"));
        assert_eq!(berlin.zone.as_ref().unwrap().as_str(), "Europe/Berlin");
        for (at, want) in [
            ("2026-07-01T07:30:00Z", true),
            ("2026-07-01T08:30:00Z", false),
            ("2026-12-01T07:30:00Z", false),
            ("2026-12-01T08:30:00Z", true),
        ] {
            assert_eq!(berlin.contains(Timestamp::parse(at).unwrap()), want, "{at}");
        }
        assert!(!berlin.contains(Timestamp::MAX) && !berlin.contains(Timestamp::MIN));
    }

    #[test]
    fn invalid_windows_are_refused() {
        for bad in [
            "",
            "9:00-17:00",
            "09:00",
            "09:00-25:00",
            "24:00-01:00",
            "09:60-10:00",
            "09:00-09:00",
            "09:00-10:00 ",
            "ä",
        ] {
            assert_eq!(Hours::parse(bad), None, "{bad}");
        }
        for bad in ["", "Berlin", "Europe/Nowhere", "../etc/passwd", &"x".repeat(65)] {
            assert_eq!(NamedZone::parse(bad), None, "{bad}");
        }
    }
}
