//! The `Limiter` suite, and tests of this implementation.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use terse_core::Clock;
use terse_core::limits::{
    Limit, LimitKey, LimitSubject, LimitedAction, Limiter as _, TokenRequest, by_address,
};
use terse_embedded::LocalLimiter;
use terse_testkit::limiter::LimiterUnderTest;

async fn fresh() -> Option<LimiterUnderTest> {
    let clock = Clock::default();
    Some(LimiterUnderTest { limiter: Arc::new(LocalLimiter::new(clock.clone())), clock })
}
terse_testkit::limiter!(fresh);

#[tokio::test]
async fn two_million_addresses_take_no_more_room_than_a_hundred_thousand() {
    let limiter = LocalLimiter::new(Clock::default());
    let limit = Limit::per_hour(30);
    for address in 0..2_000_000_u32 {
        let address = std::net::Ipv4Addr::from_bits(address).into();
        let takes = by_address(LimitedAction::Create, address, limit, 1);
        assert!(limiter.take(&takes).await.allowed);
    }
    assert!((100_000..=131_072).contains(&limiter.len()), "{}", limiter.len());
    assert!(limiter.evicted() >= 2_000_000 - 131_072);
}

#[tokio::test]
async fn a_bucket_that_is_full_again_is_forgotten() {
    let clock = Clock::default();
    let limiter = LocalLimiter::new(clock.clone());
    let one = |key| {
        let subject = LimitSubject { action: LimitedAction::Create, key: LimitKey::Key(key) };
        [TokenRequest { subject, limit: Limit::per_minute(60), count: 1 }]
    };
    for key in 0..100_000 {
        limiter.take(&one(key)).await;
    }
    assert_eq!(limiter.len(), 100_000);
    clock.advance(Duration::from_mins(2));
    for key in 200_000..200_500 {
        limiter.take(&one(key)).await;
    }
    assert_eq!((limiter.len(), limiter.evicted()), (500, 0));
}
