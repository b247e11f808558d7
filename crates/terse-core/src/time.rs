//! Timestamps and their text form.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use crate::validation::{ValidationError, ValidationErrorKind};

/// A time in whole milliseconds since 1970 (UTC), the precision of every store. The range is the
/// years 0 to 9999; the text form is RFC 3339.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 9999-12-31T23:59:59.999Z, the latest time that every client can parse.
    pub const MAX: Self = Self(253_402_300_799_999);
    /// 0000-01-01T00:00:00Z.
    pub const MIN: Self = Self(-62_167_219_200_000);

    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// From milliseconds, clamped to the range.
    pub fn from_ms(ms: i64) -> Self {
        Self(ms.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// In milliseconds.
    pub fn as_ms(self) -> i64 {
        self.0
    }

    /// Adds a duration; `None` past [`Self::MAX`].
    pub fn checked_add(self, by: Duration) -> Option<Self> {
        let ms = i64::try_from(by.as_millis()).ok()?.checked_add(self.0)?;
        (ms <= Self::MAX.0).then_some(Self(ms))
    }

    /// Subtracts a duration, at most down to [`Self::MIN`].
    pub fn saturating_sub(self, by: Duration) -> Self {
        Self::from_ms(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Parses a time as [`FromStr`] does; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    /// Parses a time. A date means the start of that day in the zone, which is not always midnight.
    pub fn parse_in(text: &str, zone: &TimeZone) -> Result<Self, TimestampError> {
        match Parsed::read(text)? {
            Parsed::Time(at) => Ok(at),
            Parsed::Day(day) => {
                let start = day.to_zoned(zone.clone()).and_then(|day| day.start_of_day());
                let start = start.map_err(|_| TimestampError::NoSuchTime)?;
                Ok(Self::from_ms(start.timestamp().as_millisecond()))
            }
        }
    }
}

/// Why a text is not a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TimestampError {
    /// Neither a time nor a date.
    #[error(
        "must be an RFC 3339 time (2030-01-31T12:00:00Z, 2030-01-31T12:00+02:00) or a date \
         (2030-01-31)"
    )]
    Malformed,
    /// A time without an offset, which could be meant in any zone.
    #[error("the time has no offset: add Z for UTC, or one such as +02:00")]
    NoOffset,
    /// No calendar has it, or it is after the year 9999.
    #[error("there is no such date or time")]
    NoSuchTime,
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// RFC 3339 with an offset; also without seconds, with the offset as `+hhmm` or `+hh`, and in
    /// the basic format (`20300131T120000Z`). A date means 00:00 UTC. Stricter than jiff's parser,
    /// which also accepts missing offsets and named zones.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        match Parsed::read(text)? {
            Parsed::Time(at) => Ok(at),
            Parsed::Day(day) => Ok(Self(utc_ms(day.to_datetime(Time::midnight())))),
        }
    }
}

enum Parsed {
    Time(Timestamp),
    Day(Date),
}

impl Parsed {
    fn read(text: &str) -> Result<Self, TimestampError> {
        // The longest time has 35 characters.
        if text.len() > 40 || !text.is_ascii() {
            return Err(TimestampError::Malformed);
        }
        let mut rest = Reader(text.as_bytes());
        let (day, basic) = rest.date().ok_or(TimestampError::Malformed)?;
        let day = day.ok_or(TimestampError::NoSuchTime);
        if rest.0.is_empty() {
            return day.map(Self::Day);
        }
        let clock = rest.time_of_day(basic).ok_or(TimestampError::Malformed)?;
        if rest.0.is_empty() {
            return Err(TimestampError::NoOffset);
        }
        let ahead_ms = rest.offset_ms().ok_or(TimestampError::Malformed)?;
        let ms = clock.at(day?).ok_or(TimestampError::NoSuchTime)? - ahead_ms;
        let at = Timestamp(ms);
        if clock.is_leap_second() && !may_be_leap_second(at)
            || !(Timestamp::MIN..=Timestamp::MAX).contains(&at)
        {
            return Err(TimestampError::NoSuchTime);
        }
        Ok(Self::Time(at))
    }
}

/// A time of day as written, not yet checked.
struct Clock {
    hour: u16,
    minute: u16,
    second: u16,
    millisecond: i64,
}

impl Clock {
    fn is_leap_second(&self) -> bool {
        self.second == 60
    }

    /// The time on a day, in milliseconds, as if the offset was zero. A leap second is counted as
    /// the first second of the next minute.
    fn at(&self, day: Date) -> Option<i64> {
        let [hour, minute] = [self.hour, self.minute].map(|number| i8::try_from(number).ok());
        let second = i8::try_from(self.second.min(59)).ok()?;
        if self.second > 60 {
            return None;
        }
        let time = Time::new(hour?, minute?, second, 0).ok()?;
        let leap_ms = if self.is_leap_second() { 1000 } else { 0 };
        Some(utc_ms(day.to_datetime(time)) + self.millisecond + leap_ms)
    }
}

