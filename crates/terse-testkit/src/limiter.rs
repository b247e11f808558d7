//! The promises of `Limiter`, one function each.
#![allow(clippy::unwrap_used, reason = "a suite of tests")]
#![allow(missing_docs, reason = "each function's name is the promise")]

use std::sync::Arc;
use std::time::Duration;

use terse_core::Clock;
use terse_core::limits::{
    Limit, LimitDecision, LimitKey, LimitSubject, LimitedAction, Limiter, Network, TokenRequest,
    by_address,
};

/// A limiter and its clock.
pub struct LimiterUnderTest {
    /// The limiter.
    pub limiter: Arc<dyn Limiter>,
    /// The clock that it reads.
    pub clock: Clock,
}

/// Expands into one test per promise of `Limiter`, in a module `limiter`.
///
/// `fresh` is an `async fn() -> Option<terse_testkit::limiter::LimiterUnderTest>` that returns a
/// limiter without counts. With `None` a test is skipped, and says so.
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
            a_refused_bucket_leaves_the_others_untouched
            of_several_buckets_the_strictest_decides
            a_subject_named_twice_pays_twice
            racing_takes_of_several_buckets_take_all_or_none
            of_racing_takes_no_more_than_the_limit_are_allowed
            a_busy_caller_is_remembered_among_many_others
        }
    };
}

type LimiterHandle = Arc<LimiterUnderTest>;

const LIMIT: Limit = Limit::per_minute(6);

fn key(key: u64) -> LimitSubject {
    LimitSubject { action: LimitedAction::Create, key: LimitKey::Key(key) }
}

impl LimiterUnderTest {
    async fn take(&self, subject: LimitSubject, limit: Limit, count: u32) -> LimitDecision {
        self.limiter.take(&[TokenRequest { subject, limit, count }]).await
    }

    async fn give_back(&self, subject: LimitSubject, limit: Limit, count: u32) {
        self.limiter.give_back(&[TokenRequest { subject, limit, count }]).await;
    }
}

/// Counts how many of these single takes are allowed.
async fn allowed(given: &LimiterHandle, subject: LimitSubject, limit: Limit, tries: u32) -> u32 {
    let mut allowed = 0;
    for _ in 0..tries {
        allowed += u32::from(given.take(subject, limit, 1).await.allowed);
    }
    allowed
}

