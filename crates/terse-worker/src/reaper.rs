//! The reaper: marks links that have expired, and deletes links for good after the grace time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::ClickStore;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, Links, Timestamp};

use crate::removal_guard::{RemovalGuard, RetentionKind};

/// Marks expired links, and deletes links that have been deleted or expired for the grace time.
pub struct Reaper {
    /// The service that expires and deletes links.
    pub links: Arc<Links>,
    /// Their clicks, which are deleted with them.
    pub clicks: Arc<dyn ClickStore>,
    /// Gives the time to delete by.
    pub guard: Arc<RemovalGuard>,
    /// How often.
    pub every: Duration,
    /// Links per write, so that no other writer waits long for the store.
    pub batch: usize,
    /// What the reaper has done.
    pub counts: Arc<ReaperCounts>,
}

/// What the reaper has done so far.
#[derive(Debug, Default)]
pub struct ReaperCounts {
    /// Links marked as expired.
    pub expired: AtomicU64,
    /// Links deleted for good.
    pub purged: AtomicU64,
}

#[async_trait]
impl Job for Reaper {
    fn name(&self) -> &'static str {
        "reaper"
    }

    fn interval(&self) -> Duration {
        self.every
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let (expired, purged) = self.reap(context).await?;
        if (expired, purged) != (0, 0) {
            tracing::info!(expired, purged, "reaped expired and deleted links");
        }
        Ok(NextRun::Interval)
    }
}

impl Reaper {
    /// Reaps everything that is due: how many links expired, how many were deleted for good. What
    /// this round marks, it does not delete.
    async fn reap(&self, context: &JobContext) -> Result<(usize, usize), BoxError> {
        let (mut expired, mut purged) = (0, 0);
        let Some(now) = self.guard.time(context).await? else { return Ok((0, 0)) };
        if self.guard.may_purge(context, now).await? {
            while let Some(now) = self.batch(context).await? {
                let keys = self.links.purge(now, self.batch).await?;
                if keys.is_empty() {
                    break;
                }
                // The sweep of the click store finds clicks that are left.
                if let Err(error) = self.clicks.erase_links(&keys, now, now).await {
                    tracing::warn!(%error, "the clicks of deleted links could not be deleted; \
                        trying again later");
                }
                purged += keys.len();
                self.counts.purged.fetch_add(keys.len() as u64, Ordering::Relaxed);
            }
        }
        while let Some(now) = self.batch(context).await? {
            let keys = self.links.expire(now, self.batch).await?;
            expired += keys.len();
            self.counts.expired.fetch_add(keys.len() as u64, Ordering::Relaxed);
            if keys.is_empty() {
                break;
            }
        }
        self.release_aliases(context).await?;
        while let Some(now) = self.batch(context).await?
            && self.links.forget_requests(now, self.batch).await? > 0
        {}
        Ok((expired, purged))
    }

    /// Releases the aliases whose quarantine is over.
    async fn release_aliases(&self, context: &JobContext) -> Result<(), BoxError> {
        let keep = self.links.rules().quarantine;
        let Some(begun) = self.batch(context).await? else { return Ok(()) };
        let before = begun.saturating_sub(keep);
        // Without a quarantine nothing is reserved.
        if !keep.is_zero()
            && !self.guard.may_advance(context, &RetentionKind::ALIASES, before, keep).await?
        {
            return Ok(());
        }
        while let Some(now) = self.batch(context).await? {
            if self.links.release_aliases(now, self.batch).await? == 0 {
                return self.guard.advanced(context, &RetentionKind::ALIASES, before).await;
            }
        }
        Ok(())
    }

    /// Whether another batch may be written, and by which time.
    async fn batch(&self, context: &JobContext) -> Result<Option<Timestamp>, BoxError> {
        context.check_lease().await?;
        self.guard.time(context).await
    }
}