/// Whether the second before this time can be a leap second: these are inserted at the end of June
/// and of December, in UTC.
fn may_be_leap_second(at: Timestamp) -> bool {
    let Ok(after) = jiff::Timestamp::from_millisecond(at.0) else { return false };
    let after = after.to_zoned(TimeZone::UTC).datetime();
    matches!((after.month(), after.day()), (1 | 7, 1))
        && (after.hour(), after.minute(), after.second()) == (0, 0, 0)
}

/// What is left of a text.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn accept(&mut self, any_of: &[u8]) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        any_of.contains(&first).then(|| {
            self.0 = rest;
            first
        })
    }

    fn digits(&mut self, count: usize) -> Option<u16> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let number = digits.iter().try_fold(0, |number: u16, byte| {
            byte.is_ascii_digit().then(|| number * 10 + u16::from(byte - b'0'))
        })?;
        self.0 = rest;
        Some(number)
    }

    /// A date, if the calendar has it, and whether it is in the basic format.
    fn date(&mut self) -> Option<(Option<Date>, bool)> {
        let year = self.digits(4)?;
        let basic = self.accept(b"-").is_none();
        let month = self.digits(2)?;
        if !basic {
            self.accept(b"-")?;
        }
        let day = self.digits(2)?;
        let date = || {
            let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
            Date::new(i16::try_from(year).ok()?, month, day).ok()
        };
        Some((date(), basic))
    }

    /// The separator and the time of day; the seconds and their fraction are optional.
    fn time_of_day(&mut self, basic: bool) -> Option<Clock> {
        self.accept(if basic { b"Tt" } else { b"Tt " })?;
        let hour = self.digits(2)?;
        if !basic {
            self.accept(b":")?;
        }
        let minute = self.digits(2)?;
        let mut clock = Clock { hour, minute, second: 0, millisecond: 0 };
        let has_seconds = match basic {
            true => self.0.first().is_some_and(u8::is_ascii_digit),
            false => self.accept(b":").is_some(),
        };
        if has_seconds {
            clock.second = self.digits(2)?;
            if self.accept(b".").is_some() {
                clock.millisecond = self.fraction_ms()?;
            }
        }
        Some(clock)
    }

    /// 1 to 9 digits after the point, cut to milliseconds.
    fn fraction_ms(&mut self) -> Option<i64> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        (1..=9).contains(&count).then(|| {
            let place = |place| digits.get(place).map_or(0, |digit| i64::from(digit - b'0'));
            place(0) * 100 + place(1) * 10 + place(2)
        })
    }

    /// How far the offset at the end is ahead of UTC: `Z`, `+hh:mm`, `+hhmm` or `+hh`.
    fn offset_ms(&mut self) -> Option<i64> {
        if self.accept(b"Zz").is_some() {
            return self.0.is_empty().then_some(0);
        }
        let sign = if self.accept(b"+-")? == b'-' { -1 } else { 1 };
        let hours = self.digits(2)?;
        let minutes = if self.0.is_empty() {
            0
        } else {
            self.accept(b":");
            self.digits(2)?
        };
        let valid = self.0.is_empty() && hours <= 23 && minutes <= 59;
        valid.then(|| sign * i64::from(hours * 60 + minutes) * 60_000)
    }
}

fn epoch() -> DateTime {
    DateTime::constant(1970, 1, 1, 0, 0, 0, 0)
}

fn utc_ms(at: DateTime) -> i64 {
    let since = at.duration_since(epoch());
    since.as_secs() * 1000 + i64::from(since.subsec_millis())
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = epoch()
            .checked_add(jiff::SignedDuration::from_millis(self.0))
            .map_err(|_| fmt::Error)?;
        write!(f, "{at}Z")
    }
}

/// The system time.
pub(crate) fn system_now() -> Timestamp {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(since.as_secs().cast_signed() * 1000 + i64::from(since.subsec_millis()))
}

/// Parses an expiry time, which must be after `now`.
pub(crate) fn parse_expiry(text: &str, now: Timestamp) -> Result<Timestamp, ValidationError> {
    let refuse = |detail: String| {
        ValidationError::new(ValidationErrorKind::InvalidExpiry, "expires_at", detail)
    };
    let at: Timestamp = text.parse().map_err(|error: TimestampError| refuse(error.to_string()))?;
    if at <= now { Err(refuse("the expiry must be in the future".into())) } else { Ok(at) }
}