pub async fn a_bucket_is_emptied_and_fills_up_evenly(given: LimiterHandle) {
    for left in (0..6).rev() {
        let verdict = given.take(key(1), LIMIT, 1).await;
        assert!(verdict.allowed && verdict.limit == 6 && verdict.remaining == left, "{verdict:?}");
        let full_in = Duration::from_secs(10) * (6 - left);
        assert!(
            verdict.reset <= full_in && verdict.reset > full_in - Duration::from_secs(10),
            "{verdict:?}"
        );
    }
    let verdict = given.take(key(1), LIMIT, 1).await;
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

pub async fn many_are_taken_together_or_not_at_all(given: LimiterHandle) {
    assert_eq!(given.take(key(1), LIMIT, 4).await.remaining, 2);
    let verdict = given.take(key(1), LIMIT, 3).await;
    assert!(!verdict.allowed && verdict.remaining == 2, "{verdict:?}");
    assert!(verdict.retry <= Duration::from_secs(10), "{verdict:?}");
    let verdict = given.take(key(1), LIMIT, 2).await;
    assert!(verdict.allowed && verdict.remaining == 0, "{verdict:?}");
}

pub async fn more_than_a_bucket_holds_is_never_allowed(given: LimiterHandle) {
    let verdict = given.take(key(1), LIMIT, 7).await;
    assert!(!verdict.allowed && verdict.limit == 6, "{verdict:?}");
    assert_eq!(allowed(&given, key(1), LIMIT, 7).await, 6, "asking for too much costs nothing");
}

pub async fn subjects_do_not_share_a_bucket(given: LimiterHandle) {
    let (network, _) = Network::of("0.0.0.1".parse().unwrap());
    let whose = [LimitKey::Key(1), LimitKey::Key(2), LimitKey::Link(1), LimitKey::Network(network)];
    for key in whose {
        for action in [
            LimitedAction::Create,
            LimitedAction::AskToCreate,
            LimitedAction::Guess,
            LimitedAction::SignIn,
        ] {
            assert_eq!(
                allowed(&given, LimitSubject { action, key }, LIMIT, 7).await,
                6,
                "{action:?} {key:?}"
            );
        }
    }
}

pub async fn what_was_given_back_can_be_taken_again(given: LimiterHandle) {
    assert_eq!(allowed(&given, key(1), LIMIT, 7).await, 6);
    given.give_back(key(1), LIMIT, 2).await;
    assert_eq!(allowed(&given, key(1), LIMIT, 7).await, 2);
    // Tokens given back never exceed the capacity of a bucket.
    given.give_back(key(2), LIMIT, 100).await;
    given.give_back(key(1), LIMIT, 100).await;
    assert_eq!(allowed(&given, key(1), LIMIT, 9).await, 6);
    assert_eq!(allowed(&given, key(2), LIMIT, 9).await, 6);
}

pub async fn an_address_counts_for_its_networks(given: LimiterHandle) {
    let count = async |of: &mut dyn FnMut(u32) -> String| {
        let mut allowed = 0;
        for i in 0..100 {
            let address = of(i).parse().unwrap();
            let takes = by_address(LimitedAction::Create, address, LIMIT, 1);
            allowed += u32::from(given.limiter.take(&takes).await.allowed);
        }
        allowed
    };
    assert_eq!(count(&mut |_| "203.0.113.7".into()).await, 6);
    assert_eq!(count(&mut |i| format!("198.51.100.{i}")).await, 100, "each IPv4 address is one");
    assert_eq!(count(&mut |i| format!("2001:db8:1:1::{i:x}")).await, 6, "a /64 is one");
    assert_eq!(count(&mut |i| format!("2001:db8:2:{i:x}::1")).await, 48, "a /48 is eight");
    assert_eq!(count(&mut |i| format!("2001:db8:{:x}::1", i + 16)).await, 100, "others are others");
}

pub async fn without_a_limit_nothing_is_counted(given: LimiterHandle) {
    for count in [1, 1000, u32::MAX] {
        assert_eq!(given.take(key(1), Limit::OFF, count).await, LimitDecision::UNLIMITED);
    }
    given.give_back(key(1), Limit::OFF, 1).await;
}

/// Takes one token of each of these subjects.
fn one_of_each(subjects: &[u64]) -> Vec<TokenRequest> {
    let take = |subject: &u64| TokenRequest { subject: key(*subject), limit: LIMIT, count: 1 };
    subjects.iter().map(take).collect()
}

pub async fn a_refused_bucket_leaves_the_others_untouched(given: LimiterHandle) {
    assert_eq!(allowed(&given, key(2), LIMIT, 6).await, 6);
    for list in [[1, 2, 3], [2, 1, 3], [1, 3, 2]] {
        let decision = given.limiter.take(&one_of_each(&list)).await;
        assert!(!decision.allowed && decision.remaining == 0, "{list:?} {decision:?}");
    }
    assert_eq!(allowed(&given, key(1), LIMIT, 9).await, 6, "nothing was taken before the refusal");
    assert_eq!(allowed(&given, key(3), LIMIT, 9).await, 6, "nor after it");
    // Nothing is taken either if one bucket can never hold that many tokens.
    let mut takes = one_of_each(&[4, 5]);
    takes[1].count = 7;
    assert!(!given.limiter.take(&takes).await.allowed);
    assert_eq!(allowed(&given, key(4), LIMIT, 9).await, 6);
    given.limiter.give_back(&one_of_each(&[1, 3])).await;
    for subject in [1, 3] {
        assert_eq!(allowed(&given, key(subject), LIMIT, 9).await, 1, "given back to each bucket");
    }
}

pub async fn of_several_buckets_the_strictest_decides(given: LimiterHandle) {
    assert_eq!(given.limiter.take(&[]).await, LimitDecision::UNLIMITED);
    given.take(key(1), LIMIT, 3).await;
    let mut takes = one_of_each(&[1, 2]);
    takes.push(TokenRequest { subject: key(3), limit: Limit::OFF, count: 9 });
    assert_eq!(given.limiter.take(&takes).await.remaining, 2, "the one that leaves less");
    // Subject 1 lacks two tokens, subject 2 one: the wait is for subject 1.
    given.take(key(2), LIMIT, 3).await;
    let takes = [(1, 4), (2, 3)].map(|(subject, count)| TokenRequest {
        subject: key(subject),
        limit: LIMIT,
        count,
    });
    let decision = given.limiter.take(&takes).await;
    assert!(!decision.allowed && decision.retry > Duration::from_secs(15), "{decision:?}");
    given.clock.advance(decision.retry + Duration::from_millis(1));
    assert!(given.limiter.take(&takes).await.allowed);
}

pub async fn a_subject_named_twice_pays_twice(given: LimiterHandle) {
    assert_eq!(given.limiter.take(&one_of_each(&[1, 1])).await.remaining, 4);
    assert!(!given.limiter.take(&one_of_each(&[1, 1, 1, 1, 1])).await.allowed);
    assert_eq!(allowed(&given, key(1), LIMIT, 9).await, 4);
}

pub async fn racing_takes_of_several_buckets_take_all_or_none(given: LimiterHandle) {
    // All racers compete for bucket 0; each also takes from a bucket of its own, and names the two
    // in its own order.
    let limit = Limit::per_hour(1000);
    let racers = (1..9).map(|own| {
        let given = Arc::clone(&given);
        tokio::spawn(async move {
            let mut allowed = 0;
            for _ in 0..500 {
                let mut takes =
                    [0, own].map(|subject| TokenRequest { subject: key(subject), limit, count: 1 });
                if own % 2 == 0 {
                    takes.reverse();
                }
                allowed += u32::from(given.limiter.take(&takes).await.allowed);
            }
            (own, allowed)
        })
    });
    let mut sum = 0;
    for racer in racers.collect::<Vec<_>>() {
        let (own, taken) = racer.await.unwrap();
        let left = allowed(&given, key(own), limit, 1000).await;
        // A few tokens may have come back during the test.
        assert!((1000..1010).contains(&(taken + left)), "{own} took {taken} and left {left}");
        sum += taken;
    }
    assert!((1000..1010).contains(&sum), "{sum}");
}

pub async fn of_racing_takes_no_more_than_the_limit_are_allowed(given: LimiterHandle) {
    let racers = (0..8).map(|_| {
        let given = Arc::clone(&given);
        tokio::spawn(async move { allowed(&given, key(1), Limit::per_hour(1000), 500).await })
    });
    let mut sum = 0;
    for racer in racers.collect::<Vec<_>>() {
        sum += racer.await.unwrap();
    }
    // One more may have come back during the test.
    assert!((1000..1010).contains(&sum), "{sum}");
}

pub async fn a_busy_caller_is_remembered_among_many_others(given: LimiterHandle) {
    let limit = Limit::per_hour(30);
    assert_eq!(allowed(&given, key(u64::MAX), limit, 31).await, 30);
    // Side by side: a limiter on another server answers many at a time.
    let others = (0..64_u64).map(|first| {
        let given = Arc::clone(&given);
        tokio::spawn(async move {
            for other in (first..300_000).step_by(64) {
                assert!(given.take(key(other), limit, 1).await.allowed, "{other} had done nothing");
            }
        })
    });
    for other in others.collect::<Vec<_>>() {
        other.await.unwrap();
    }
    assert!(!given.take(key(u64::MAX), limit, 1).await.allowed);
}
