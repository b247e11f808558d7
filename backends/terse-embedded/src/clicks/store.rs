//! The store of clicks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use terse_core::clicks::{
    Added, Batch, ClickExport, ClickIngest, ClickPage, ClickReport, ClickReports, ClickRetention,
    ClickSubject, Count, ErasedLink, Forgotten, JournalId, LinkId, Opened, Period, PeriodQuery,
    Pruned, RankedLink, RawQuery, ReportSnapshot, Retention, Salt, TopQuery,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};

use crate::backup::BackupError;
use crate::clicks::options::ClickOptions;
use crate::clicks::queries::ClickQueries;
use crate::clicks::runs::RunLimits;
use crate::clicks::schema::CLICKS;
use crate::clicks::writes::ClickWrites;
use crate::database::Database;
use crate::disk_reserve::DiskReserve;
use crate::engine::{self, DbLocation};
use crate::failure::Failure;
use crate::options::EmbeddedOpenError;
use crate::threads::{ReadPool, StoreThreads};

/// A large batch takes long on a slow disk, and no visitor waits for it.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How many reports may wait.
const REPORTS: usize = 1024;
const READ: usize = 0;
/// Jobs run in steps of this many rows or links, so that a batch never waits long behind one.
const BATCH: usize = 2000;
const LINKS_A_STEP: usize = 200;

/// Clicks in one SQLite file. Dropping it finishes the waiting work.
pub struct EmbeddedClicks {
    site: DbLocation,
    threads: StoreThreads<Clicks>,
    /// A batch with at least this many subjects leaves a run of sums.
    run_from: usize,
    /// Whether the log may still hold a deleted salt.
    to_wipe: AtomicBool,
}

/// The data that this store's threads share.
#[derive(Clone)]
pub(crate) struct Clicks {
    site: DbLocation,
    /// `None` if only sums are kept.
    raw: Option<Arc<DiskReserve>>,
    runs: RunLimits,
}

impl Database for Clicks {
    type Queries = ClickQueries;
    type Writes = ClickWrites;
    const NAME: &'static str = "clicks";
    const MAX_WRITES_PER_COMMIT: usize = 16;
    // The same rows change in batch after batch, so rare checkpoints copy each page less often. No
    // caller waits for them.
    const CHECKPOINT_PAGES: u32 = 8000;

    fn site(&self) -> &DbLocation {
        &self.site
    }

    fn queries(&self, conn: Connection) -> ClickQueries {
        ClickQueries::new(conn)
    }

    fn writes(&self, conn: Connection) -> rusqlite::Result<ClickWrites> {
        let mut writes = ClickWrites::new(self.queries(conn), self.raw.clone())?;
        writes.limits = self.runs;
        Ok(writes)
    }
}

impl EmbeddedClicks {
    /// Opens the store, creating it if it is missing. Blocks: not for async threads.
    pub fn open(options: ClickOptions) -> Result<Self, EmbeddedOpenError> {
        let site = options.site();
        let first = ClickQueries::new(CLICKS.open(&site)?);
        first.make_missing_keys().map_err(Failure::into_engine)?;
        engine::sync_folder_of(&site.path)?;
        let pools = [ReadPool {
            name: "read",
            threads: options.readers.max(1),
            bound: REPORTS,
            at_once: 1,
        }];
        let raw = options.keep_raw.then_some(options.reserve);
        let runs = options.runs;
        let database = Clicks { site: site.clone(), raw, runs };
        let threads = StoreThreads::start(&database, options.queue, TIMEOUT, &pools)?;
        // Closed last, so that SQLite never deletes the log between two connections.
        drop(first);
        // A killed process may have left a deleted salt in the log.
        Ok(Self { site, threads, run_from: runs.from, to_wipe: AtomicBool::new(true) })
    }

    /// Finishes the waiting work and closes the file. Later calls get `Unavailable`. Blocks until
    /// done.
    pub fn close(&self) {
        self.threads.close();
    }

    /// Empties the log if it may still hold a deleted salt. If a reader prevents that, the next
    /// call tries again.
    async fn wipe(&self) {
        if !self.to_wipe.load(Ordering::Relaxed) {
            return;
        }
        let site = self.site.clone();
        let emptied = tokio::task::spawn_blocking(move || engine::empty_log(&site)).await;
        match emptied {
            Ok(Ok(true)) => self.to_wipe.store(false, Ordering::Relaxed),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the log of the clicks may still hold a deleted salt; \
                    trying again later");
            }
            Err(_stopping) => {}
        }
    }

    /// Merges some of the runs that batches left, if there are many: twice as many sums as came
    /// with the last batch. While runs of high levels are merged, those of low ones wait; the more
    /// wait, the more is merged.
    async fn merge_some(&self, sums: u64) {
        let mut merged = 0;
        loop {
            match self.threads.write(ClickWrites::merge_runs_if_due).await {
                Ok(Some(step)) => {
                    merged += step.read.max(1);
                    if merged >= sums * step.piled.max(2) {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // The batch is stored, and its run is merged after a later one.
                    tracing::debug!(%error, "sums of clicks are merged later");
                    return;
                }
            }
        }
    }

    /// The salts that earlier versions kept in this file, by day.
    pub async fn old_salts(&self) -> Result<Vec<(i64, Salt)>, StoreError> {
        self.threads.read(READ, ClickQueries::old_salts).await
    }

    /// Deletes the salts that earlier versions kept in this file, from its log as well.
    pub async fn delete_old_salts(&self) -> Result<(), StoreError> {
        self.threads.write(|writes| writes.delete_old_salts()).await?;
        self.to_wipe.store(true, Ordering::Relaxed);
        self.wipe().await;
        Ok(())
    }

    /// How many writes are waiting.
    pub fn queue_depth(&self) -> usize {
        self.threads.queue_depth()
    }

    /// How many bytes the store takes on the disk, its log included.
    pub fn disk_size(&self) -> u64 {
        self.site.disk_size()
    }

    /// Copies the store as it is now into a new file, while it stays in use. Blocks until done.
    pub fn backup(&self, to: &Path) -> Result<(), BackupError> {
        crate::clicks::backup_clicks(&self.site.path, to)
    }
}

