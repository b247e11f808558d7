//! Google Safe Browsing: fetches the lists, requests full hashes, and scans links again that
//! could not be scanned.
//!
//! A failure here never prevents the creation of a link or a redirect: a link whose target could
//! not be checked is marked and scanned later.

mod client;
mod loaded_list;
mod revisits;
mod updates;

use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use terse_core::job::Job;
use terse_core::{Clock, HttpClient, LinkKey, Links, Secret, Target};
use tokio::sync::mpsc;
use url::Url;

use super::SafeBrowsing;
use crate::{Safety, Screen};
use client::{Client, RequestError};
use loaded_list::LoadedHashLists;
use revisits::{Revisit, Revisits};
use updates::Updates;

/// How long the creation of a link waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How often jobs check whether something is due. They use the clock of the service, which tests
/// control.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How many links may wait to be scanned again. The next re-scan finds those beyond it.
const MAX_REVISITS: usize = 10_000;
/// How many prefixes one request contains. The protocol allows a thousand, but they have to fit
/// into a URL.
const MAX_ASKED: usize = 100;

/// How the server is reached.
#[derive(Clone)]
pub struct SafeBrowsingSettings {
    /// The key.
    pub key: Secret,
    /// The server; Google's if `None`.
    pub url: Option<Url>,
    /// Sends the requests.
    pub client: Arc<dyn HttpClient>,
}

/// The Safe Browsing service of this process.
pub struct SafeBrowsingService {
    known: Arc<SafeBrowsing>,
    screen: Arc<Screen>,
    client: Client,
    clock: Clock,
    held: Mutex<LoadedHashLists>,
    /// Counters of requests and results.
    pub counts: SafeBrowsingCounts,
    queue: mpsc::Sender<Revisit>,
    waiting: Mutex<Option<mpsc::Receiver<Revisit>>>,
    /// No request is sent before this time, because the server has failed to answer.
    quiet_until_ms: AtomicI64,
    failures: AtomicU64,
}

/// Counters of requests and results.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each comment is about all counters up to the next one")]
pub struct SafeBrowsingCounts {
    /// Updates that changed a list, changed nothing, required a full fetch, or failed.
    pub changed: AtomicU64,
    pub unchanged: AtomicU64,
    pub reset: AtomicU64,
    pub failed: AtomicU64,
    /// Searches that succeeded, failed, or were not sent during a pause.
    pub answered: AtomicU64,
    pub unanswered: AtomicU64,
    pub unasked: AtomicU64,
    /// Links scanned again with an answer, given up, or dropped because the queue was full.
    pub revisited: AtomicU64,
    pub given_up: AtomicU64,
    pub dropped: AtomicU64,
}

impl SafeBrowsingService {
    /// Opens the service with the lists from the copy on disk.
    pub(crate) fn open(
        settings: SafeBrowsingSettings,
        folder: &Path,
        known: Arc<SafeBrowsing>,
        screen: Arc<Screen>,
        clock: &Clock,
    ) -> Self {
        let held = LoadedHashLists::read(folder);
        if let Some(confirmed) = held.confirmed() {
            known.replace(held.lists(), confirmed);
        }
        let (queue, waiting) = mpsc::channel(MAX_REVISITS);
        Self {
            known,
            screen,
            client: Client::new(settings),
            clock: clock.clone(),
            held: Mutex::new(held),
            counts: SafeBrowsingCounts::default(),
            queue,
            waiting: Mutex::new(Some(waiting)),
            quiet_until_ms: AtomicI64::new(i64::MIN),
            failures: AtomicU64::new(0),
        }
    }

    /// The jobs that update the lists and scan links again that could not be scanned.
    pub(crate) fn jobs(
        self: &Arc<Self>,
        safety: &Arc<Safety>,
        links: &Arc<Links>,
    ) -> Vec<Box<dyn Job>> {
        let updates = Updates::new(Arc::clone(self), Arc::clone(safety));
        let mut jobs: Vec<Box<dyn Job>> = vec![Box::new(updates)];
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            jobs.push(Box::new(Revisits::new(Arc::clone(self), Arc::clone(links), waiting)));
        }
        jobs
    }

    /// Identifies the lists that targets are scanned with.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).fingerprint()
    }

    /// The lists and cached hashes.
    pub fn known(&self) -> &SafeBrowsing {
        &self.known
    }

    /// Asks the server about a target if the lists require it, and waits up to `TIMEOUT`.
    pub(crate) async fn prepare(self: &Arc<Self>, target: &Target) {
        let wanted = self.known.unknown_prefixes(target);
        if wanted.is_empty() {
            return;
        }
        // In its own task: an answer that arrives too late for this link is cached for its next
        // screening.
        let service = Arc::clone(self);
        let asking = tokio::spawn(async move { service.ask(&wanted).await });
        let _in_time = tokio::time::timeout(TIMEOUT, asking).await;
    }

    /// Whether the server must be asked about this target.
    pub(crate) fn needs_lookup(&self, target: &Target) -> bool {
        !self.known.unknown_prefixes(target).is_empty()
    }

    /// Queues a link to be scanned again when the server has answered.
    pub(crate) fn revisit(&self, key: &LinkKey, target: &Target) {
        if self.queue.try_send(Revisit { key: key.clone(), target: target.clone() }).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Fetches the full hashes with these prefixes. Returns whether the server answered for all.
    async fn ask(&self, wanted: &[u32]) -> bool {
        for some in wanted.chunks(MAX_ASKED) {
            if self.is_quiet() {
                self.counts.unasked.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            let learned = match self.client.search(some).await {
                Ok(answer) => self
                    .known
                    .store_response(some, &answer)
                    .map_err(|error| RequestError::answer(error.to_string())),
                Err(trouble) => Err(trouble),
            };
            match learned {
                Ok(learned) => {
                    self.counts.answered.fetch_add(1, Ordering::Relaxed);
                    self.failures.store(0, Ordering::Relaxed);
                    if learned.threats > 0 {
                        self.screen.bump_version();
                    }
                }
                Err(trouble) => {
                    self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
                    self.be_quiet(&trouble);
                    return false;
                }
            }
        }
        true
    }

    fn is_quiet(&self) -> bool {
        self.clock.steady_micros() / 1000 < self.quiet_until_ms.load(Ordering::Relaxed)
    }

    fn be_quiet(&self, trouble: &RequestError) {
        if trouble.is_ours {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let pause = pause(Duration::from_secs(30), failures, Duration::from_mins(30));
        let until = self.clock.steady().saturating_add(pause).as_millis();
        let until = i64::try_from(until).unwrap_or(i64::MAX);
        self.quiet_until_ms.store(until, Ordering::Relaxed);
        let (why, pause) = (&trouble.why, pause.as_secs());
        tracing::warn!(
            why,
            pause,
            "Safe Browsing does not answer; new links that it may know are flagged `unscreened`"
        );
    }
}

/// The pause after a number of failures in a row: it doubles each time, plus up to as much again at
/// random, so that nodes do not retry together.
fn pause(first: Duration, failures: u64, longest: Duration) -> Duration {
    let doubled = first.saturating_mul(1 << failures.min(16)).min(longest);
    let chance = getrandom::u32().unwrap_or(0) % 1000;
    doubled + doubled * chance / 1000
}
