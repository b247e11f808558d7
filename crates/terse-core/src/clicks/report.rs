//! What a store tells about a subject's clicks.

use super::tally::{Count, Tally};
use crate::time::Timestamp;

/// How long a bucket is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// An hour.
    Hour,
    /// A day in UTC.
    Day,
}

impl Unit {
    /// In milliseconds.
    pub const fn ms(self) -> i64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }

    /// The beginning of the bucket that holds a moment.
    pub fn floor(self, at: Timestamp) -> Timestamp {
        Timestamp::from_ms(at.as_ms().div_euclid(self.ms()) * self.ms())
    }
}

/// The clicks of an hour, or of a day where hours are no longer kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bucket {
    /// When it begins.
    pub start: Timestamp,
    /// How long it is.
    pub unit: Unit,
    /// How many clicks.
    pub clicks: Count,
}

/// Everything about a subject's clicks in a period.
#[derive(Clone, Debug, Default)]
pub struct ClickReport {
    /// Their sum.
    pub tally: Tally,
    /// About how many different people, each counted once a day.
    pub visitors: u64,
    /// Those of the present hour and the 23 before it, whatever the period.
    pub recent: Count,
    /// The buckets of the period that are not empty, the earliest first.
    pub buckets: Vec<Bucket>,
}

/// Whose clicks to show.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Bots {
    /// Everyone's.
    #[default]
    Include,
    /// People's.
    Exclude,
    /// Machines'.
    Only,
}

impl Bots {
    /// What of a count is to be shown.
    pub fn of(self, count: Count) -> u64 {
        match self {
            Self::Include => count.all(),
            Self::Exclude => count.humans,
            Self::Only => count.bots,
        }
    }

    /// From the word on the wire.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "include" | "true" => Some(Self::Include),
            "exclude" | "false" => Some(Self::Exclude),
            "only" => Some(Self::Only),
            _ => None,
        }
    }
}
