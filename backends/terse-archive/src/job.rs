//! The job that copies finished hours of clicks into files. Runs under the lease.
//!
//! Effects on the storage cannot be fenced. So every write can be repeated: a file is named by the
//! range of time that it holds, and its content is that of the click store. The length of the
//! ranges is written into the registry, under the fence, before the first file of an hour.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use terse_core::clicks::{ClickStore, ClickSubject, Period, PeriodQuery, Unit};
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{FencingToken, JobProgress};
use terse_core::{BoxError, Clock, ClockGuard, Timestamp};

use crate::counts::ArchiveCounts;
use crate::late::LateHourRetries;
use crate::layout::{FileRange, ROOT, day_folder, range_length, ranges_of_hour};
use crate::parquet_file;
use crate::progress::{CopiedHour, JOB, Progress};
use crate::range_reader::RangeReader;
use crate::storage::{Storage, Written};
use crate::table::ClickTable;

const INTERVAL: Duration = Duration::from_mins(5);
/// Nodes have this long after an hour to ship its clicks. Later ones are copied too, but the file
/// is written again for them.
const SETTLED_AFTER: Duration = Duration::from_mins(10);
/// Clicks that are read at a time.
const PAGE: usize = 50_000;
/// The store may delete single clicks of an hour this long before `keep_raw` says so: clocks
/// differ.
const RETENTION_MARGIN: Duration = Duration::from_hours(2);
const RUN_TIMEOUT: Duration = Duration::from_hours(6);

/// What the job needs.
pub struct ArchiveJobParts {
    /// The clicks.
    pub clicks: Arc<dyn ClickStore>,
    /// The job's progress.
    pub registry: Arc<dyn JobProgress>,
    /// Where the files go.
    pub storage: Storage,
    /// How long the click store keeps single clicks.
    pub keep_raw: Duration,
    /// How long the archive keeps files; forever without it.
    pub keep: Option<Duration>,
    /// The time.
    pub clock: Clock,
    /// The counters.
    pub counts: Arc<ArchiveCounts>,
}

/// Copies finished hours of clicks into files, and takes erased clicks out of them.
pub struct ArchiveJob {
    pub(crate) parts: ArchiveJobParts,
    pub(crate) late: LateHourRetries,
    guard: ClockGuard,
}

/// The outcome of copying a range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CopyResult {
    /// The file has all clicks of the store; this many.
    Whole(u64),
    /// The file has more clicks than the store still has, and stays as it is.
    NotReplaced,
}

impl ArchiveJob {
    /// The job.
    pub fn new(parts: ArchiveJobParts) -> Self {
        Self { parts, late: LateHourRetries::default(), guard: ClockGuard::default() }
    }

    async fn copy_new_hours(
        &self,
        context: &JobContext,
        token: FencingToken,
        progress: &mut Progress,
    ) -> Result<(), BoxError> {
        let parts = &self.parts;
        let mut is_saved = true;
        loop {
            let now = parts.clock.now();
            let oldest = Unit::Hour.floor(self.kept_from(now));
            let next = progress.next_hour.map_or(oldest, Timestamp::from_ms).max(oldest);
            let end = Timestamp::from_ms(next.as_ms() + Unit::Hour.ms());
            if now.saturating_sub(SETTLED_AFTER) < end {
                parts.counts.set_copied_to(next);
                return match is_saved {
                    true => Ok(()),
                    false => Ok(progress.save(&*parts.registry, token).await?),
                };
            }
            let copied = self.copy_hour(context, token, progress, next).await?;
            progress.next_hour = Some(end.as_ms());
            // Many hours without a click, as at the first run, are one write.
            is_saved = copied != CopyResult::Whole(0);
            if is_saved {
                progress.save(&*parts.registry, token).await?;
            }
            parts.counts.set_copied_to(end);
        }
    }

    /// The time from which on the store surely has all single clicks.
    pub(crate) fn kept_from(&self, now: Timestamp) -> Timestamp {
        now.saturating_sub(self.parts.keep_raw.saturating_sub(RETENTION_MARGIN))
    }

    /// Copies an hour. Its progress is changed; the caller saves it.
    pub(crate) async fn copy_hour(
        &self,
        context: &JobContext,
        token: FencingToken,
        progress: &mut Progress,
        hour: Timestamp,
    ) -> Result<CopyResult, BoxError> {
        let parts = &self.parts;
        // Before the clicks: one that comes in between makes the sum differ, and the hour is copied
        // again.
        let counted = self.counted(hour).await?;
        let seconds = match progress.hour(hour) {
            Some(CopiedHour { seconds, .. }) => seconds,
            None if counted == 0 => return Ok(CopyResult::Whole(0)),
            None => {
                let seconds = range_length(counted);
                progress.set_hour(hour, CopiedHour { seconds, counted: None });
                progress.save(&*parts.registry, token).await?;
                seconds
            }
        };
        let (mut clicks, mut kept) = (0, false);
        for range in ranges_of_hour(hour, seconds) {
            match self.copy_range(context, range).await? {
                CopyResult::Whole(count) => clicks += count,
                CopyResult::NotReplaced => kept = true,
            }
        }
        parts.counts.hours.fetch_add(1, Ordering::Relaxed);
        if kept {
            return Ok(CopyResult::NotReplaced);
        }
        progress.set_hour(hour, CopiedHour { seconds, counted: Some(counted) });
        tracing::debug!(%hour, clicks, "copied an hour of clicks to the archive");
        Ok(CopyResult::Whole(clicks))
    }

