//! The re-scan: yesterday's clean link is judged again when the lists have changed, and now and
//! then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use terse_core::{
    Caller, Clock, Cursor, LinkError, Links, ListQuery, ModerationStatus, Sort, StoreError,
    Timestamp,
};
use tokio::sync::watch;

use crate::safety::{Fingerprint, Safety};

mod progress;

use progress::Done;
pub(crate) use progress::Progress;

/// Links read at once. Few enough that no visitor whose link has to be looked up waits long behind
/// them.
const PAGE: usize = 500;
/// Writes under way at once: the store takes them together, and others' find room between them.
const WRITES: usize = 32;
/// After a failure.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// How often it is looked whether a round is due.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How often in a row a round may begin anew because the lists changed again. Beyond it the oldest
/// links would never be seen.
const MAX_RESTARTS: u32 = 3;

/// Judges all links again.
pub(crate) struct Rescan {
    /// The links and their rules.
    pub(crate) links: Arc<Links>,
    /// The lists that links should have been judged by.
    pub(crate) safety: Arc<Safety>,
    /// How old a judgement may become though no list changes.
    pub(crate) every: Duration,
    /// The time.
    pub(crate) clock: Clock,
    /// Which scan was completed last.
    pub(crate) progress: Progress,
    /// What was done.
    pub(crate) counts: Arc<RescanCounts>,
}

/// What the re-scan has done so far.
#[derive(Debug, Default)]
pub(crate) struct RescanCounts {
    /// Rounds that reached the end.
    pub(crate) rounds: AtomicU64,
    /// Links judged.
    pub(crate) judged: AtomicU64,
    /// Links taken down.
    pub(crate) blocked: AtomicU64,
    /// Links that got a warning page.
    pub(crate) warned: AtomicU64,
    /// Links that redirect again, or got other flags.
    pub(crate) cleared: AtomicU64,
    /// Times the store failed.
    pub(crate) failed: AtomicU64,
}

/// How far a round has come.
#[derive(Default)]
struct Round {
    after: Option<Cursor>,
    judged: u64,
    changed: u64,
}

impl Rescan {
    /// Judges whenever it is due, until told to stop.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut changes = self.safety.changes();
        let mut done = self.progress.read().await;
        let (mut round, mut restarts) = (Round::default(), 0);
        loop {
            let lists = *changes.borrow_and_update();
            if !self.is_due(done.as_ref(), &lists) {
                tokio::select! {
                    _ = changes.changed() => {}
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                    _ = stop.wait_for(|stop| *stop) => return,
                }
                continue;
            }
            let (begun, mut news) = (self.clock.now(), changes.clone());
            let again = async {
                match restarts < MAX_RESTARTS {
                    true => drop(news.changed().await),
                    false => std::future::pending().await,
                }
            };
            let ended = tokio::select! {
                ended = self.walk(&mut round) => ended,
                () = again => {
                    (round, restarts) = (Round::default(), restarts + 1);
                    continue;
                }
                _ = stop.wait_for(|stop| *stop) => return,
            };
            if let Err(error) = ended {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, judged = round.judged, "links could not be judged again; \
                    going on in a moment");
                tokio::select! {
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                    _ = stop.wait_for(|stop| *stop) => return,
                }
                continue;
            }
            self.counts.rounds.fetch_add(1, Ordering::Relaxed);
            tracing::info!(
                judged = round.judged,
                changed = round.changed,
                "judged all links again"
            );
            (round, restarts) = (Round::default(), 0);
            let now_done = Done { lists, at: begun.as_ms() };
            if let Err(error) = self.progress.write(&now_done).await {
                tracing::warn!(%error, "the registry does not keep that all links were scanned; \
                    they are scanned again after a restart");
            }
            done = Some(now_done);
        }
    }

    fn is_due(&self, done: Option<&Done>, lists: &Fingerprint) -> bool {
        let fresh = |at: i64| {
            self.clock.now()
                < Timestamp::from_ms(at).checked_add(self.every).unwrap_or(Timestamp::MAX)
        };
        !done.is_some_and(|done| done.lists == *lists && fresh(done.at))
    }

    /// From where the round is to its end. Newest first: what is new is what is abused. Links made
    /// meanwhile were judged by the lists of now.
    async fn walk(&self, round: &mut Round) -> Result<(), LinkError> {
        loop {
            let begun = Instant::now();
            let query = ListQuery {
                after: round.after.clone(),
                ..ListQuery::all(Sort::Newest, PAGE, self.clock.now())
            };
            let page = self.links.list(Caller::OPERATOR, query).await?.page;
            let read = begun.elapsed();
            let (links, count) = (Arc::clone(&self.links), page.links.len() as u64);
            let judge = move || -> Vec<_> {
                page.links.iter().for_each(|link| links.revisit_if_unsure(link));
                page.links
                    .into_iter()
                    .filter(|link| links.screened(link).is_some())
                    .map(|link| link.key)
                    .collect()
            };
            let judged = tokio::task::spawn_blocking(judge).await;
            let differ = judged.map_err(|error| StoreError::Unavailable(error.into()))?;
            let links = Arc::clone(&self.links);
            let rejudge = move |key| {
                let links = Arc::clone(&links);
                // On its own: a round that ends in between must not leave a change that nobody was
                // told of.
                let task = tokio::spawn(async move { links.rejudge(&key).await });
                async move {
                    task.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.into())))
                }
            };
            let mut writes = stream::iter(differ).map(rejudge).buffer_unordered(WRITES);
            while let Some(written) = writes.next().await {
                let link = match written {
                    Ok(Some(link)) => link,
                    Ok(None) => continue,
                    Err(error @ (StoreError::Busy | StoreError::Unavailable(_))) => {
                        return Err(error.into());
                    }
                    // One link that cannot be changed must not stand before all the others.
                    Err(error) => {
                        self.counts.failed.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!(%error, "a link could not be judged again");
                        continue;
                    }
                };
                round.changed += 1;
                let counter = match link.standing {
                    ModerationStatus::Blocked => &self.counts.blocked,
                    ModerationStatus::Suspicious => &self.counts.warned,
                    ModerationStatus::Clear => &self.counts.cleared,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(code = %link.key.code, standing = ?link.standing, "judged a link \
                    otherwise than before");
            }
            let before = round.judged;
            round.judged += count;
            self.counts.judged.fetch_add(count, Ordering::Relaxed);
            if before / 100_000 != round.judged / 100_000 {
                tracing::info!(
                    judged = round.judged,
                    changed = round.changed,
                    "judging all links again"
                );
            }
            match page.next {
                Some(next) => round.after = Some(next),
                None => return Ok(()),
            }
            // At least as long as it took to read: the store is there for others at least half of
            // the time.
            tokio::time::sleep(read.clamp(Duration::from_millis(1), Duration::from_millis(100)))
                .await;
        }
    }
}
