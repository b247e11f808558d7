//! A limit as operators write it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of actions per time: `100/h`, `5/s`, `30/m`, `1000/d`; `0` means no limit. As a token
/// bucket: it holds that many tokens when full, and fills up evenly within that time.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Limit {
    count: u32,
    per: Duration,
}

/// The units. The first spelling of each is the one that is displayed.
const UNITS: [(&str, u64); 12] = [
    ("s", 1),
    ("sec", 1),
    ("second", 1),
    ("m", 60),
    ("min", 60),
    ("minute", 60),
    ("h", 3_600),
    ("hour", 3_600),
    ("hr", 3_600),
    ("d", 86_400),
    ("day", 86_400),
    ("days", 86_400),
];

impl Limit {
    /// No limit.
    pub const OFF: Self = Self { count: 0, per: Duration::ZERO };
    /// The largest count of a limit.
    pub const MAX_COUNT: u32 = 1_000_000;

    /// `count` per second.
    pub const fn per_second(count: u32) -> Self {
        Self::new(count, 1)
    }

    /// `count` per minute.
    pub const fn per_minute(count: u32) -> Self {
        Self::new(count, 60)
    }

    /// `count` per hour.
    pub const fn per_hour(count: u32) -> Self {
        Self::new(count, 3_600)
    }

    const fn new(count: u32, seconds: u64) -> Self {
        match count {
            0 => Self::OFF,
            count => Self {
                count: if count > Self::MAX_COUNT { Self::MAX_COUNT } else { count },
                per: Duration::from_secs(seconds),
            },
        }
    }

    /// Whether everything is allowed.
    pub const fn is_off(self) -> bool {
        self.count == 0
    }

    /// How many actions are allowed at once.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// How long until an empty bucket is full.
    pub const fn per(self) -> Duration {
        self.per
    }

    /// How long until one more action is allowed; at least a microsecond.
    pub fn interval(self) -> Duration {
        if self.is_off() {
            Duration::ZERO
        } else {
            (self.per / self.count).max(Duration::from_micros(1))
        }
    }

    /// `factor` times the count in the same time. No limit stays no limit.
    pub const fn times(self, factor: u32) -> Self {
        let count = self.count.saturating_mul(factor);
        Self { count: if count > Self::MAX_COUNT { Self::MAX_COUNT } else { count }, per: self.per }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("a limit such as 100/h, 30/m or 5/s is expected, or 0 for none, not {text:?}")
        };
        let digits = |count: &str| {
            (!count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| count.parse())
        };
        let (count, unit) = match text.split_once('/') {
            Some((count, unit)) => (count.trim_end(), Some(unit.trim_start())),
            None => (text, None),
        };
        let count: u32 = digits(count)
            .ok_or_else(wrong)?
            .map_err(|_| format!("at most {} are counted", Self::MAX_COUNT))?;
        if count > Self::MAX_COUNT {
            return Err(format!("at most {} are counted, not {count}", Self::MAX_COUNT));
        }
        match unit {
            None if count == 0 => Ok(Self::OFF),
            None => Err(wrong()),
            Some(unit) => {
                let (_, seconds) =
                    UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
                Ok(Self::new(count, seconds))
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_off() {
            return f.write_str("0");
        }
        match UNITS.into_iter().find(|(_, seconds)| *seconds == self.per.as_secs()) {
            Some((unit, _)) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{} in {:?}", self.count, self.per),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_and_a_unit() {
        for (text, count, seconds, shown) in [
            ("100/h", 100, 3_600, "100/h"),
            ("5/s", 5, 1, "5/s"),
            ("30/m", 30, 60, "30/m"),
            ("100/min", 100, 60, "100/m"),
            ("1000/d", 1000, 86_400, "1000/d"),
            ("1000 / day", 1000, 86_400, "1000/d"),
            ("007/hour", 7, 3_600, "7/h"),
            ("1000000/s", 1_000_000, 1, "1000000/s"),
            ("0", 0, 0, "0"),
            ("0/h", 0, 0, "0"),
        ] {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(
                (limit.count(), limit.per().as_secs(), &*limit.to_string()),
                (count, seconds, shown),
                "{text}"
            );
            assert_eq!(limit.to_string().parse(), Ok(limit));
        }
        for text in [
            "",
            "5",
            "/h",
            "5/",
            "-5/h",
            "+5/h",
            "1.5/h",
            "5/x",
            "5/H",
            "5/h/h",
            "h",
            "1000001/h",
            "99999999999/h",
            "５/h",
        ] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bucket_fills_evenly() {
        assert_eq!(Limit::per_minute(60).interval(), Duration::from_secs(1));
        assert_eq!(Limit::per_hour(30).interval(), Duration::from_mins(2));
        assert_eq!(Limit::per_second(3).interval(), Duration::from_nanos(333_333_333));
        assert_eq!(Limit::OFF.interval(), Duration::ZERO);
        assert_eq!(Limit::per_hour(30).times(8), Limit::per_hour(240));
        assert_eq!(Limit::per_hour(Limit::MAX_COUNT).times(8), Limit::per_hour(Limit::MAX_COUNT));
        assert!(Limit::OFF.times(8).is_off());
    }
}
