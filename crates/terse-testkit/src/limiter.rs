//! What every limiter must do: one function per promise of `Limiter`.
#![allow(clippy::unwrap_used, reason = "a suite of tests")]
#![allow(missing_docs, reason = "each function's name is the promise")]

use std::sync::Arc;
use std::time::Duration;

use terse_core::Clock;
use terse_core::limits::{
    Limit, LimitDecision, LimitKey, LimitSubject, LimitedAction, Limiter, Network, take_by_address,
};

/// A limiter and the clock it goes by.
pub struct Offered {
    /// The limiter.
    pub limiter: Arc<dyn Limiter>,
    /// Its clock.
    pub clock: Clock,
}

/// Expands into one test per promise of `Limiter`, in a module `limiter`.
///
/// `fresh` is an `async fn() -> Option<terse_testkit::limiter::Offered>` giving one that has
/// counted nothing; `None` skips, aloud.
#[macro_export]
macro_rules! limiter {
    ($fresh:path) => {
        $crate::promises! { limiter, $fresh =>
            a_bucket_is_emptied_and_fills_up_evenly
            many_are_taken_together_or_not_at_all
            more_than_a_bucket_holds_is_never_allowed
            subjects_do_not_share_a_bucket
            what_was_given_back_can_be_taken_again
            an_address_counts_for_its_networks
            without_a_limit_nothing_is_counted
            of_racing_takes_no_more_than_the_limit_are_allowed
            whoever_did_much_is_remembered_among_many_others
        }
    };
}

type Given = Arc<Offered>;

const LIMIT: Limit = Limit::per_minute(6);

fn key(key: u64) -> LimitSubject {
    LimitSubject { act: LimitedAction::Create, who: LimitKey::Key(key) }
}

/// Counts how many of these are allowed one by one.
async fn allowed(given: &Given, subject: LimitSubject, limit: Limit, tries: u32) -> u32 {
    let mut allowed = 0;
    for _ in 0..tries {
        allowed += u32::from(given.limiter.take(subject, limit, 1).await.allowed);
    }
    allowed
}

pub async fn a_bucket_is_emptied_and_fills_up_evenly(given: Given) {
    for left in (0..6).rev() {
        let verdict = given.limiter.take(key(1), LIMIT, 1).await;
        assert!(verdict.allowed && verdict.limit == 6 && verdict.remaining == left, "{verdict:?}");
        let full_in = Duration::from_secs(10) * (6 - left);
        assert!(
            verdict.reset <= full_in && verdict.reset > full_in - Duration::from_secs(10),
            "{verdict:?}"
        );
    }
    let verdict = given.limiter.take(key(1), LIMIT, 1).await;
    assert!(!verdict.allowed && verdict.remaining == 0, "{verdict:?}");
    assert!(
        verdict.retry > Duration::ZERO && verdict.retry <= Duration::from_secs(10),
        "{verdict:?}"
    );
    assert!(
        verdict.reset >= verdict.retry && verdict.reset <= Duration::from_mins(1),
        "{verdict:?}"
    );
    given.clock.advance(verdict.retry + Duration::from_millis(1));
    assert_eq!(allowed(&given, key(1), LIMIT, 3).await, 1);
    given.clock.advance(Duration::from_secs(25));
    assert_eq!(allowed(&given, key(1), LIMIT, 9).await, 2);
    given.clock.advance(Duration::from_hours(1));
    assert_eq!(allowed(&given, key(1), LIMIT, 9).await, 6);
}

pub async fn many_are_taken_together_or_not_at_all(given: Given) {
    assert_eq!(given.limiter.take(key(1), LIMIT, 4).await.remaining, 2);
    let verdict = given.limiter.take(key(1), LIMIT, 3).await;
    assert!(!verdict.allowed && verdict.remaining == 2, "{verdict:?}");
    assert!(verdict.retry <= Duration::from_secs(10), "{verdict:?}");
    let verdict = given.limiter.take(key(1), LIMIT, 2).await;
    assert!(verdict.allowed && verdict.remaining == 0, "{verdict:?}");
}

