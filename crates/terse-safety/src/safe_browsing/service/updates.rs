//! Updates of the server's lists.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, Timestamp};

use super::client::RequestError;
use super::loaded_list::FetchResult;
use super::{POLL_INTERVAL, SafeBrowsingService, Safety, pause};
use crate::safe_browsing::read_updates;

/// The largest number of updates in a row without a wait.
const MAX_PARALLEL: u32 = 8;
/// The wait after that many updates, if the server has more or a list still does not match.
const A_WHILE: Duration = Duration::from_mins(1);
/// The longest wait that a server can ask for: after it the lists would be too old.
const MAX_WAIT: Duration = Duration::from_hours(12);

/// Fetches updates of the lists at the times that the server asks for.
pub(super) struct Updates {
    service: Arc<SafeBrowsingService>,
    safety: Arc<Safety>,
    /// By the steady clock.
    due: Duration,
    failures: u64,
    /// Updates in a row after which the server had more to send.
    at_once: u32,
}

impl Updates {
    pub(super) fn new(service: Arc<SafeBrowsingService>, safety: Arc<Safety>) -> Self {
        let next = service.held.lock().unwrap_or_else(PoisonError::into_inner).next();
        let wait_ms = next.as_ms().saturating_sub(service.clock.now().as_ms());
        let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0)).min(MAX_WAIT);
        let due = service.clock.steady() + wait;
        Self { service, safety, due, failures: 0, at_once: 0 }
    }

    /// How long to wait after an update that succeeded.
    fn wait_after(&mut self, outcome: &FetchResult) -> Duration {
        self.failures = 0;
        let more = outcome.wait.is_zero() || outcome.reset > 0;
        self.at_once = if more { self.at_once + 1 } else { 0 };
        match more {
            true if self.at_once <= MAX_PARALLEL => Duration::ZERO,
            true => A_WHILE,
            false => outcome.wait.min(MAX_WAIT),
        }
    }

    /// How long to wait after an update that failed.
    fn wait_after_failure(&mut self, trouble: &RequestError) -> Duration {
        self.service.counts.failed.fetch_add(1, Ordering::Relaxed);
        // A server that answers with an error is overloaded; one that does not answer may be back
        // soon.
        let (first, longest) = match trouble.answered {
            true => (Duration::from_mins(15), Duration::from_hours(2)),
            false => (A_WHILE, Duration::from_mins(15)),
        };
        let wait = pause(first, self.failures, longest);
        self.failures += 1;
        let (why, wait_s) = (&trouble.why, wait.as_secs());
        tracing::warn!(
            why,
            wait_s,
            "the Safe Browsing lists could not be fetched; the last ones stay in force"
        );
        wait
    }
}

#[async_trait]
impl Job for Updates {
    fn name(&self) -> &'static str {
        "Safe Browsing updates"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        // By the clock of the service, which tests control.
        if self.service.clock.steady() < self.due {
            return Ok(NextRun::Interval);
        }
        let wait = match self.service.update(&self.safety).await {
            Ok(outcome) => self.wait_after(&outcome),
            Err(trouble) => self.wait_after_failure(&trouble),
        };
        self.due = self.service.clock.steady().saturating_add(wait);
        // For the next start, which has another steady clock.
        let due = self.service.clock.now().checked_add(wait).unwrap_or(Timestamp::MAX);
        let service = Arc::clone(&self.service);
        tokio::task::spawn_blocking(move || service.keep_copy(due)).await?;
        Ok(NextRun::Interval)
    }
}

impl SafeBrowsingService {
    async fn update(self: &Arc<Self>, safety: &Arc<Safety>) -> Result<FetchResult, RequestError> {
        let lists = self.held.lock().unwrap_or_else(PoisonError::into_inner).lists().to_vec();
        let answer = self.client.updates(&lists).await?;
        drop(lists);
        let (service, safety) = (Arc::clone(self), Arc::clone(safety));
        let taken = tokio::task::spawn_blocking(move || service.take(&safety, &answer)).await;
        taken.unwrap_or_else(|error| Err(error.to_string())).map_err(RequestError::answer)
    }

    fn take(&self, safety: &Safety, answer: &[u8]) -> Result<FetchResult, String> {
        let updates = read_updates(answer).map_err(|error| error.to_string())?;
        let now = self.clock.now();
        let outcome = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = held.take(&updates, now)?;
            match (outcome.reset, outcome.changed) {
                (1.., _) => {}
                (0, true) => self.known.replace(held.lists(), now),
                (0, false) => self.known.confirm(now),
            }
            outcome
        };
        let counter = match (outcome.reset, outcome.changed) {
            (1.., _) => &self.counts.reset,
            (0, true) => &self.counts.changed,
            (0, false) => &self.counts.unchanged,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if outcome.changed {
            tracing::info!(entries = self.known.len(), "loaded new Safe Browsing lists");
            self.screen.bump_version();
        }
        if outcome.changed || outcome.back {
            safety.announce();
        }
        Ok(outcome)
    }

    fn keep_copy(&self, due: Timestamp) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.wait(due);
        if let Err(error) = held.keep() {
            tracing::warn!(%error, "the Safe Browsing lists could not be saved; after a restart \
                they have to be fetched again");
        }
    }
}
