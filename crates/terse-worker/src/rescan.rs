//! The re-scan: screens all links again when the lists have changed, and once in a while.

mod progress;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{FencingToken, JobProgress};
use terse_core::{
    BoxError, Clock, Cursor, Link, Links, ListQuery, ModerationStatus, Sort, StoreError, Timestamp,
};
use tokio::sync::watch;

use progress::{CompletedScan, Progress};

/// Links per read. Few enough that no visitor whose link must be looked up waits long behind them.
const PAGE: usize = 500;
/// Concurrent writes: the store commits them together, and other writes find room between them.
const WRITES: usize = 32;
/// How often the job checks whether a scan is due.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How often in a row a scan may start again because the lists changed. Without a bound the scan
/// would never reach the oldest links.
const MAX_RESTARTS: u32 = 3;

/// Identifies the lists and settings that links are scanned with.
pub type Fingerprint = [u8; 32];

/// What the re-scan needs.
pub struct RescanParts {
    /// The links and their rules.
    pub links: Arc<Links>,
    /// Keeps which scan was completed last.
    pub registry: Arc<dyn JobProgress>,
    /// Where earlier versions kept it.
    pub old_file: PathBuf,
    /// The current lists.
    pub lists: watch::Receiver<Fingerprint>,
    /// How often all links are scanned even if no list changes.
    pub every: Duration,
    /// The time.
    pub clock: Clock,
    /// What the job has done.
    pub counts: Arc<RescanCounts>,
}

/// What the re-scan has done so far.
#[derive(Debug, Default)]
pub struct RescanCounts {
    /// Scans that reached the end.
    pub rounds: AtomicU64,
    /// Links scanned.
    pub scanned: AtomicU64,
    /// Links that the scan blocked.
    pub blocked: AtomicU64,
    /// Links that got a warning page.
    pub warned: AtomicU64,
    /// Links that redirect again, or got other flags.
    pub cleared: AtomicU64,
    /// Times the store failed.
    pub failed: AtomicU64,
}

/// The job. A run scans one page of links, so that the lease and the lists are checked between
/// pages.
pub struct Rescan {
    links: Arc<Links>,
    progress: Progress,
    lists: watch::Receiver<Fingerprint>,
    every: Duration,
    clock: Clock,
    counts: Arc<RescanCounts>,
    /// The token under which the progress was read: another holder may have scanned since.
    token: Option<FencingToken>,
    done: Option<CompletedScan>,
    /// When the next scan is due even if no list changes, by the steady clock.
    due: Duration,
    round: Option<Round>,
    restarts: u32,
}

/// A scan of all links under way.
struct Round {
    lists: Fingerprint,
    begun: Timestamp,
    /// The same by the steady clock.
    steady: Duration,
    after: Option<Cursor>,
    scanned: u64,
    changed: u64,
}

impl Rescan {
    /// Scans as soon as it is due.
    pub fn new(parts: RescanParts) -> Self {
        let RescanParts { links, registry, old_file, lists, every, clock, counts } = parts;
        let progress = Progress::new(registry, old_file);
        let (token, done, due, round, restarts) = (None, None, Duration::ZERO, None, 0);
        Self { links, progress, lists, every, clock, counts, token, done, due, round, restarts }
    }

    /// When the scan after one that began then, by the system time of some node, is due: at the
    /// latest after the whole interval, also if the system time was set back meanwhile.
    fn due_after(&self, at_ms: i64) -> Duration {
        let age_ms = self.clock.now().as_ms().saturating_sub(at_ms);
        let age = Duration::from_millis(u64::try_from(age_ms).unwrap_or(0));
        self.clock.steady().saturating_add(self.every.saturating_sub(age))
    }

    fn is_due(&self, lists: &Fingerprint) -> bool {
        let is_fresh = self.clock.steady() < self.due;
        !self.done.as_ref().is_some_and(|done| done.lists == *lists && is_fresh)
    }

    /// The scan to continue. Starts one if it is due, and again if the lists have changed.
    fn round(&mut self) -> Option<&mut Round> {
        let lists = *self.lists.borrow_and_update();
        let is_outdated = self.round.as_ref().is_some_and(|round| round.lists != lists);
        if is_outdated && self.restarts < MAX_RESTARTS {
            self.restarts += 1;
            self.round = None;
        }
        if self.round.is_none() && self.is_due(&lists) {
            let (begun, steady) = (self.clock.now(), self.clock.steady());
            self.round = Some(Round { lists, begun, steady, after: None, scanned: 0, changed: 0 });
        }
        self.round.as_mut()
    }