pub async fn more_than_a_bucket_holds_is_never_allowed(given: Given) {
    let verdict = given.limiter.take(key(1), LIMIT, 7).await;
    assert!(!verdict.allowed && verdict.limit == 6, "{verdict:?}");
    assert_eq!(allowed(&given, key(1), LIMIT, 7).await, 6, "asking for too much costs nothing");
}

pub async fn subjects_do_not_share_a_bucket(given: Given) {
    let (network, _) = Network::of("0.0.0.1".parse().unwrap());
    let whose = [LimitKey::Key(1), LimitKey::Key(2), LimitKey::Link(1), LimitKey::Network(network)];
    for who in whose {
        for act in [
            LimitedAction::Create,
            LimitedAction::AskToCreate,
            LimitedAction::Guess,
            LimitedAction::SignIn,
        ] {
            assert_eq!(
                allowed(&given, LimitSubject { act, who }, LIMIT, 7).await,
                6,
                "{act:?} {who:?}"
            );
        }
    }
}

pub async fn what_was_given_back_can_be_taken_again(given: Given) {
    assert_eq!(allowed(&given, key(1), LIMIT, 7).await, 6);
    given.limiter.give_back(key(1), LIMIT, 2).await;
    assert_eq!(allowed(&given, key(1), LIMIT, 7).await, 2);
    // A bucket holds no more than it does.
    given.limiter.give_back(key(2), LIMIT, 100).await;
    given.limiter.give_back(key(1), LIMIT, 100).await;
    assert_eq!(allowed(&given, key(1), LIMIT, 9).await, 6);
    assert_eq!(allowed(&given, key(2), LIMIT, 9).await, 6);
}

pub async fn an_address_counts_for_its_networks(given: Given) {
    let mut tries = 0;
    let mut count = async |of: &mut dyn FnMut(u32) -> String| {
        let mut allowed = 0;
        for i in 0..100 {
            tries += 1;
            let address = of(i).parse().unwrap();
            allowed += u32::from(
                take_by_address(&*given.limiter, LimitedAction::Create, address, LIMIT, 1)
                    .await
                    .allowed,
            );
        }
        allowed
    };
    assert_eq!(count(&mut |_| "203.0.113.7".into()).await, 6);
    assert_eq!(count(&mut |i| format!("198.51.100.{i}")).await, 100, "each IPv4 address is one");
    assert_eq!(count(&mut |i| format!("2001:db8:1:1::{i:x}")).await, 6, "a /64 is one");
    assert_eq!(count(&mut |i| format!("2001:db8:2:{i:x}::1")).await, 48, "a /48 is eight");
    assert_eq!(count(&mut |i| format!("2001:db8:{:x}::1", i + 16)).await, 100, "others are others");
}

pub async fn without_a_limit_nothing_is_counted(given: Given) {
    for count in [1, 1000, u32::MAX] {
        assert_eq!(given.limiter.take(key(1), Limit::OFF, count).await, LimitDecision::UNLIMITED);
    }
    given.limiter.give_back(key(1), Limit::OFF, 1).await;
}

pub async fn of_racing_takes_no_more_than_the_limit_are_allowed(given: Given) {
    let racers = (0..8).map(|_| {
        let given = Arc::clone(&given);
        tokio::spawn(async move { allowed(&given, key(1), Limit::per_hour(1000), 500).await })
    });
    let mut sum = 0;
    for racer in racers.collect::<Vec<_>>() {
        sum += racer.await.unwrap();
    }
    // In the time that it takes, one more may have become free.
    assert!((1000..1010).contains(&sum), "{sum}");
}

pub async fn whoever_did_much_is_remembered_among_many_others(given: Given) {
    let limit = Limit::per_hour(30);
    assert_eq!(allowed(&given, key(u64::MAX), limit, 31).await, 30);
    for other in 0..300_000 {
        assert!(given.limiter.take(key(other), limit, 1).await.allowed, "{other} had done nothing");
    }
    assert!(!given.limiter.take(key(u64::MAX), limit, 1).await.allowed);
}
