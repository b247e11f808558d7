//! Rate limits in this process's memory.

mod buckets;

use std::time::Duration;

use async_trait::async_trait;
use terse_core::Clock;
use terse_core::limits::{
    Gcra, InsufficientTokens, LimitDecision, LimitSubject, Limiter, TokenRequest,
};

use buckets::Buckets;

/// Counts in memory: for one process, until it stops. It stores at most 131,072 subjects in less
/// than 12 MiB, and drops a subject whose bucket is full again.
#[derive(Debug)]
pub struct LocalLimiter {
    buckets: Buckets,
}

impl LocalLimiter {
    /// A limiter that has counted nothing.
    pub fn new(clock: Clock) -> Self {
        Self { buckets: Buckets::new(clock) }
    }

    /// The number of stored subjects.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether no subject is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many subjects were dropped before their buckets were full, because a table was full.
    pub fn evicted(&self) -> u64 {
        self.buckets.evicted()
    }
}

#[async_trait]
impl Limiter for LocalLimiter {
    async fn take(&self, takes: &[TokenRequest]) -> LimitDecision {
        let takes = limited(takes);
        let mut buckets = self.buckets.lock(&takes);
        let mut decision = LimitDecision::UNLIMITED;
        // Writes nothing before every bucket has allowed the call. A subject that is named twice
        // pays twice.
        let mut pending: Vec<(LimitSubject, u64)> = Vec::with_capacity(takes.len());
        for take in &takes {
            let earlier = pending.iter().rfind(|(subject, _)| *subject == take.subject);
            let before =
                earlier.map_or_else(|| buckets.until_full(&take.subject), |(_, after)| *after);
            let (one, after) = decide(take, before);
            pending.push((take.subject, after));
            decision = decision.and(one);
        }
        if decision.allowed {
            for (subject, until_full) in pending {
                buckets.set(subject, until_full);
            }
        }
        decision
    }

    async fn give_back(&self, takes: &[TokenRequest]) {
        let takes = limited(takes);
        let mut buckets = self.buckets.lock(&takes);
        for take in &takes {
            let before = buckets.until_full(&take.subject);
            if before > 0 {
                let after = Gcra::of(take.limit).give_back(before, take.count);
                buckets.set(take.subject, after);
            }
        }
    }
}

/// The takes that have a limit, each of at least one token.
fn limited(takes: &[TokenRequest]) -> Vec<TokenRequest> {
    let limited = takes.iter().filter(|take| !take.limit.is_off());
    limited.map(|take| TokenRequest { count: take.count.max(1), ..*take }).collect()
}

/// The decision of one bucket, and how long it takes until the bucket is full afterwards.
fn decide(take: &TokenRequest, before: u64) -> (LimitDecision, u64) {
    let (gcra, limit) = (Gcra::of(take.limit), take.limit.count());
    let remaining =
        |until_full: u64| u32::try_from(gcra.tokens(until_full)).unwrap_or(u32::MAX).min(limit);
    match gcra.take(before, take.count) {
        Ok(after) => {
            let decision = LimitDecision {
                allowed: true,
                limit,
                remaining: remaining(after),
                reset: Duration::from_nanos(after),
                retry: Duration::ZERO,
            };
            (decision, after)
        }
        Err(InsufficientTokens { wait }) => {
            let retry = wait.map_or(take.limit.per(), Duration::from_nanos);
            let decision = LimitDecision {
                allowed: false,
                limit,
                remaining: if wait.is_some() { remaining(before) } else { 0 },
                reset: Duration::from_nanos(before).max(retry),
                retry,
            };
            (decision, before)
        }
    }
}
