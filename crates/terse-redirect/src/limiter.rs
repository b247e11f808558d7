//! Limits redirects per network and per link, and guesses per network, in tables of a fixed size
//! and without a lock.
//!
//! This is not the [`Limiter`](terse_core::limits::Limiter) of the control plane, which may wait
//! for another process. The redirect limiter runs on the serving threads.

use std::hash::{BuildHasher as _, Hasher as _};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use terse_core::ExceededLimit;
use terse_core::limits::{Gcra, Limit, Network, SUBNET_FACTOR};

/// Each key belongs to one group of slots, which is half a cache line.
const WAYS: usize = 4;
const GROUPS: usize = 16_384;
/// The lower bits of a slot hold the time at which its bucket is full, in microseconds; the upper
/// bits hold a tag of its key.
const TIME_BITS: u32 = 48;
const TIME: u64 = (1 << TIME_BITS) - 1;
/// After this many failed attempts to change a slot that other threads are changing, the request is
/// allowed uncounted: a lost count is better than a visitor who waits.
const ATTEMPTS: usize = 32;

/// The limits of the redirect plane. All serving threads share the tables, so that a limit holds
/// for the whole process.
pub(crate) struct RedirectLimiter {
    /// Whether redirects are limited. A cache hit checks only this if they are not.
    pub(crate) limits_redirects: bool,
    guesses: Option<Table>,
    addresses: Option<Table>,
    codes: Option<Table>,
    hash: RandomState,
}

impl RedirectLimiter {
    pub(crate) fn new(
        redirect_per_address: Limit,
        redirect_per_code: Limit,
        guesses_per_address: Limit,
    ) -> Self {
        let table = |limit: Limit| (!limit.is_off()).then(|| Table::new(limit));
        Self {
            limits_redirects: !redirect_per_address.is_off() || !redirect_per_code.is_off(),
            guesses: table(guesses_per_address),
            addresses: table(redirect_per_address),
            codes: table(redirect_per_code),
            hash: RandomState::default(),
        }
    }

    /// Counts a request for a link that does not exist, and returns the limit if it is exceeded.
    pub(crate) fn count_unknown_code(
        &self,
        address: impl FnOnce() -> IpAddr,
        now_ms: i64,
    ) -> Option<ExceededLimit> {
        let table = self.guesses.as_ref()?;
        (!self.take(table, address(), now_ms)).then_some(ExceededLimit::Guesses)
    }

    /// Counts a redirect, and returns the limit that it exceeds. `link` is the hash of the link's
    /// name.
    #[inline(never)]
    pub(crate) fn redirect(
        &self,
        address: IpAddr,
        link: u64,
        now_ms: i64,
    ) -> Option<ExceededLimit> {
        if self.addresses.as_ref().is_some_and(|table| !self.take(table, address, now_ms)) {
            return Some(ExceededLimit::RedirectsPerAddress);
        }
        let table = self.codes.as_ref()?;
        (!table.take(link, table.bucket, now_ms)).then_some(ExceededLimit::RedirectsPerLink)
    }

    #[inline(never)]
    fn take(&self, table: &Table, address: IpAddr, now_ms: i64) -> bool {
        let (network, above) = Network::of(address);
        table.take(self.number(network), table.bucket, now_ms)
            && above.is_none_or(|above| table.take(self.number(above), table.wider, now_ms))
    }

    /// The hash of a network under a random key of this process, so that clients cannot choose the
    /// slots of others.
    fn number(&self, network: Network) -> u64 {
        let mut hasher = self.hash.build_hasher();
        hasher.write_u64(network.prefix());
        hasher.write_u8(network.bits());
        hasher.finish()
    }
}

/// The buckets of one limit. If all slots of a group are in use, a new key replaces the one with
/// the fewest tokens taken, which starts anew later. So a new key is never refused because of
/// others, and a crowd of new keys does not reset a key that has taken many tokens.
struct Table {
    slots: Box<[AtomicU64]>,
    /// The bucket of a key, and of the network above an address, in microseconds.
    bucket: Gcra,
    wider: Gcra,
}

impl Table {
    fn new(limit: Limit) -> Self {
        let interval = u64::try_from(limit.interval().as_micros()).unwrap_or(TIME);
        let bucket = Gcra::new(interval, limit.count());
        let slots = (0..GROUPS * WAYS).map(|_| AtomicU64::new(0)).collect();
        Self { slots, bucket, wider: bucket.times(SUBNET_FACTOR) }
    }

