//! Following the server's lists.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use terse_core::Timestamp;
use terse_safety::safe_browsing::read_updates;
use tokio::sync::watch;

use super::client::Trouble;
use super::loaded_list::FetchResult;
use super::{POLL_INTERVAL, Safety, Service, pause};

/// A server that has more to say at once may say so this often in a row.
const MAX_PARALLEL: u32 = 8;
/// If it says so for longer, or a list will not become the server's.
const A_WHILE: Duration = Duration::from_mins(1);
/// However long a server wants us to wait, by then the lists would be too old.
const MAX_WAIT: Duration = Duration::from_hours(12);

impl Service {
    /// Asks whenever it is due, until told to stop.
    pub(super) async fn follow(
        self: Arc<Self>,
        safety: Arc<Safety>,
        mut stop: watch::Receiver<bool>,
    ) {
        let latest = self.clock.now().checked_add(MAX_WAIT).unwrap_or(Timestamp::MAX);
        let mut due = self.held.lock().unwrap_or_else(PoisonError::into_inner).next().min(latest);
        let (mut failures, mut at_once) = (0, 0);
        loop {
            if self.clock.now() >= due {
                let asked = tokio::select! {
                    asked = self.update(&safety) => asked,
                    _ = stop.wait_for(|stop| *stop) => return,
                };
                let wait = match asked {
                    Ok(outcome) => {
                        failures = 0;
                        let more = outcome.wait.is_zero() || outcome.reset > 0;
                        at_once = if more { at_once + 1 } else { 0 };
                        match more {
                            true if at_once <= MAX_PARALLEL => Duration::ZERO,
                            true => A_WHILE,
                            false => outcome.wait.min(MAX_WAIT),
                        }
                    }
                    Err(trouble) => {
                        self.counts.failed.fetch_add(1, Ordering::Relaxed);
                        // Who answers with an error has too many visitors; who does not answer may
                        // be back soon.
                        let (first, longest) = match trouble.answered {
                            true => (Duration::from_mins(15), Duration::from_hours(2)),
                            false => (A_WHILE, Duration::from_mins(15)),
                        };
                        let wait = pause(first, failures, longest);
                        failures += 1;
                        let (why, wait_s) = (&trouble.why, wait.as_secs());
                        tracing::warn!(
                            why,
                            wait_s,
                            "the Safe Browsing lists could not be fetched; the last ones stay in \
                             force"
                        );
                        wait
                    }
                };
                due = self.clock.now().checked_add(wait).unwrap_or(Timestamp::MAX);
                let service = Arc::clone(&self);
                let _kept = tokio::task::spawn_blocking(move || service.keep_copy(due)).await;
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn update(self: &Arc<Self>, safety: &Arc<Safety>) -> Result<FetchResult, Trouble> {
        let lists = self.held.lock().unwrap_or_else(PoisonError::into_inner).lists().to_vec();
        let answer = self.client.updates(&lists).await?;
        drop(lists);
        let (service, safety) = (Arc::clone(self), Arc::clone(safety));
        let taken = tokio::task::spawn_blocking(move || service.take(&safety, &answer)).await;
        taken.unwrap_or_else(|error| Err(error.to_string())).map_err(Trouble::answer)
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
            tracing::info!(entries = self.known.len(), "took new Safe Browsing lists");
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
            tracing::warn!(%error, "the Safe Browsing lists could not be kept; after a restart \
                they have to be fetched again");
        }
    }
}
