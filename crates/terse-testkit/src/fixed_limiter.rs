//! A limiter without time, for tests that count.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::limits::{LimitDecision, LimitSubject, Limiter, TokenRequest};

/// Buckets that never refill.
#[derive(Debug, Default)]
pub struct FixedLimiter(Mutex<HashMap<LimitSubject, u32>>);

#[async_trait]
impl Limiter for FixedLimiter {
    async fn take(&self, takes: &[TokenRequest]) -> LimitDecision {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut decision = LimitDecision::UNLIMITED;
        for TokenRequest { subject, limit, count } in takes {
            let before = taken.get(subject).copied().unwrap_or_default();
            let allowed = before + count <= limit.count();
            let after = before + if allowed { *count } else { 0 };
            decision = decision.and(LimitDecision {
                allowed,
                limit: limit.count(),
                remaining: limit.count() - after,
                reset: limit.interval() * after,
                retry: if allowed { Duration::ZERO } else { limit.interval() },
            });
        }
        if decision.allowed {
            takes.iter().for_each(|take| *taken.entry(take.subject).or_default() += take.count);
        }
        decision
    }

    async fn give_back(&self, takes: &[TokenRequest]) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for take in takes {
            let count = taken.entry(take.subject).or_default();
            *count = count.checked_sub(take.count).expect("no more comes back than was taken");
        }
    }
}