    /// Scans links again and returns how many changed.
    async fn scan(&self, context: &JobContext, found: Vec<Link>) -> Result<u64, BoxError> {
        let (links, mut changed) = (Arc::clone(&self.links), 0);
        let scan = move || -> Vec<_> {
            found.iter().for_each(|link| links.queue_rescreen_if_undecided(link));
            found
                .into_iter()
                .filter(|link| links.screened(link).is_some())
                .map(|link| link.key)
                .collect()
        };
        let scanned = tokio::task::spawn_blocking(scan).await;
        let differ = scanned.map_err(|error| StoreError::Unavailable(error.into()))?;
        context.check_lease().await?;
        let links = Arc::clone(&self.links);
        let rescan = move |key| {
            let links = Arc::clone(&links);
            // In a task of its own: a run that is cancelled must not leave a change without its
            // event.
            let task = tokio::spawn(async move { links.rescreen(&key).await });
            async move { task.await.unwrap_or_else(|error| Err(StoreError::Unavailable(error.into()))) }
        };
        let mut writes = stream::iter(differ).map(rescan).buffer_unordered(WRITES);
        while let Some(written) = writes.next().await {
            let link = match written {
                Ok(Some(link)) => link,
                Ok(None) => continue,
                Err(error @ (StoreError::Busy | StoreError::Unavailable(_))) => {
                    return Err(error.into());
                }
                // One link that cannot be changed must not stop the others.
                Err(error) => {
                    self.counts.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%error, "a link could not be scanned again");
                    continue;
                }
            };
            changed += 1;
            let counter = match link.moderation {
                ModerationStatus::Blocked => &self.counts.blocked,
                ModerationStatus::Suspicious => &self.counts.warned,
                ModerationStatus::Clear => &self.counts.cleared,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(code = %link.key.code, moderation = ?link.moderation, "the scan of a \
                link has a new result");
        }
        Ok(changed)
    }

    async fn complete(&mut self, token: FencingToken, round: Round) {
        let Round { lists, begun, steady, scanned, changed, .. } = round;
        self.due = steady.saturating_add(self.every);
        self.counts.rounds.fetch_add(1, Ordering::Relaxed);
        tracing::info!(scanned, changed, "scanned all links");
        self.restarts = 0;
        let done = CompletedScan { lists, at: begun.as_ms() };
        if let Err(error) = self.progress.write(token, &done).await {
            tracing::warn!(%error, "the registry does not keep that all links were scanned; they \
                are scanned again after a restart");
        }
        self.done = Some(done);
    }
}

#[async_trait]
impl Job for Rescan {
    fn name(&self) -> &'static str {
        "rescan"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn wake(&mut self) {
        if self.lists.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let token = context.token().ok_or("the re-scan needs the lease")?;
        if self.token != Some(token) {
            // The next number in a row: this node lost the lease and took it again, and no other
            // node held it meanwhile. The round continues.
            let is_own = self.token.is_some_and(|last| last.number + 1 == token.number);
            if !is_own {
                self.done = self.progress.read(token).await?;
                self.due = self.due_after(self.done.as_ref().map_or(0, |done| done.at));
                (self.round, self.restarts) = (None, 0);
            }
            self.token = Some(token);
        }
        let now = self.clock.now();
        let Some(round) = self.round() else { return Ok(NextRun::Interval) };
        let (after, begun) = (round.after.clone(), Instant::now());
        // Newest first: new links are the ones that are abused. Links that are created meanwhile
        // are scanned with the current lists.
        let query = ListQuery { after, ..ListQuery::all(Sort::Newest, PAGE, now) };
        let scanned = async {
            let page = self.links.list_for_job(query).await?.page;
            let (read, count) = (begun.elapsed(), page.links.len() as u64);
            let changed = self.scan(context, page.links).await?;
            Ok::<_, BoxError>((read, count, page.next, changed))
        };
        let (read, count, next, changed) = match scanned.await {
            Ok(scanned) => scanned,
            Err(error) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                return Err(error);
            }
        };
        self.counts.scanned.fetch_add(count, Ordering::Relaxed);
        let Some(round) = self.round.as_mut() else { return Ok(NextRun::Interval) };
        let before = round.scanned;
        round.scanned += count;
        round.changed += changed;
        if before / 100_000 != round.scanned / 100_000 {
            tracing::info!(scanned = round.scanned, changed = round.changed, "scanning all links");
        }
        round.after = next;
        if round.after.is_none() {
            if let Some(round) = self.round.take() {
                self.complete(token, round).await;
            }
            return Ok(NextRun::After(Duration::ZERO));
        }
        // At least as long as the read took: the store is free for others half of the time.
        Ok(NextRun::After(read.clamp(Duration::from_millis(1), Duration::from_millis(100))))
    }
}
