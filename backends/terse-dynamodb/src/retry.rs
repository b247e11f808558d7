//! Repeats requests, with jitter, within a time budget.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::failure::{Failure, timed_out};

/// The first wait is up to this long; each further one up to twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const MAX_WAIT: Duration = Duration::from_millis(500);
/// A retry after throttling or without an answer costs this many tokens; a success gives one back.
const RETRY_COST: i64 = 5;
const MAX_TOKENS: i64 = 500;

/// Which failures a request may be repeated after.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RetryPolicy {
    /// Also when the outcome is unknown: a second time changes nothing, or the caller finds out.
    Always,
    /// Only when nothing was written.
    UnlessUnknown,
}

/// Limits the retries of a handle: while most requests fail, they are not repeated, so that a table
/// that is throttled gets fewer requests, not more.
#[derive(Debug)]
pub(crate) struct RetryTokens(AtomicI64);

impl Default for RetryTokens {
    fn default() -> Self {
        Self(AtomicI64::new(MAX_TOKENS))
    }
}

impl RetryTokens {
    fn take(&self) -> bool {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tokens| {
            (tokens >= RETRY_COST).then_some(tokens - RETRY_COST)
        });
        taken.is_ok()
    }

    fn give_back(&self) {
        let _full = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tokens| {
            (tokens < MAX_TOKENS).then_some(tokens + 1)
        });
    }
}

/// The time that one call of the store may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    end: Instant,
    budget: Duration,
}

impl Deadline {
    pub(crate) fn after(budget: Duration) -> Self {
        Self { end: Instant::now() + budget, budget }
    }

    pub(crate) fn has_passed(&self) -> bool {
        Instant::now() >= self.end
    }

    pub(crate) fn end(&self) -> Instant {
        self.end
    }
}

/// Calls `attempt` until it succeeds, fails for good, or the time is over. After an attempt without
/// an answer, a failure of a later attempt says nothing about the first: the outcome stays unknown
/// until an attempt answers.
pub(crate) async fn repeated<T, F>(
    tokens: &RetryTokens,
    deadline: Deadline,
    attempt_timeout: Duration,
    policy: RetryPolicy,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut unknown = None;
    let mut wait = FIRST_WAIT;
    loop {
        let end = deadline.end().min(Instant::now() + attempt_timeout);
        let failure = match tokio::time::timeout_at(end, attempt()).await {
            Ok(Ok(done)) => {
                tokens.give_back();
                return Ok(done);
            }
            Ok(Err(failure)) => failure,
            Err(_) => timed_out(attempt_timeout.min(deadline.budget)),
        };
        let may_repeat = match &failure {
            // Two transactions that meet: the table itself is not busy.
            Failure::Conflict => true,
            Failure::Throttled(_) => tokens.take(),
            Failure::Unknown(_) => policy == RetryPolicy::Always && tokens.take(),
            _ => return Err(failure),
        };
        let pause = jitter(wait);
        wait = (wait * 2).min(MAX_WAIT);
        let failure = match failure {
            Failure::Unknown(why) => {
                unknown = Some(why.clone());
                Failure::Unknown(why)
            }
            busy => unknown.clone().map_or(busy, Failure::Unknown),
        };
        if !may_repeat || Instant::now() + pause >= deadline.end() {
            return Err(failure);
        }
        tokio::time::sleep(pause).await;
    }
}

/// A random part of a time.
pub(crate) fn jitter(most: Duration) -> Duration {
    let part = getrandom::u32().unwrap_or(u32::MAX);
    most.mul_f64(f64::from(part) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    async fn run(policy: RetryPolicy, failures: Vec<Failure>) -> (Result<(), Failure>, usize) {
        let left = RefCell::new(failures.into_iter());
        let mut attempts = 0;
        let deadline = Deadline::after(Duration::from_secs(5));
        let tokens = RetryTokens::default();
        let outcome = repeated(&tokens, deadline, Duration::from_secs(1), policy, || {
            attempts += 1;
            let next = left.borrow_mut().next();
            async { next.map_or(Ok(()), Err) }
        })
        .await;
        (outcome, attempts)
    }

    #[tokio::test(start_paused = true)]
    async fn what_wrote_nothing_is_repeated_and_an_unknown_outcome_where_it_is_safe() {
        let throttled = || Failure::Throttled("x".into());
        let unknown = || Failure::Unknown("x".into());
        let (outcome, attempts) =
            run(RetryPolicy::UnlessUnknown, vec![throttled(), Failure::Conflict]).await;
        assert!(matches!((outcome, attempts), (Ok(()), 3)));
        let (outcome, attempts) = run(RetryPolicy::Always, vec![unknown()]).await;
        assert!(matches!((outcome, attempts), (Ok(()), 2)));
        let (outcome, attempts) = run(RetryPolicy::UnlessUnknown, vec![unknown()]).await;
        assert!(matches!((outcome, attempts), (Err(Failure::Unknown(_)), 1)));
        let (outcome, attempts) =
            run(RetryPolicy::Always, vec![Failure::Refused("x".into())]).await;
        assert!(matches!((outcome, attempts), (Err(Failure::Refused(_)), 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn throttling_after_an_unknown_outcome_stays_unknown() {
        let throttled = (0..1000).map(|_| Failure::Throttled("x".into()));
        let failures = std::iter::once(Failure::Unknown("x".into())).chain(throttled).collect();
        let (outcome, _) = run(RetryPolicy::Always, failures).await;
        assert!(matches!(outcome, Err(Failure::Unknown(_))), "{outcome:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn retries_end_with_the_budget() {
        let failures = (0..1000).map(|_| Failure::Throttled("x".into())).collect();
        let (outcome, attempts) = run(RetryPolicy::Always, failures).await;
        assert!(matches!(outcome, Err(Failure::Throttled(_))), "{outcome:?}");
        assert!((10..=200).contains(&attempts), "{attempts}");
    }

    #[test]
    fn retries_run_out_while_nothing_succeeds() {
        let tokens = RetryTokens::default();
        assert_eq!((0..1000).filter(|_| tokens.take()).count(), 100);
        (0..5).for_each(|_| tokens.give_back());
        assert_eq!((0..1000).filter(|_| tokens.take()).count(), 1);
    }
}
