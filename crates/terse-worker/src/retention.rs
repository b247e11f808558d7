//! Retention: deletes rows of the registry and clicks after the time they are kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::{ClickStore, LinkId, Pruned, Retention};
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::RegistryMaintenance;
use terse_core::{BoxError, Clock, LinkStore, Timestamp};
use tokio::time::{Instant, sleep};

use crate::removal_guard::{RemovalGuard, RetentionKind};

/// How often the registry is pruned.
const REGISTRY_INTERVAL: Duration = Duration::from_mins(15);
/// How long closed reports and the audit log are kept.
const KEEP_RECORDS: Duration = Duration::from_hours(2 * 365 * 24);
/// Rows per write, so that no other writer waits long for the registry.
const REGISTRY_BATCH: usize = 1000;
/// Clicks per write, so that no batch of new clicks waits long.
const CLICK_BATCH: usize = 2000;
/// How long an imported log of a CDN is recognised after its last import.
const KEEP_LOGS: Duration = Duration::from_hours(180 * 24);
/// The sums of a day are written this long after its end: clicks that come later cost more.
const LATE_CLICKS: Duration = Duration::from_hours(1);
/// The pause between two writes: new clicks and requests go first.
const PAUSE: Duration = Duration::from_millis(5);
/// When after the start, and how often, the click store is compared with the links.
const FIRST_SWEEP: Duration = Duration::from_mins(10);
const SWEEP: Duration = Duration::from_hours(24);
const SWEEP_RETRY: Duration = Duration::from_hours(1);
/// Links per comparison.
const SWEEP_BATCH: usize = 500;

/// Deletes sessions, invitations, closed reports and audit records whose time is over.
pub struct RegistryRetention {
    /// What is pruned.
    pub registry: Arc<dyn RegistryMaintenance>,
    /// Gives the time to delete by.
    pub guard: Arc<RemovalGuard>,
}

#[async_trait]
impl Job for RegistryRetention {
    fn name(&self) -> &'static str {
        "registry retention"
    }

    fn interval(&self) -> Duration {
        REGISTRY_INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let batch = REGISTRY_BATCH;
        loop {
            context.check_lease().await?;
            let Some(now) = self.guard.time(context).await? else { return Ok(NextRun::Interval) };
            let pruned = self.registry.prune(context.token(), now, KEEP_RECORDS, batch).await?;
            if pruned < batch as u64 {
                return Ok(NextRun::Interval);
            }
            sleep(PAUSE).await;
        }
    }
}

/// Deletes single clicks and hourly sums whose time is over, and the clicks of links that no longer
/// exist.
pub struct ClickRetentionJob {
    clicks: Arc<dyn ClickStore>,
    links: Arc<dyn LinkStore>,
    clock: Clock,
    guard: Arc<RemovalGuard>,
    settings: ClickRetentionSettings,
    counts: Arc<ClickRetentionCounts>,
    sweep_at: Instant,
    /// Where a sweep that was interrupted continues.
    swept_to: Option<LinkId>,
}

/// How long clicks are kept.
#[derive(Clone, Copy, Debug)]
pub struct ClickRetentionSettings {
    /// How often the job runs.
    pub every: Duration,
    /// How long single clicks are kept.
    pub keep_raw: Duration,
    /// How many bytes they may take.
    pub max_raw: Option<u64>,
    /// How long hourly sums are kept.
    pub keep_hours: Duration,
    /// How long the store leaves out clicks of erased links. A journal that was not counted for
    /// longer may contain some; the sweep finds these. An archive that was not reached for longer
    /// keeps theirs.
    pub keep_tombstones: Duration,
}

/// What was deleted so far.
#[derive(Debug, Default)]
pub struct ClickRetentionCounts {
    /// Single clicks deleted.
    pub raw: AtomicU64,
    /// Hourly sums that became part of a day.
    pub hours: AtomicU64,
    /// Links whose clicks were deleted because the link no longer exists.
    pub forgotten: AtomicU64,
}