    /// How many clicks the sums have in an hour, or in its day if hours are not kept any more.
    async fn counted(&self, hour: Timestamp) -> Result<u64, BoxError> {
        let end = Timestamp::from_ms(hour.as_ms() + Unit::Hour.ms());
        let period = Period { from: Some(hour), to: Some(end) };
        let clicks = &self.parts.clicks;
        let report = clicks.report(&ClickSubject::Everything, period, hour).await?;
        Ok(report.buckets.iter().map(|bucket| bucket.clicks.all()).sum())
    }

    /// Copies the clicks of a range of time.
    async fn copy_range(
        &self,
        context: &JobContext,
        range: FileRange,
    ) -> Result<CopyResult, BoxError> {
        let Self { parts: ArchiveJobParts { storage, counts, .. }, .. } = self;
        // Before the clicks: a file that another node writes after them is newer.
        let name = range.name();
        let existing = storage.head(&name).await?;
        let table = self.read(range).await?;
        let clicks = table.rows.len() as u64;
        if let Some(existing) = &existing {
            let file = RangeReader::open(storage, existing).await?;
            let held = blocking(move || Ok(parquet_file::ClickFile::open(file)?.len())).await?;
            if held > clicks {
                tracing::warn!(
                    file = name,
                    held,
                    stored = clicks,
                    "the archive has more clicks than the click store still has: the file stays"
                );
                return Ok(CopyResult::NotReplaced);
            }
        }
        if clicks == 0 {
            return Ok(CopyResult::Whole(0));
        }
        let content = blocking(move || encode(table)).await?;
        context.check_lease().await?;
        let octets = content.len() as u64;
        if storage.put_over(existing.as_ref(), &name, content).await? != Written::Same {
            counts.files.fetch_add(1, Ordering::Relaxed);
            counts.octets.fetch_add(octets, Ordering::Relaxed);
            counts.clicks.fetch_add(clicks, Ordering::Relaxed);
        }
        Ok(CopyResult::Whole(clicks))
    }

    /// All clicks that the store has of a range of time.
    async fn read(&self, range: FileRange) -> Result<ClickTable, BoxError> {
        let mut table = ClickTable::default();
        let (from, to) = (range.from, range.to());
        let mut query = PeriodQuery { from, to, after: None, limit: PAGE };
        loop {
            let page = self.parts.clicks.clicks_between(&query).await?;
            page.clicks.iter().for_each(|click| table.push(click));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(table),
            }
        }
    }

    /// Deletes the files of days that ended longer ago than the archive keeps them.
    async fn expire(&mut self, context: &JobContext, progress: &Progress) -> Result<(), BoxError> {
        let Some(keep) = self.parts.keep else { return Ok(()) };
        let ArchiveJobParts { clock, storage, counts, .. } = &self.parts;
        let now = clock.now();
        let newest = progress.next_hour.map(Timestamp::from_ms);
        if let Err(problem) = self.guard.check(now, clock.steady(), newest) {
            tracing::warn!(%problem, "no file of the archive is deleted by its age for now");
            return Ok(());
        }
        let first_kept = day_folder(Unit::Day.floor(now.saturating_sub(keep)));
        let first_kept = first_kept.trim_start_matches(ROOT).trim_start_matches('/');
        for day in storage.folders(ROOT).await? {
            if !day.starts_with("day=") || day.as_str() >= first_kept {
                continue;
            }
            context.check_lease().await?;
            for object in storage.list(&format!("{ROOT}/{day}")).await? {
                if FileRange::parse(&object.name).is_some() {
                    storage.delete(&object.name).await?;
                    counts.expired.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    async fn run_once(&mut self, context: &JobContext) -> Result<(), BoxError> {
        let token = context.token().ok_or("the archive needs the lease")?;
        let mut progress = Progress::load(&*self.parts.registry).await?;
        let copied = self.copy_new_hours(context, token, &mut progress).await;
        // Whatever fails, erased clicks do not stay. Before late hours: a file must not seem to
        // hold more clicks than the store because of erased ones.
        let erased = self.erase(context, token, &mut progress).await;
        copied.and(erased)?;
        self.copy_late_hours(context, token, &mut progress).await?;
        self.expire(context, &progress).await
    }
}

/// A file with the clicks of a table.
pub(crate) fn encode(mut table: ClickTable) -> Result<Bytes, BoxError> {
    table.sort();
    Ok(parquet_file::write(&table)?)
}

/// Runs work that computes or waits on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BoxError> + Send + 'static,
) -> Result<T, BoxError> {
    tokio::task::spawn_blocking(work).await?
}

#[async_trait]
impl Job for ArchiveJob {
    fn name(&self) -> &'static str {
        JOB
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    fn timeout(&self) -> Duration {
        RUN_TIMEOUT
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let done = self.run_once(context).await;
        if done.is_err() {
            self.parts.counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        done.map(|()| NextRun::Interval)
    }
}
