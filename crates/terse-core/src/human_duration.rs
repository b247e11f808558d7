//! Durations in settings and on the command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration in its text form: `500ms`, `30s`, `15m`, `8h`, `90d`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct HumanDuration(Duration);

impl HumanDuration {
    /// From milliseconds.
    pub const fn ms(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    /// From seconds.
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// From days.
    pub const fn days(days: u64) -> Self {
        Self::secs(days * 86_400)
    }

    /// From a duration.
    pub const fn of(duration: Duration) -> Self {
        Self(duration)
    }

    /// The duration.
    pub const fn get(self) -> Duration {
        self.0
    }
}

const SPANS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("a duration such as 500ms, 30s, 15m, 8h or 90d is expected, not {text:?}");
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        if number == 0 && unit.is_empty() {
            return Ok(Self(Duration::ZERO));
        }
        let (_, scale) =
            SPANS.into_iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(wrong)?;
        number.checked_mul(scale).map(Self::ms).ok_or_else(wrong)
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if ms == 0 {
            return f.write_str("0s");
        }
        let (unit, scale) =
            SPANS.into_iter().find(|(_, scale)| ms.is_multiple_of(*scale)).unwrap_or(("ms", 1));
        write!(f, "{}{unit}", ms / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, ms, shown) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("500ms", 500, "500ms"),
            ("30s", 30_000, "30s"),
            ("300s", 300_000, "5m"),
            ("15m", 900_000, "15m"),
            ("8h", 28_800_000, "8h"),
            ("90d", 7_776_000_000, "90d"),
            ("90 d", 7_776_000_000, "90d"),
            ("1500ms", 1_500, "1500ms"),
        ] {
            let span: HumanDuration = text.parse().unwrap();
            assert_eq!(span.get().as_millis(), ms, "{text}");
            assert_eq!(span.to_string(), shown, "{text}");
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        for text in [
            "",
            "5",
            "5x",
            "-5s",
            "1.5h",
            "s",
            "5S",
            "5 minutes",
            "99999999999999999999d",
            "18446744073709551615d",
            "５s",
        ] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text}");
        }
    }
}