impl ClickRetentionJob {
    /// With its first sweep a while after the start.
    pub fn new(
        clicks: Arc<dyn ClickStore>,
        links: Arc<dyn LinkStore>,
        clock: Clock,
        guard: Arc<RemovalGuard>,
        settings: ClickRetentionSettings,
        counts: Arc<ClickRetentionCounts>,
    ) -> Self {
        let sweep_at = Instant::now() + FIRST_SWEEP;
        Self { clicks, links, clock, guard, settings, counts, sweep_at, swept_to: None }
    }

    async fn prune(&self, context: &JobContext) -> Result<(), BoxError> {
        let limit = CLICK_BATCH;
        let keep = self.settings.keep_raw;
        let Some(begun) = self.guard.time(context).await? else { return Ok(()) };
        let before = begun.saturating_sub(keep);
        // Without single clicks only sums are kept.
        let may_advance = keep.is_zero()
            || self.guard.may_advance(context, &RetentionKind::CLICKS, before, keep).await?;
        loop {
            context.check_lease().await?;
            let Some(now) = self.guard.time(context).await? else { return Ok(()) };
            let (raw_before, hours_before) = (
                now.saturating_sub(self.settings.keep_raw),
                now.saturating_sub(self.settings.keep_hours),
            );
            let tombstones_before = now.saturating_sub(self.settings.keep_tombstones);
            let days_before = now.saturating_sub(LATE_CLICKS);
            let mut retention = Retention {
                raw_before,
                max_raw: self.settings.max_raw,
                days_before,
                hours_before,
                tombstones_before,
                limit,
            };
            if !may_advance {
                // Deletes nothing by age. `max_raw` still bounds the disk space of single clicks.
                let never = Timestamp::MIN;
                (retention.raw_before, retention.hours_before) = (never, never);
                (retention.days_before, retention.tombstones_before) = (never, never);
            }
            let Pruned { raw, hours, more, .. } = self.clicks.prune(retention).await?;
            self.counts.raw.fetch_add(raw, Ordering::Relaxed);
            self.counts.hours.fetch_add(hours, Ordering::Relaxed);
            if !more && may_advance {
                self.clicks.forget_logs(now.saturating_sub(KEEP_LOGS)).await?;
                return self.guard.advanced(context, &RetentionKind::CLICKS, before).await;
            }
            if !more {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    /// Finds clicks whose link no longer exists: the click store was away when the link was
    /// purged, or the link was visited just before.
    async fn sweep(&mut self, context: &JobContext) -> Result<(), BoxError> {
        loop {
            let ids = self.clicks.links(self.swept_to.as_ref(), SWEEP_BATCH).await?;
            let Some(last) = ids.last().cloned() else {
                self.swept_to = None;
                return Ok(());
            };
            let keys: Vec<_> = ids.iter().map(|id| id.key.clone()).collect();
            let found = self.links.get_many(&keys).await;
            let mut gone: HashMap<Timestamp, Vec<_>> = HashMap::new();
            for (id, found) in ids.into_iter().zip(found) {
                match found {
                    Ok(Some(link)) if link.created_at == id.created_at => {}
                    Ok(_) => gone.entry(id.created_at).or_default().push(id.key),
                    Err(error) => return Err(error.into()),
                }
            }
            for (created_at, keys) in gone {
                context.check_lease().await?;
                self.clicks.erase_links(&keys, created_at, self.clock.now()).await?;
                self.counts.forgotten.fetch_add(keys.len() as u64, Ordering::Relaxed);
            }
            self.swept_to = Some(last);
            sleep(PAUSE).await;
        }
    }
}

#[async_trait]
impl Job for ClickRetentionJob {
    fn name(&self) -> &'static str {
        "click retention"
    }

    fn interval(&self) -> Duration {
        self.settings.every
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        self.prune(context).await?;
        if Instant::now() >= self.sweep_at {
            // Set first: a sweep that fails or is cancelled waits for its retry.
            self.sweep_at = Instant::now() + SWEEP_RETRY;
            self.sweep(context).await?;
            self.sweep_at = Instant::now() + SWEEP;
        }
        Ok(NextRun::Interval)
    }
}
