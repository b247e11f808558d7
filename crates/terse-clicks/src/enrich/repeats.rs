//! One visitor who follows one link again and again: a person the first time, a repeat within ten
//! seconds.

use std::hash::{BuildHasher as _, Hash};

use foldhash::quality::RandomState;

use super::cache::BoundedCache;

const WINDOW_MS: u64 = 10_000;
/// Visits of the last ten seconds that are remembered; when there are more, some repeats count as
/// people's.
const CAPACITY: usize = 65_536;

/// Who followed what lately.
#[derive(Debug)]
pub(crate) struct RepeatDetector {
    /// The last two counted clicks of a visitor on a link. Journals of several threads are read one
    /// after the other, so that an earlier click can come later; with the last one alone it would
    /// hide the later one from those behind it.
    seen: BoundedCache<u64, [i64; 2]>,
    /// A visit is known by a hash: that two of ten seconds are mistaken for one another is less
    /// likely than a broken memory.
    hash: RandomState,
}

impl RepeatDetector {
    pub(crate) fn new() -> Self {
        Self { seen: BoundedCache::new(CAPACITY), hash: RandomState::default() }
    }

    /// Whether this click is a repeat. If not, it is what later ones are measured by: who goes on
    /// clicking is counted again every ten seconds. Time is the clicks' own, and a clock that
    /// jumps, in either direction, makes no repeats.
    pub(crate) fn is_repeat(&mut self, visit: impl Hash, at_ms: i64) -> bool {
        let key = self.hash.hash_one(visit);
        let seen = self.seen.get(&key);
        if seen.is_some_and(|seen| seen.into_iter().any(|last| last.abs_diff(at_ms) < WINDOW_MS)) {
            return true;
        }
        self.seen.put(key, [at_ms, seen.map_or(at_ms, |[last, _]| last)]);
        false
    }

    /// Forgets everyone.
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.seen.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_click_is_a_persons_and_those_behind_it_are_repeats() {
        let mut repeats = RepeatDetector::new();
        let mut at = |ms| repeats.is_repeat((7, "abc"), ms);
        assert_eq!(
            [at(0), at(1), at(9_999), at(10_000), at(19_999), at(20_000)],
            [false, true, true, false, true, false]
        );
        assert!(!repeats.is_repeat((8, "abc"), 0), "another visitor");
        assert!(!repeats.is_repeat((7, "abd"), 0), "another link");
    }

    #[test]
    fn a_clock_that_jumps_hides_nobody() {
        let mut repeats = RepeatDetector::new();
        let hour = 3_600_000;
        let mut at = |ms| repeats.is_repeat("v", ms);
        assert_eq!([at(10 * hour), at(9 * hour), at(9 * hour + 5)], [false, false, true], "back");
        assert_eq!([at(20 * hour), at(20 * hour + 9)], [false, true], "forth");
        assert_eq!([at(i64::MAX), at(i64::MIN)], [false, false], "the ends of time");
    }

    #[test]
    fn clicks_read_out_of_order_are_measured_by_both_neighbours() {
        let mut repeats = RepeatDetector::new();
        let mut at = |ms| repeats.is_repeat("v", ms);
        assert_eq!([at(105_000), at(50_000), at(107_000), at(52_000)], [false, false, true, true]);
    }

    #[test]
    fn a_flood_of_visitors_is_not_remembered_for_ever() {
        let mut repeats = RepeatDetector::new();
        assert!((0..1_000_000u64).all(|visitor| !repeats.is_repeat(visitor, 0)));
        assert!(repeats.len() <= 2 * CAPACITY, "{}", repeats.len());
    }
}
