//! When certificates are ordered.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// The pauses after failed orders; the last is for all further ones. Let's Encrypt allows five
/// failed checks of a host in an hour: here there are at most three.
const PAUSES: [Duration; 6] = [
    Duration::from_mins(1),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(6),
    Duration::from_hours(12),
    Duration::from_hours(24),
];
/// The longest pause while the authority cannot be reached.
const MAX_UNREACHED_PAUSE: Duration = Duration::from_mins(30);
/// The most orders in an hour, also of many hosts. Let's Encrypt allows 300 in three hours.
const MAX_PER_HOUR: usize = 60;

/// The pause after this many failures in a row.
pub(crate) fn pause_after(failures: u32) -> Duration {
    let at = (failures.max(1) as usize - 1).min(PAUSES.len() - 1);
    PAUSES[at]
}

/// The pause of all orders after the authority could not be reached this many times in a row. It
/// doubles up to half an hour.
pub(crate) fn pause_unreached(times: u32) -> Duration {
    let minutes = 1 << times.saturating_sub(1).min(5);
    Duration::from_mins(minutes).min(MAX_UNREACHED_PAUSE)
}

/// When to renew a certificate that is valid from `from` to `until`, in seconds: after two thirds
/// of its life, and up to a thirtieth earlier, so that hosts whose certificates were ordered
/// together are renewed at different times. At least 15 days of a life of 45 are left then: the
/// alert of the last 14 does not fire. The time is the same on every node.
pub(crate) fn renew_at(host: &str, (from, until): (i64, i64)) -> i64 {
    let life = until.saturating_sub(from).max(0);
    let mut hasher = DefaultHasher::new();
    (host, until).hash(&mut hasher);
    let spread = (life / 30).max(1).cast_unsigned();
    from.saturating_add(life / 3 * 2).saturating_sub((hasher.finish() % spread).cast_signed())
}

/// Bounds the orders of this process.
#[derive(Debug, Default)]
pub(crate) struct OrderLimit {
    /// When the last orders were made, by the steady clock.
    made: VecDeque<Duration>,
}

impl OrderLimit {
    /// Takes one order; false if there were too many within the last hour.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        while self.made.front().is_some_and(|at| *at + Duration::from_hours(1) <= now) {
            self.made.pop_front();
        }
        let free = self.made.len() < MAX_PER_HOUR;
        if free {
            self.made.push_back(now);
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_checks_stay_below_the_limit_of_lets_encrypt() {
        let mut at = Duration::ZERO;
        let mut times = vec![at];
        for failures in 1..20 {
            at += pause_after(failures);
            times.push(at);
        }
        for begin in &times {
            let within = |at: &&Duration| **at >= *begin && **at < *begin + Duration::from_hours(1);
            assert!(times.iter().filter(within).count() <= 3, "after {begin:?}");
        }
        assert_eq!(pause_after(u32::MAX), Duration::from_hours(24));
        assert_eq!(pause_after(0), Duration::from_mins(1));
        let minutes = [0, 1, 2, 5, 6, 7, u32::MAX].map(|n| pause_unreached(n).as_secs() / 60);
        assert_eq!(minutes, [1, 1, 2, 16, 30, 30, 30]);
    }

    #[test]
    fn renewal_comes_after_two_thirds_and_at_different_times() {
        const DAY: i64 = 86_400;
        let validity = (1_000_000, 1_000_000 + 90 * DAY);
        let times: Vec<i64> =
            (0..50).map(|n| renew_at(&format!("{n}.example"), validity)).collect();
        for at in &times {
            assert!((57 * DAY..=60 * DAY).contains(&(at - validity.0)), "{at}");
        }
        let short = (1_000_000, 1_000_000 + 45 * DAY);
        for n in 0..50 {
            let left = short.1 - renew_at(&format!("{n}.example"), short);
            assert!((15 * DAY..=17 * DAY).contains(&left), "{left}");
        }
        let different: std::collections::BTreeSet<_> = times.iter().collect();
        assert!(different.len() > 40, "{} times for 50 hosts", different.len());
        assert_eq!(renew_at("a.example", validity), renew_at("a.example", validity));
        // A certificate without a life is renewed at once.
        assert_eq!(renew_at("a.example", (7, 7)), 7);
        assert_eq!(renew_at("a.example", (7, 3)), 7);
    }

    #[test]
    fn the_orders_of_an_hour_are_bounded() {
        let (mut limit, minute) = (OrderLimit::default(), Duration::from_mins(1));
        assert!((0..MAX_PER_HOUR).all(|_| limit.take(minute)));
        assert!(!limit.take(2 * minute) && !limit.take(60 * minute));
        assert!(limit.take(61 * minute));
    }
}
