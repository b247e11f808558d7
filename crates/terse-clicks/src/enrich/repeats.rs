//! Detects repeated clicks: of one visitor's clicks on one link within ten seconds, the first
//! counts as a human's and the others as repeats.

use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, Hash};

use foldhash::quality::RandomState;

use super::intern::ByHash;

const WINDOW_MS: u64 = 10_000;
/// Visits of one cache generation. With more visits in ten seconds, some repeats count as humans'.
const CAPACITY: usize = 65_536;

/// Remembers recent clicks.
#[derive(Debug, Default)]
pub(crate) struct RepeatDetector {
    /// The times of the last two counted clicks of a visitor on a link. The pipeline reads the
    /// journals of several threads one after the other, so an earlier click can arrive later. With
    /// one time alone, that click would replace the later one, and repeats of the later one would
    /// be counted.
    ///
    /// In two generations, as in [`BoundedCache`](super::cache::BoundedCache). Where both have a
    /// visit, the young one counts.
    young: ByHash<[i64; 2]>,
    old: ByHash<[i64; 2]>,
    /// A visit is identified by a 64-bit hash. A collision within ten seconds is less likely than a
    /// memory error.
    hash: RandomState,
}

impl RepeatDetector {
    /// Whether this click is a repeat. A click that is not starts a new window, so a visitor who
    /// goes on clicking is counted every ten seconds. The time is that of the clicks; a clock that
    /// jumps in either direction makes no repeats.
    pub(crate) fn is_repeat(&mut self, visit: impl Hash, at_ms: i64) -> bool {
        let key = self.hash.hash_one(visit);
        let in_window = |time: &i64| time.abs_diff(at_ms) < WINDOW_MS;
        if self.young.len() >= CAPACITY {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        let (times, entry) = match self.young.entry(key) {
            Entry::Occupied(entry) => (Some(*entry.get()), Entry::Occupied(entry)),
            entry => (self.old.get(&key).copied(), entry),
        };
        match times {
            Some(times) if times.iter().any(in_window) => {
                entry.insert_entry(times);
                true
            }
            times => {
                entry.insert_entry([at_ms, times.map_or(at_ms, |[last, _]| last)]);
                false
            }
        }
    }

    /// Forgets all clicks.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_click_counts_and_the_following_ones_are_repeats() {
        let mut repeats = RepeatDetector::default();
        let mut at = |ms| repeats.is_repeat((7, "abc"), ms);
        assert_eq!(
            [at(0), at(1), at(9_999), at(10_000), at(19_999), at(20_000)],
            [false, true, true, false, true, false]
        );
        assert!(!repeats.is_repeat((8, "abc"), 0), "another visitor");
        assert!(!repeats.is_repeat((7, "abd"), 0), "another link");
    }

    #[test]
    fn a_clock_that_jumps_makes_no_repeats() {
        let mut repeats = RepeatDetector::default();
        let hour = 3_600_000;
        let mut at = |ms| repeats.is_repeat("v", ms);
        assert_eq!([at(10 * hour), at(9 * hour), at(9 * hour + 5)], [false, false, true], "back");
        assert_eq!([at(20 * hour), at(20 * hour + 9)], [false, true], "forth");
        assert_eq!([at(i64::MAX), at(i64::MIN)], [false, false], "the ends of time");
    }

    #[test]
    fn clicks_read_out_of_order_are_compared_with_both_neighbours() {
        let mut repeats = RepeatDetector::default();
        let mut at = |ms| repeats.is_repeat("v", ms);
        assert_eq!([at(105_000), at(50_000), at(107_000), at(52_000)], [false, false, true, true]);
    }

    #[test]
    fn a_flood_of_visitors_stays_within_the_bound() {
        let mut repeats = RepeatDetector::default();
        assert!((0..1_000_000u64).all(|visitor| !repeats.is_repeat(visitor, 0)));
        assert!(repeats.len() <= 2 * CAPACITY, "{}", repeats.len());
    }
}