    /// Takes a token from the bucket of a key; `false` if it is empty.
    fn take(&self, number: u64, bucket: Gcra, now_ms: i64) -> bool {
        // Times wrap around. A time further ahead than a bucket takes to fill counts as past, which
        // covers a clock that was set back and a slot that was never used.
        let now = now_ms.wrapping_mul(1000).cast_unsigned() & TIME;
        let ahead_of = |slot: u64| {
            let ahead = slot.wrapping_sub(now) & TIME;
            if ahead <= bucket.period() { ahead } else { 0 }
        };
        // Never zero, the tag of an unused slot.
        let tag = (number >> TIME_BITS) | 1;
        let group = (number as usize % GROUPS) * WAYS;
        let group = &self.slots[group..group + WAYS];
        for _ in 0..ATTEMPTS {
            let mut best = (&group[0], 0, u64::MAX);
            for slot in group {
                let held = slot.load(Ordering::Relaxed);
                let ahead = ahead_of(held);
                if held >> TIME_BITS == tag {
                    best = (slot, held, ahead);
                    break;
                }
                if ahead < best.2 {
                    best = (slot, held, ahead);
                }
            }
            let (slot, held, ahead) = best;
            let ahead = if held >> TIME_BITS == tag { ahead } else { 0 };
            let Ok(ahead) = bucket.take(ahead, 1) else { return false };
            let next = tag << TIME_BITS | (now + ahead) & TIME;
            if slot.compare_exchange_weak(held, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return true;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000_000;

    fn limiter(limit: &str) -> RedirectLimiter {
        RedirectLimiter::new(Limit::OFF, Limit::OFF, limit.parse().unwrap())
    }

    fn allowed(limiter: &RedirectLimiter, address: &str, tries: u32, now_ms: i64) -> u32 {
        let address = address.parse().unwrap();
        (0..tries)
            .map(|_| u32::from(limiter.count_unknown_code(|| address, now_ms).is_none()))
            .sum()
    }

    #[test]
    fn a_bucket_is_emptied_and_refills_evenly() {
        for (limit, count, interval_ms) in [
            ("60/m", 60, 1_000),
            ("100/s", 100, 10),
            ("30/h", 30, 120_000),
            ("24/d", 24, 3_600_000),
        ] {
            let limiter = limiter(limit);
            assert_eq!(allowed(&limiter, "203.0.113.7", count + 5, NOW), count, "{limit}");
            assert_eq!(allowed(&limiter, "203.0.113.7", 5, NOW + interval_ms - 1), 0, "{limit}");
            assert_eq!(allowed(&limiter, "203.0.113.7", 5, NOW + interval_ms), 1, "{limit}");
            assert_eq!(allowed(&limiter, "203.0.113.7", 5, NOW + 4 * interval_ms), 3, "{limit}");
            assert_eq!(
                allowed(&limiter, "203.0.113.7", count + 5, NOW + 100 * 86_400_000),
                count,
                "{limit}"
            );
        }
    }

    #[test]
    fn addresses_are_limited_by_network() {
        let limiter = limiter("6/m");
        assert_eq!(allowed(&limiter, "198.51.100.1", 9, NOW), 6);
        assert_eq!(allowed(&limiter, "::ffff:198.51.100.1", 9, NOW), 0);
        assert_eq!(allowed(&limiter, "198.51.100.2", 9, NOW), 6);
        assert_eq!(allowed(&limiter, "2001:db8:1:1::1", 9, NOW), 6);
        assert_eq!(allowed(&limiter, "2001:db8:1:1:ffff::1", 9, NOW), 0, "a /64 is one");
        let more: u32 =
            (2..100).map(|i| allowed(&limiter, &format!("2001:db8:1:{i:x}::1"), 9, NOW)).sum();
        assert_eq!(more, 48 - 6, "a /48 is eight");
    }

    #[test]
    fn a_clock_that_was_set_back_refuses_no_request() {
        let limiter = limiter("60/m");
        assert_eq!(allowed(&limiter, "198.51.100.1", 99, NOW), 60);
        assert_eq!(allowed(&limiter, "198.51.100.1", 99, NOW - 86_400_000), 60);
        assert_eq!(allowed(&limiter, "198.51.100.1", 99, -5), 60);
    }

    #[test]
    fn two_million_networks_take_no_memory_and_reset_no_bucket() {
        let limiter = limiter("60/m");
        assert_eq!(allowed(&limiter, "203.0.113.7", 99, NOW), 60);
        let slots = limiter.guesses.as_ref().map(|table| table.slots.len());
        let mut refused = 0;
        for i in 0..2_000_000_u32 {
            let address = std::net::Ipv4Addr::from_bits(i).into();
            refused += u32::from(limiter.count_unknown_code(|| address, NOW).is_some());
        }
        assert_eq!(slots, Some(65_536), "half a mebibyte");
        // One in some thousands shares a tag with another key of its group. Both are counted
        // together and have many guesses left.
        assert!(refused <= 20, "{refused} networks were refused at their first request");
        assert_eq!(
            allowed(&limiter, "203.0.113.7", 9, NOW),
            0,
            "other networks do not reset a scanner's bucket"
        );
    }

    #[test]
    fn threads_count_together() {
        let limiter = limiter("1000/h");
        let sum: u32 = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| allowed(&limiter, "203.0.113.7", 600, NOW)))
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).sum()
        });
        // At most a few counts are lost where all change one slot at once.
        assert!((1000..=1010).contains(&sum), "{sum}");
    }

    #[test]
    fn addresses_and_links_are_counted_separately() {
        let limiter = RedirectLimiter::new(Limit::per_minute(3), Limit::per_minute(5), Limit::OFF);
        assert!(limiter.limits_redirects && limiter.guesses.is_none());
        let (one, other) = ("203.0.113.7".parse().unwrap(), "203.0.113.8".parse().unwrap());
        for _ in 0..3 {
            assert_eq!(limiter.redirect(one, 7, NOW), None);
        }
        assert_eq!(limiter.redirect(one, 8, NOW), Some(ExceededLimit::RedirectsPerAddress));
        assert_eq!(limiter.redirect(other, 7, NOW), None);
        assert_eq!(limiter.redirect(other, 7, NOW), None);
        assert_eq!(limiter.redirect(other, 7, NOW), Some(ExceededLimit::RedirectsPerLink));
        assert_eq!(limiter.count_unknown_code(|| one, NOW), None);
    }
}
