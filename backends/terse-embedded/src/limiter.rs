//! Limits kept in this process's memory.
//!
//! The arithmetic is governor's; where its states are kept is ours, because it has to stay bounded:
//! the tables that come with governor grow with everyone who comes by until somebody tidies them.

mod buckets;

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::{Quota, RateLimiter};
use terse_core::Clock;
use terse_core::limits::{Limit, LimitDecision, LimitSubject, Limiter};

use buckets::Buckets;

/// Keeps count in memory: for one machine, and until it stops. At most 131,072 subjects are
/// remembered, in less than 12 MiB; a subject whose bucket is full again is forgotten.
#[derive(Debug)]
pub struct LocalLimiter {
    buckets: Buckets,
}

/// The buckets' clock, as governor reads it. It counts from its first reading: that is made zero,
/// so that all states have one beginning, whatever limit they were counted under.
struct Steady<'a> {
    buckets: &'a Buckets,
    asked: Cell<bool>,
}

impl governor::clock::Clock for Steady<'_> {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        if self.asked.replace(true) { self.buckets.now() } else { Nanos::new(0) }
    }
}

type Rate<'a> = RateLimiter<LimitSubject, &'a Buckets, Steady<'a>, StateInformationMiddleware>;

impl LocalLimiter {
    /// One that has counted nothing.
    pub fn new(clock: Clock) -> Self {
        Self { buckets: Buckets::new(clock) }
    }

    /// How many subjects are remembered.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether nobody did anything of late.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many were forgotten before their time, to make room for others.
    pub fn evicted(&self) -> u64 {
        self.buckets.evicted()
    }

    fn take_now(&self, subject: LimitSubject, limit: Limit, count: NonZeroU32) -> LimitDecision {
        let (Some(most), Some(quota)) =
            (NonZeroU32::new(limit.count()), Quota::with_period(limit.interval()))
        else {
            return LimitDecision::UNLIMITED;
        };
        let refused = LimitDecision {
            allowed: false,
            limit: most.get(),
            remaining: 0,
            reset: limit.per(),
            retry: limit.per(),
        };
        if count > most {
            return refused;
        }
        let steady = Steady { buckets: &self.buckets, asked: Cell::new(false) };
        let rate = Rate::new(quota.allow_burst(most), &self.buckets, steady);
        let until_full =
            |remaining: u32| limit.interval() * (most.get() - remaining.min(most.get()));
        match rate.check_key_n(&subject, count) {
            Ok(Ok(state)) => {
                let remaining = state.remaining_burst_capacity();
                let reset = until_full(remaining);
                LimitDecision {
                    allowed: true,
                    limit: most.get(),
                    remaining,
                    reset,
                    retry: Duration::ZERO,
                }
            }
            Ok(Err(not_until)) => {
                let retry = not_until.wait_time_from(self.buckets.now());
                // So many are missing; the rest is there.
                let missing = retry.as_nanos().div_ceil(limit.interval().as_nanos().max(1));
                let remaining =
                    count.get().saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX));
                LimitDecision {
                    remaining,
                    reset: until_full(remaining).max(retry),
                    retry,
                    ..refused
                }
            }
            Err(_) => refused,
        }
    }
}

#[async_trait]
impl Limiter for LocalLimiter {
    async fn take(&self, subject: LimitSubject, limit: Limit, count: u32) -> LimitDecision {
        self.take_now(subject, limit, NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN))
    }

    async fn give_back(&self, subject: LimitSubject, limit: Limit, count: u32) {
        self.buckets.give_back(&subject, limit.interval().saturating_mul(count));
    }
}
