//! Settings of traces.

use std::fmt;
use std::str::FromStr;

use super::node::{settings, textual};
use super::values::Secret;

settings! {
    /// `[traces]`: what the API, the pages and the jobs did, for an OpenTelemetry collector.
    pub struct TracesConfig {
        /// The URL of a collector that takes OTLP over HTTP, such as
        /// `http://127.0.0.1:4318/v1/traces`. If not set, there are no traces. Redirects have none.
        pub url: Option<String> = None,
        /// The part of all requests and runs of jobs that is traced, such as `10%` or `0.5%`. A
        /// trusted proxy that sends `traceparent` decides for its requests itself.
        pub sample: SampleShare = SampleShare(100_000),
        /// The value of `Authorization` in requests to the collector, such as `Bearer …`.
        pub authorization: Option<Secret> = None,
    }
}

/// A part of all traces, in millionths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SampleShare(u32);

impl SampleShare {
    /// The part, in millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

impl FromStr for SampleShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be from 0% to 100%, such as 10% or 0.5% (got {text:?})");
        let number = text.strip_suffix('%').map(str::trim_end).ok_or_else(wrong)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !(1..=3).contains(&whole.len()) || part.len() > 4 || !digits(whole) || !digits(part) {
            return Err(wrong());
        }
        let part: u32 = format!("{part:0<4}").parse().map_err(|_| wrong())?;
        let millionths = whole.parse::<u32>().map_err(|_| wrong())? * 10_000 + part;
        Some(Self(millionths)).filter(|share| share.0 <= 1_000_000).ok_or_else(wrong)
    }
}

impl fmt::Display for SampleShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 10_000, self.0 % 10_000);
        match part {
            0 => write!(f, "{whole}%"),
            _ => write!(f, "{whole}.{}%", format!("{part:04}").trim_end_matches('0')),
        }
    }
}

textual! { SampleShare: "percentage" }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        for (text, millionths) in
            [("0%", 0), ("10%", 100_000), ("0.5%", 5_000), ("100 %", 1_000_000), ("0.0001%", 1)]
        {
            let share: SampleShare = text.parse().unwrap();
            assert_eq!(share.millionths(), millionths);
            assert_eq!(share.to_string().parse(), Ok(share));
        }
        for text in ["", "%", "10", "0.1", "101%", "-1%", "100.1%", "0.00001%", "1,5%"] {
            assert!(text.parse::<SampleShare>().is_err(), "{text}");
        }
    }
}