impl std::fmt::Debug for EmbeddedClicks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedClicks").field("path", &self.site.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl ClickIngest for EmbeddedClicks {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        self.threads.write(move |writes| writes.open_journal(journal)).await
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        // While writes fail, retries after timeouts would fill the queue.
        self.threads.check()?;
        let (adding, sums) = (Arc::clone(batch), batch.sums.len());
        let added = self.threads.write(move |writes| writes.add(&adding)).await?;
        if sums >= self.run_from {
            self.merge_some(sums as u64).await;
        }
        Ok(added)
    }

    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        let segments = segments.to_vec();
        self.threads
            .write(move |writes| writes.forget_positions(journal, epoch, generation, &segments))
            .await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.threads.check()
    }
}

#[async_trait]
impl ClickReports for EmbeddedClicks {
    async fn counts_with(
        &self,
        links: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<Count>>, StoreError> {
        let links = links.to_vec();
        self.threads
            .read(READ, move |queries| {
                let answer = queries.counts(&links)?;
                Ok(ReportSnapshot { answer, positions: queries.positions(journal)? })
            })
            .await
    }

    async fn report_with(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<ClickReport>, StoreError> {
        let subject = subject.clone();
        self.threads
            .read(READ, move |queries| {
                let answer = queries.report(&subject, period, now)?;
                Ok(ReportSnapshot { answer, positions: queries.positions(journal)? })
            })
            .await
    }

    async fn top_with(
        &self,
        query: &TopQuery,
        also: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<RankedLink>>, StoreError> {
        let (query, also) = (query.clone(), also.to_vec());
        self.threads
            .read(READ, move |queries| {
                let answer = queries.top(&query, &also)?;
                Ok(ReportSnapshot { answer, positions: queries.positions(journal)? })
            })
            .await
    }

    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError> {
        let query = query.clone();
        self.threads.read(READ, move |queries| queries.clicks(&query)).await
    }

    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError> {
        let after = after.cloned();
        self.threads.read(READ, move |queries| queries.links(after.as_ref(), limit)).await
    }
}

#[async_trait]
impl ClickExport for EmbeddedClicks {
    async fn clicks_between(&self, query: &PeriodQuery) -> Result<ClickPage, StoreError> {
        let query = *query;
        self.threads.read(READ, move |queries| queries.clicks_between(&query)).await
    }

    async fn erased_links(
        &self,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, StoreError> {
        let after = after.cloned();
        let read = move |queries: &ClickQueries| queries.erased_links(since, after.as_ref(), limit);
        self.threads.read(READ, read).await
    }

    async fn erased_owners(&self, since: Timestamp) -> Result<Vec<OwnerId>, StoreError> {
        self.threads.read(READ, move |queries| queries.erased_owners(since)).await
    }
}

#[async_trait]
impl ClickRetention for EmbeddedClicks {
    async fn scrub(&self) -> Result<(), StoreError> {
        engine::scrub(&self.site).await
    }

    async fn erase_links(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), StoreError> {
        for some in links.chunks(LINKS_A_STEP) {
            let some = some.to_vec();
            self.threads
                .write(move |writes| writes.erase_links(&some, created_by, erased_at))
                .await?;
        }
        Ok(())
    }

    async fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) -> Result<(), StoreError> {
        while !self
            .threads
            .write(move |writes| writes.erase_owner(owner, erased_at, LINKS_A_STEP))
            .await?
        {}
        // Single clicks are in blocks with those of others.
        while self.threads.write(ClickWrites::clean_blocks).await? {}
        Ok(())
    }

    async fn forget_logs(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.threads.write(move |writes| writes.forget_logs(before)).await
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned, StoreError> {
        self.wipe().await;
        let mut all = Pruned { more: true, ..Pruned::default() };
        let mut left = retention.limit.max(1);
        while left > 0 && all.more {
            let step = left.min(BATCH);
            let pruned = self.threads.write(move |writes| writes.prune(&retention, step)).await?;
            all.raw += pruned.raw;
            all.hours += pruned.hours;
            all.tombstones += pruned.tombstones;
            all.more = pruned.more;
            // Whole blocks may go at once.
            let rows = (pruned.raw + pruned.hours + pruned.tombstones) as usize;
            left = left.saturating_sub(rows.max(1));
        }
        Ok(all)
    }
}
