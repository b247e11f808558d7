//! Timestamps and their text form.

use std::fmt;
use std::time::Duration;

use jiff::civil::{Date, DateTime};

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

    /// Parses RFC 3339 with an offset, or a date, which means 00:00 UTC. Stricter than jiff's
    /// parser, which also accepts the basic format, missing offsets and named zones.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > 40 || !text.is_ascii() {
            return None;
        }
        let shape: String =
            text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
        if shape == "9999-99-99" {
            let date: Date = text.parse().ok()?;
            return Some(Self(utc_ms(date.to_datetime(jiff::civil::Time::midnight()))?));
        }
        let rest = shape
            .strip_prefix("9999-99-99")?
            .strip_prefix(['T', 't', ' '])?
            .strip_prefix("99:99:99")?;
        let offset = match rest.strip_prefix('.') {
            Some(fraction) => {
                let offset = fraction.trim_start_matches('9');
                (1..=9).contains(&(fraction.len() - offset.len())).then_some(offset)?
            }
            None => rest,
        };
        let (local, offset) = text.split_at(text.len() - offset.len());
        let ahead_ms = match offset.as_bytes() {
            [b'Z' | b'z'] => 0,
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
                let (hours, minutes) = (two(*h1, *h2)?, two(*m1, *m2)?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                (hours * 60 + minutes) * 60_000 * if *sign == b'+' { 1 } else { -1 }
            }
            _ => return None,
        };
        let ms = utc_ms(local.parse().ok()?)? - ahead_ms;
        (Self::MIN.0..=Self::MAX.0).contains(&ms).then_some(Self(ms))
    }
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit())
        .then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

fn epoch() -> DateTime {
    DateTime::constant(1970, 1, 1, 0, 0, 0, 0)
}

fn utc_ms(at: DateTime) -> Option<i64> {
    i64::try_from(at.duration_since(epoch()).as_millis()).ok()
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
pub(crate) fn machine_now() -> Timestamp {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(since.as_secs().cast_signed() * 1000 + i64::from(since.subsec_millis()))
}

/// Parses an expiry time, which must be after `now`.
pub(crate) fn parse_expiry(text: &str, now: Timestamp) -> Result<Timestamp, ValidationError> {
    let refuse = |detail: &'static str| {
        ValidationError::new(ValidationErrorKind::InvalidExpiry, "expires_at", detail)
    };
    let at = Timestamp::parse(text).ok_or_else(|| refuse(EXPECTED))?;
    if at <= now { Err(refuse("the expiry must be in the future")) } else { Ok(at) }
}

/// Parses the time from which a link is valid; it may be in the past.
pub(crate) fn parse_start(text: &str) -> Result<Timestamp, ValidationError> {
    Timestamp::parse(text).ok_or_else(|| {
        ValidationError::new(ValidationErrorKind::InvalidRequest, "valid_from", EXPECTED)
    })
}

const EXPECTED: &str = "must be an RFC 3339 time (2030-01-31T12:00:00Z) or a date (2030-01-31)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc_3339_or_a_date() {
        for (text, want) in [
            ("2030-01-01", "2030-01-01T00:00:00Z"),
            ("2030-06-15T12:00:00+05:45", "2030-06-15T06:15:00Z"),
            ("2030-06-15t12:00:00.1234567z", "2030-06-15T12:00:00.123Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("1969-12-31T23:59:59.9Z", "1969-12-31T23:59:59.9Z"),
        ] {
            assert_eq!(
                Timestamp::parse(text).map(|at| at.to_string()).as_deref(),
                Some(want),
                "{text}"
            );
        }
        let digits = "9".repeat(100_000);
        for text in [
            "",
            "never",
            "1h",
            "1893456000",
            "2030-01-01T00:00:00",
            "20300101T000000Z",
            "2030-02-30",
            "2027-02-29T00:00:00Z",
            "2030-13-01T00:00:00Z",
            "2030-01-01T00:60:00Z",
            "2030-06-30T23:59:61Z",
            "2030-01-01T00:00:00+24:00",
            "2030-01-01T00:00:00+05:60",
            "10000-01-01T00:00:00Z",
            "9999-12-31T23:59:59-01:00",
            "2030-01-01T00:00:00.Z",
            "2030-01-01T00:00:00Z[UTC]",
            "２０３０-01-01",
            &digits,
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
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
