//! The contract of limiters, and what happens without Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use terse_core::Clock;
use terse_core::limits::{
    Limit, LimitDecision, LimitKey, LimitSubject, LimitedAction, Limiter, TokenRequest,
};
use terse_redis::RedisLimiter;
use terse_testkit::RedisServer;
use terse_testkit::limiter::LimiterUnderTest;

use crate::{open, open_with_timeout, until};

/// Counts how often it is asked, and refuses.
#[derive(Default)]
struct Local(AtomicU64);

#[async_trait]
impl Limiter for Local {
    async fn take(&self, _: &[TokenRequest]) -> LimitDecision {
        self.0.fetch_add(1, Ordering::Relaxed);
        LimitDecision { allowed: false, ..LimitDecision::UNLIMITED }
    }

    async fn give_back(&self, _: &[TokenRequest]) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A limiter in whose place another node's stands for every second call: buckets are shared.
struct Nodes([RedisLimiter; 2], AtomicU64);

impl Nodes {
    fn next(&self) -> &RedisLimiter {
        &self.0[(self.1.fetch_add(1, Ordering::Relaxed) % 2) as usize]
    }
}

#[async_trait]
impl Limiter for Nodes {
    async fn take(&self, takes: &[TokenRequest]) -> LimitDecision {
        self.next().take(takes).await
    }

    async fn give_back(&self, takes: &[TokenRequest]) {
        self.next().give_back(takes).await;
    }
}

async fn fresh() -> Option<LimiterUnderTest> {
    static STORES: AtomicU64 = AtomicU64::new(0);
    let store = format!("t{}", STORES.fetch_add(1, Ordering::Relaxed));
    let server = RedisServer::shared();
    let clock = Clock::default();
    // How far a test has moved its clock.
    let (moved, began, from) = (clock.clone(), Instant::now(), clock.steady());
    let ahead = Arc::new(move || {
        let moved = (moved.steady() - from).saturating_sub(began.elapsed());
        i64::try_from(moved.as_micros()).unwrap()
    });
    let node = async || {
        RedisLimiter::new(open_with_timeout(server).await, Arc::new(Local::default()), &store)
            .ahead_by(ahead.clone())
    };
    let limiter = Arc::new(Nodes([node().await, node().await], AtomicU64::new(0)));
    Some(LimiterUnderTest { limiter, clock })
}

terse_testkit::limiter!(fresh);

fn take(key: u64) -> [TokenRequest; 1] {
    let subject = LimitSubject { action: LimitedAction::Create, key: LimitKey::Key(key) };
    [TokenRequest { subject, limit: Limit::per_hour(3), count: 1 }]
}

#[tokio::test]
async fn without_redis_the_node_counts_for_itself() {
    let server = RedisServer::start(&[]);
    let redis = open(&server).await;
    let local = Arc::new(Local::default());
    let limiter = RedisLimiter::new(redis.clone(), local.clone(), "t");
    until("Redis counts", async || limiter.take(&take(1)).await.limit == 3).await;
    let (asked, trips) = (local.0.load(Ordering::Relaxed), redis.trips());
    // Frozen: the first call notices, and the others do not ask any more.
    server.freeze();
    for _ in 0..200 {
        assert!(!limiter.take(&take(1)).await.allowed, "never open");
    }
    assert_eq!(local.0.load(Ordering::Relaxed), asked + 200);
    // None, if a call was late before, on a busy machine.
    assert!(redis.trips() <= trips + 1, "more than one call waited");
    server.thaw();
    until("Redis counts again", async || limiter.take(&take(1)).await.limit == 3).await;
}

#[tokio::test]
async fn an_evicted_bucket_is_a_full_one() {
    let server = RedisServer::start(&[]);
    let redis = open_with_timeout(&server).await;
    let limiter = RedisLimiter::new(redis, Arc::new(Local::default()), "t");
    for _ in 0..3 {
        assert!(limiter.take(&take(1)).await.allowed);
    }
    assert!(!limiter.take(&take(1)).await.allowed);
    assert_eq!(server.ask(&["dbsize"]), "1");
    server.ask(&["flushall"]);
    limiter.give_back(&take(1)).await;
    assert_eq!(limiter.take(&take(1)).await.remaining, 2);
}