/// Parses the time from which a link is valid; it may be in the past.
pub(crate) fn parse_start(text: &str) -> Result<Timestamp, ValidationError> {
    text.parse().map_err(|error: TimestampError| {
        ValidationError::new(ValidationErrorKind::InvalidRequest, "valid_from", error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_or_a_close_relative_or_a_date() {
        for (text, want) in [
            ("2030-01-01", "2030-01-01T00:00:00Z"),
            ("2030-06-15T12:00:00+05:45", "2030-06-15T06:15:00Z"),
            ("2030-06-15t12:00:00.1234567z", "2030-06-15T12:00:00.123Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("1969-12-31T23:59:59.9Z", "1969-12-31T23:59:59.9Z"),
            ("2027-01-01T00:00Z", "2027-01-01T00:00:00Z"),
            ("2027-01-01 12:30+02:00", "2027-01-01T10:30:00Z"),
            ("2027-01-01T00:00:00+0000", "2027-01-01T00:00:00Z"),
            ("2027-01-01T00:00-0330", "2027-01-01T03:30:00Z"),
            ("2027-01-01T00:00:00.25+05", "2026-12-31T19:00:00.25Z"),
            ("20270101T000000Z", "2027-01-01T00:00:00Z"),
            ("20270101t0830+0100", "2027-01-01T07:30:00Z"),
            ("20270101T083015.5-01:00", "2027-01-01T09:30:15.5Z"),
            ("20270101", "2027-01-01T00:00:00Z"),
            ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
            ("2015-06-30T23:59:60.25Z", "2015-07-01T00:00:00.25Z"),
            ("2016-12-31T15:59:60-08:00", "2017-01-01T00:00:00Z"),
        ] {
            assert_eq!(
                Timestamp::parse(text).map(|at| at.to_string()).as_deref(),
                Some(want),
                "{text}"
            );
        }
        let digits = "9".repeat(100_000);
        use TimestampError::{Malformed, NoOffset, NoSuchTime};
        for (text, want) in [
            ("", Malformed),
            ("never", Malformed),
            ("1h", Malformed),
            ("1893456000", Malformed),
            ("2030-01-01T00:00:00", NoOffset),
            ("2030-01-01T00:00", NoOffset),
            ("2030-01-01 00:00:00.5", NoOffset),
            ("20300101T000000", NoOffset),
            ("2030-01-01T00Z", Malformed),
            ("2030-01-01T000000Z", Malformed),
            ("20300101T00:00:00Z", Malformed),
            ("20300101 000000Z", Malformed),
            ("2030-0101", Malformed),
            ("2030-01-01T", Malformed),
            ("2030-01-01Z", Malformed),
            ("2030-02-30", NoSuchTime),
            ("2027-02-29T00:00:00Z", NoSuchTime),
            ("2030-13-01T00:00:00Z", NoSuchTime),
            ("2030-01-01T24:00:00Z", NoSuchTime),
            ("2030-01-01T00:60:00Z", NoSuchTime),
            ("2030-06-30T23:59:61Z", NoSuchTime),
            ("2030-06-30T23:59:60+01:00", NoSuchTime),
            ("2030-06-29T23:59:60Z", NoSuchTime),
            ("2030-06-30T23:58:60Z", NoSuchTime),
            ("2030-03-31T23:59:60Z", NoSuchTime),
            ("2030-01-01T00:00:00+24:00", Malformed),
            ("2030-01-01T00:00:00+05:60", Malformed),
            ("2030-01-01T00:00:00+5", Malformed),
            ("2030-01-01T00:00:00+050", Malformed),
            ("2030-01-01T00:00:00+05:", Malformed),
            ("2030-01-01T00:00:00+05:3", Malformed),
            ("10000-01-01T00:00:00Z", Malformed),
            ("9999-12-31T23:59:59-01:00", NoSuchTime),
            ("9999-12-31T23:59:60Z", NoSuchTime),
            ("2030-01-01T00:00:00.Z", Malformed),
            ("2030-01-01T00:00:00.1234567890Z", Malformed),
            ("2030-01-01T00:00:00Z[UTC]", Malformed),
            ("２０３０-01-01", Malformed),
            (&digits, Malformed),
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(want), "{text}");
        }
        assert_eq!(Timestamp::parse(&Timestamp::MAX.to_string()), Some(Timestamp::MAX));
        assert_eq!(Timestamp::parse(&Timestamp::MIN.to_string()), Some(Timestamp::MIN));
    }

    #[test]
    fn an_expiry_is_in_the_future() {
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(
            parse_expiry("2026-01-01", now).unwrap_err().kind,
            ValidationErrorKind::InvalidExpiry
        );
        assert!(parse_expiry("2026-01-01T00:00:01Z", now).is_ok());
    }
}
