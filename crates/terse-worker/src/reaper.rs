//! The reaper: marks links that have expired, and deletes links for good after the grace time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::ClickStore;
use terse_core::{BoxError, Links};

use crate::job::{Context, Job, Next};

/// Marks expired links, and deletes links that have been deleted or expired for the grace time.
pub struct Reaper {
    /// The service that expires and deletes links.
    pub links: Arc<Links>,
    /// Their clicks, which are deleted with them.
    pub clicks: Arc<dyn ClickStore>,
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

    async fn run(&mut self, context: &Context) -> Result<Next, BoxError> {
        let (expired, purged) = self.reap(context).await?;
        if (expired, purged) != (0, 0) {
            tracing::info!(expired, purged, "reaped expired and deleted links");
        }
        Ok(Next::Interval)
    }
}

impl Reaper {
    /// Reaps everything that is due: how many links expired, how many were deleted for good.
    async fn reap(&self, context: &Context) -> Result<(usize, usize), BoxError> {
        let (mut expired, mut purged) = (0, 0);
        loop {
            context.check_lease().await?;
            let keys = self.links.expire(self.batch).await?;
            expired += keys.len();
            self.counts.expired.fetch_add(keys.len() as u64, Ordering::Relaxed);
            if keys.is_empty() {
                break;
            }
        }
        loop {
            context.check_lease().await?;
            let keys = self.links.purge(self.batch).await?;
            let now = self.links.now();
            // The sweep of the click store finds clicks that are left.
            if let Err(error) = self.clicks.erase_links(&keys, now, now).await {
                tracing::warn!(%error, "the clicks of deleted links could not be deleted; trying \
                    again later");
            }
            purged += keys.len();
            self.counts.purged.fetch_add(keys.len() as u64, Ordering::Relaxed);
            if keys.is_empty() {
                break;
            }
        }
        loop {
            context.check_lease().await?;
            if self.links.release_aliases(self.batch).await? == 0 {
                break;
            }
        }
        loop {
            context.check_lease().await?;
            if self.links.forget_requests(self.batch).await? == 0 {
                return Ok((expired, purged));
            }
        }
    }
}
