//! The generic cell rate algorithm (GCRA): a token bucket whose whole state is one number.
//!
//! The state is how long the bucket takes until it is full. A token lengthens that time by the
//! interval in which one token comes back; the bucket is empty when the time reaches its period.
//! Every limiter uses this arithmetic and keeps the states in a table of its own.

use super::limit::Limit;

/// The rate and the size of a bucket, in the caller's unit of time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gcra {
    interval: u64,
    period: u64,
}

/// Too few tokens are in the bucket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InsufficientTokens {
    /// How long until the bucket holds as many as were asked for; `None` if it never does.
    pub wait: Option<u64>,
}

impl Gcra {
    /// A bucket of `count` tokens, one of which comes back in each `interval`. An interval of 0
    /// counts as 1.
    pub const fn new(interval: u64, count: u32) -> Self {
        let interval = if interval == 0 { 1 } else { interval };
        Self { interval, period: interval.saturating_mul(count as u64) }
    }

    /// The bucket of a limit, in nanoseconds. Without a limit it holds nothing.
    pub fn of(limit: Limit) -> Self {
        let nanos = u64::try_from(limit.interval().as_nanos()).unwrap_or(u64::MAX);
        Self::new(nanos, limit.count())
    }

    /// A bucket that holds `factor` times as many tokens and fills in the same time.
    #[must_use]
    pub const fn times(self, factor: u32) -> Self {
        let factor = if factor == 0 { 1 } else { factor as u64 };
        let interval = self.interval / factor;
        Self { interval: if interval == 0 { 1 } else { interval }, period: self.period }
    }

    /// How long an empty bucket takes until it is full.
    #[inline]
    pub const fn period(self) -> u64 {
        self.period
    }

    /// Takes `count` tokens from a bucket that is full after `until_full`: all of them, or none.
    /// Returns the new time until it is full.
    #[inline]
    pub const fn take(self, until_full: u64, count: u32) -> Result<u64, InsufficientTokens> {
        let cost = self.interval.saturating_mul(count as u64);
        let after = until_full.saturating_add(cost);
        if after <= self.period {
            return Ok(after);
        }
        let wait = if cost > self.period { None } else { Some(after - self.period) };
        Err(InsufficientTokens { wait })
    }

    /// Puts `count` tokens back; a full bucket stays full. Returns the new time until it is full.
    #[inline]
    pub const fn give_back(self, until_full: u64, count: u32) -> u64 {
        until_full.saturating_sub(self.interval.saturating_mul(count as u64))
    }

    /// How many tokens a bucket holds that is full after `until_full`.
    pub const fn tokens(self, until_full: u64) -> u64 {
        self.period.saturating_sub(until_full) / self.interval
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bucket_is_emptied_and_fills_up_evenly() {
        let six = Gcra::new(10, 6);
        assert_eq!(six.take(0, 6), Ok(60));
        assert_eq!(six.take(60, 1), Err(InsufficientTokens { wait: Some(10) }));
        assert_eq!(six.take(51, 1), Err(InsufficientTokens { wait: Some(1) }));
        assert_eq!(six.take(50, 1), Ok(60));
        assert_eq!(six.take(30, 4), Err(InsufficientTokens { wait: Some(10) }));
        assert_eq!(six.take(0, 7), Err(InsufficientTokens { wait: None }));
        assert_eq!((six.tokens(0), six.tokens(1), six.tokens(10), six.tokens(60)), (6, 5, 5, 0));
        assert_eq!((six.give_back(60, 2), six.give_back(10, 2)), (40, 0));
        assert_eq!(six.take(0, 0), Ok(0));
    }

    #[test]
    fn extreme_numbers_are_refused_and_not_wrapped() {
        assert!(Gcra::new(u64::MAX / 2, 2).take(u64::MAX, 2).is_err());
        assert!(Gcra::new(10, 6).take(u64::MAX, u32::MAX).is_err());
        assert_eq!(Gcra::new(0, 3).take(0, 3), Ok(3));
        assert_eq!(Gcra::of(Limit::OFF).take(0, 1), Err(InsufficientTokens { wait: None }));
        assert_eq!(Gcra::of(Limit::per_second(2)), Gcra::new(500_000_000, 2));
    }

    #[test]
    fn a_wider_bucket_fills_in_the_same_time() {
        let wide = Gcra::new(80, 3).times(8);
        assert_eq!((wide.period(), wide.tokens(0)), (240, 24));
        assert_eq!(wide.take(0, 24), Ok(240));
        assert!(wide.take(0, 25).is_err());
        assert_eq!(Gcra::new(3, 2).times(8).tokens(0), 6, "an interval is at least 1");
    }

    /// A token bucket as a textbook describes it: it holds tokens, in parts of an interval.
    struct Bucket {
        interval: u64,
        capacity: u64,
        level: u64,
    }

    impl Bucket {
        fn fill(&mut self, time: u64) {
            self.level = (self.level + time).min(self.capacity * self.interval);
        }

        fn take(&mut self, count: u64) -> bool {
            let enough = self.level >= count * self.interval;
            self.level -= if enough { count * self.interval } else { 0 };
            enough
        }
    }

    proptest! {
        #[test]
        fn it_allows_what_a_token_bucket_allows(
            interval in 1_u64..50,
            count in 1_u32..10,
            steps in prop::collection::vec((0_u64..200, 0_u32..12, any::<bool>()), 1..100),
        ) {
            let gcra = Gcra::new(interval, count);
            let capacity = u64::from(count);
            let mut bucket = Bucket { interval, capacity, level: capacity * interval };
            let mut until_full = 0_u64;
            for (time, tokens, give_back) in steps {
                bucket.fill(time);
                until_full = until_full.saturating_sub(time);
                if give_back {
                    bucket.fill(u64::from(tokens) * interval);
                    until_full = gcra.give_back(until_full, tokens);
                    continue;
                }
                prop_assert_eq!(gcra.tokens(until_full), bucket.level / interval);
                let wait = match gcra.take(until_full, tokens) {
                    Ok(after) => {
                        prop_assert!(bucket.take(u64::from(tokens)));
                        until_full = after;
                        continue;
                    }
                    Err(InsufficientTokens { wait }) => wait,
                };
                prop_assert!(!bucket.take(u64::from(tokens)));
                // The bucket holds enough exactly when the wait is over.
                let Some(wait) = wait else {
                    prop_assert!(u64::from(tokens) > capacity);
                    continue;
                };
                prop_assert!(gcra.take(until_full.saturating_sub(wait - 1), tokens).is_err());
                prop_assert!(gcra.take(until_full.saturating_sub(wait), tokens).is_ok());
            }
        }
    }
}
