//! The reaper: marks links that have expired, and deletes links for good after the grace time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::ClickStore;
use terse_core::{BoxError, Clock, LinkStore, Links, RouteCache, StoreError};

use crate::job::{Context, Job, Next};

/// How long a request id is remembered: the promised day and an hour to spare.
const REMEMBER_REQUESTS: Duration = Duration::from_hours(25);

/// Marks expired links, and deletes links that have been deleted or expired for the grace time.
pub struct Reaper {
    /// The links.
    pub store: Arc<dyn LinkStore>,
    /// Their rules and their event listeners.
    pub links: Arc<Links>,
    /// Their clicks, which are deleted with them.
    pub clicks: Arc<dyn ClickStore>,
    /// Drops what this node caches of them.
    pub cache: Arc<dyn RouteCache>,
    /// The time.
    pub clock: Clock,
    /// How often.
    pub every: Duration,
    /// How long deleted and expired links are kept.
    pub grace: Duration,
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

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        let (expired, purged) = self.reap().await?;
        if (expired, purged) != (0, 0) {
            tracing::info!(expired, purged, "reaped expired and deleted links");
        }
        Ok(Next::Interval)
    }
}

impl Reaper {
    /// Reaps everything that is due: how many links expired, how many were deleted for good.
    async fn reap(&self) -> Result<(usize, usize), StoreError> {
        let now = self.clock.now();
        let (mut expired, mut purged) = (0, 0);
        let hold = self.links.rules().quarantine_until(now);
        loop {
            let keys = self.store.mark_expired(now, self.batch).await?;
            keys.iter().for_each(|key| self.cache.forget(key));
            // The links have expired even if no event could be written.
            if let Err(error) = self.links.tell_expired(&keys).await {
                tracing::warn!(%error, "the events of expired links could not be written");
            }
            expired += keys.len();
            self.counts.expired.fetch_add(keys.len() as u64, Ordering::Relaxed);
            if keys.is_empty() {
                break;
            }
        }
        loop {
            let keys = self.store.purge(now.saturating_sub(self.grace), self.batch, hold).await?;
            keys.iter().for_each(|key| self.cache.forget(key));
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
        while self.store.release(now, self.batch).await? > 0 {}
        while self.store.forget_requests(now.saturating_sub(REMEMBER_REQUESTS), self.batch).await?
            > 0
        {}
        Ok((expired, purged))
    }
}
