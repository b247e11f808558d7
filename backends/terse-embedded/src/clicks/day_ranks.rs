//! The busiest links of finished days, for rankings over a period.
//!
//! `day_ranks.data`: octets 0 to 7: the checksum of the rest; then subjects with humans and bots,
//! by postcard.

use std::collections::{HashMap, HashSet};

use rusqlite::{OptionalExtension, Row, params};
use terse_core::clicks::Count;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clicks::queries::ClickQueries;
use crate::clicks::sum::log_damaged_sum;
use crate::clicks::writes::ClickWrites;
use crate::failure::{Failure, corrupt};

pub(crate) const DAY_RANK: &str = "SELECT data FROM day_ranks WHERE day = ?1";
pub(crate) const RANKED_DAYS: &str =
    "SELECT day FROM day_ranks WHERE day >= ?1 AND day <= ?2 ORDER BY day";
const PUT_DAY_RANK: &str = "INSERT OR REPLACE INTO day_ranks VALUES (?1, ?2)";

/// How many links of a day are in its ranking.
const MAX_RANKED: usize = 5000;

fn decode(day: i64, data: &[u8]) -> Option<Vec<(i64, Count)>> {
    let (checksum, data) = data.split_at_checked(8)?;
    if checksum != xxh3_64_with_seed(data, day.cast_unsigned()).to_le_bytes() {
        return None;
    }
    let ranked: Vec<(i64, u64, u64)> = postcard::from_bytes(data).ok()?;
    let count = |(subject, humans, bots)| (subject, Count { humans, bots });
    Some(ranked.into_iter().map(count).collect())
}

fn encode(day: i64, ranked: &[(i64, Count)]) -> Option<Vec<u8>> {
    let plain: Vec<_> =
        ranked.iter().map(|(of, clicks)| (of, clicks.humans, clicks.bots)).collect();
    let data = postcard::to_allocvec(&plain).ok()?;
    let checksum = xxh3_64_with_seed(&data, day.cast_unsigned()).to_le_bytes();
    Some([&checksum[..], &data].concat())
}

impl ClickQueries {
    /// The finished days that have a ranking.
    fn ranked_days(&self, first: i64, last: i64) -> Result<Vec<i64>, Failure> {
        let mut statement = self.conn.prepare_cached(RANKED_DAYS)?;
        let days = statement.query_map([first, last], |row| row.get(0))?;
        Ok(days.collect::<rusqlite::Result<_>>()?)
    }

    /// Adds the busiest links of finished days in runs. Returns whether there are any: their
    /// clicks are not exact.
    pub(crate) fn busiest_in_runs(
        &self,
        (first, last): (i64, i64),
        sums: &mut HashMap<i64, Count>,
    ) -> Result<bool, Failure> {
        let days = self.ranked_days(first, last)?;
        for &day in &days {
            for (subject, clicks) in self.day_rank_or_none(day)? {
                sums.entry(subject).or_default().add(clicks);
            }
        }
        Ok(!days.is_empty())
    }

    /// The ranking of a day; none if it is damaged, because those of other days are still right.
    pub(crate) fn day_rank_or_none(&self, day: i64) -> Result<Vec<(i64, Count)>, Failure> {
        match self.day_rank(day) {
            Err(Failure::Refused(error)) => {
                log_damaged_sum(&error.to_string());
                Ok(Vec::new())
            }
            ranked => ranked,
        }
    }

    /// The busiest links of a finished day, in no order.
    fn day_rank(&self, day: i64) -> Result<Vec<(i64, Count)>, Failure> {
        let mut statement = self.conn.prepare_cached(DAY_RANK)?;
        let read = |row: &Row<'_>| Ok(decode(day, row.get_ref(0)?.as_blob()?));
        let found = statement.query_row([day], read).optional()?;
        let damaged = || corrupt(format!("the ranking of day {day} is not what was written"));
        found.map_or_else(|| Ok(Vec::new()), |ranked| ranked.ok_or_else(|| damaged().into()))
    }
}

impl ClickWrites {
    /// Takes erased links out of the rankings of all days.
    pub(crate) fn clean_day_ranks(&self, erased: &HashSet<i64>) -> Result<(), Failure> {
        for day in self.ranked_days(i64::MIN, i64::MAX)? {
            let mut ranked = self.day_rank_or_none(day)?;
            let before = ranked.len();
            ranked.retain(|(subject, _)| !erased.contains(subject));
            if ranked.len() < before {
                self.put_day_rank(day, &ranked)?;
            }
        }
        Ok(())
    }

    fn put_day_rank(&self, day: i64, ranked: &[(i64, Count)]) -> Result<(), Failure> {
        let data = encode(day, ranked).ok_or_else(|| corrupt("a ranking cannot be written"))?;
        self.conn.prepare_cached(PUT_DAY_RANK)?.execute(params![day, data])?;
        Ok(())
    }

    /// Adds clicks of a day to its ranking.
    pub(crate) fn rank_day(&self, day: i64, clicks: &[(i64, Count)]) -> Result<(), Failure> {
        let ranked = self.day_rank_or_none(day)?;
        let mut all: HashMap<i64, Count> = HashMap::new();
        for (subject, clicks) in ranked.iter().chain(clicks) {
            all.entry(*subject).or_default().add(*clicks);
        }
        let mut all: Vec<(i64, Count)> = all.into_iter().collect();
        if all.len() > MAX_RANKED {
            let by_clicks = |(_, clicks): &(i64, Count)| std::cmp::Reverse(clicks.all());
            all.select_nth_unstable_by_key(MAX_RANKED, by_clicks);
            all.truncate(MAX_RANKED);
        }
        self.put_day_rank(day, &all)
    }
}
