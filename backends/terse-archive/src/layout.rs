//! The names of the files: `clicks/day=2026-11-18/hour=10/clicks-20261118T100000Z-3600s.parquet`.
//!
//! The folders are those that DuckDB, ClickHouse and Spark read as columns. A file holds the clicks
//! of a range of an hour: the name has its start and its length. Ranges of one hour have the
//! same length, which terse decides before it writes the first and never changes.

use terse_core::Timestamp;

/// The folder of all files.
pub(crate) const ROOT: &str = "clicks";
/// The lengths that a range may have, in seconds. Each divides an hour.
const LENGTHS: [u16; 18] =
    [3600, 1800, 1200, 900, 720, 600, 360, 300, 240, 180, 120, 60, 30, 20, 10, 5, 2, 1];
/// How many clicks a file has at most, about. A whole file is in memory while it is written.
const CLICKS_PER_FILE: u64 = 250_000;

/// The range of time of a file.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FileRange {
    pub(crate) from: Timestamp,
    pub(crate) seconds: u16,
}

/// The length of the ranges of an hour with this many clicks.
pub(crate) fn range_length(clicks: u64) -> u16 {
    let fits = |seconds: &u16| clicks / (3600 / u64::from(*seconds)) <= CLICKS_PER_FILE;
    LENGTHS.into_iter().find(fits).unwrap_or(1)
}

/// The ranges of an hour.
pub(crate) fn ranges_of_hour(hour: Timestamp, seconds: u16) -> impl Iterator<Item = FileRange> {
    let start = move |n: i64| Timestamp::from_ms(hour.as_ms() + n * i64::from(seconds) * 1000);
    (0..3600 / i64::from(seconds.max(1))).map(move |n| FileRange { from: start(n), seconds })
}

/// The folder of a day.
pub(crate) fn day_folder(day: Timestamp) -> String {
    format!("{ROOT}/day={}", &day.to_string()[..10])
}

impl FileRange {
    /// The end, exclusive.
    pub(crate) fn to(self) -> Timestamp {
        Timestamp::from_ms(self.from.as_ms() + i64::from(self.seconds) * 1000)
    }

    /// The name of its file.
    pub(crate) fn name(self) -> String {
        let text = self.from.to_string();
        let (date, time) = (&text[..10], &text[11..19]);
        format!(
            "{ROOT}/day={date}/hour={}/clicks-{}T{}Z-{}s.parquet",
            &time[..2],
            date.replace('-', ""),
            time.replace(':', ""),
            self.seconds
        )
    }

    /// The range of the file with this name; `None` for other files.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let file = name.rsplit('/').next()?;
        let text = file.strip_prefix("clicks-")?.strip_suffix("s.parquet")?;
        let (start, seconds) = text.split_once("Z-")?;
        if start.len() != 15 || !start.is_ascii() {
            return None;
        }
        let iso = format!(
            "{}-{}-{}T{}:{}:{}Z",
            &start[..4],
            &start[4..6],
            &start[6..8],
            &start[9..11],
            &start[11..13],
            &start[13..]
        );
        let range = Self { from: Timestamp::parse(&iso)?, seconds: seconds.parse().ok()? };
        // One spelling only: a copy under another name is not one of our files.
        (LENGTHS.contains(&range.seconds) && range.name() == name).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_stretch_a_file_holds() {
        let from = Timestamp::parse("2026-11-18T10:15:00Z").unwrap();
        let range = FileRange { from, seconds: 900 };
        let name = "clicks/day=2026-11-18/hour=10/clicks-20261118T101500Z-900s.parquet";
        assert_eq!(range.name(), name);
        assert_eq!(FileRange::parse(name), Some(range));
        assert_eq!(Some(range.to()), Timestamp::parse("2026-11-18T10:30:00Z"));
        for other in [
            "clicks/day=2026-11-18/hour=11/clicks-20261118T101500Z-900s.parquet",
            "clicks/day=2026-11-18/hour=10/clicks-20261118T101500Z-901s.parquet",
            "clicks/day=2026-11-18/hour=10/clicks-20261118T101500Z-0900s.parquet",
            "clicks/day=2026-11-18/hour=10/clicks-20261318T101500Z-900s.parquet",
            "clicks/day=2026-11-18/hour=10/notes.txt",
        ] {
            assert_eq!(FileRange::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_stretches_of_an_hour_cover_it_once() {
        let hour = Timestamp::parse("2026-11-18T23:00:00Z").unwrap();
        for (clicks, files) in
            [(0, 1), (250_000, 1), (250_004, 2), (3_000_000, 12), (u64::MAX, 3600)]
        {
            let all: Vec<_> = ranges_of_hour(hour, range_length(clicks)).collect();
            assert_eq!(all.len(), files, "{clicks}");
            assert_eq!(
                (all[0].from, all[files - 1].to().as_ms()),
                (hour, hour.as_ms() + 3_600_000)
            );
            assert!(all.windows(2).all(|pair| pair[0].to() == pair[1].from));
        }
    }
}
