//! What has to be done now and then: reaping links that are over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terse_core::clicks::ClickStore;
use terse_core::{Clock, LinkStore, Links, RouteCache, StoreError};
use tokio::sync::watch;

/// How long a request id is remembered, with an hour to spare over what is promised.
const REMEMBER_REQUESTS: Duration = Duration::from_hours(25);

/// The reaper: marks what has expired, deletes for good what has been over for the grace time.
pub(crate) struct Reaper {
    /// The links.
    pub(crate) store: Arc<dyn LinkStore>,
    /// Their rules, and whoever wants to know what happens to them.
    pub(crate) links: Arc<Links>,
    /// Their clicks, which go with them.
    pub(crate) clicks: Arc<dyn ClickStore>,
    /// Drops what this node caches of them.
    pub(crate) cache: Arc<dyn RouteCache>,
    /// The time.
    pub(crate) clock: Clock,
    /// How often.
    pub(crate) every: Duration,
    /// How long links that are over are kept.
    pub(crate) grace: Duration,
    /// How many at a time, so that nobody waits long for the store.
    pub(crate) batch: usize,
    /// What it has done.
    pub(crate) counts: Arc<ReaperCounts>,
}

/// What the reaper has done so far.
#[derive(Debug, Default)]
pub(crate) struct ReaperCounts {
    /// Marked as expired.
    pub(crate) expired: AtomicU64,
    /// Deleted for good.
    pub(crate) purged: AtomicU64,
}

impl Reaper {
    /// Reaps until told to stop. A round that fails is tried again at the next.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut rounds = tokio::time::interval(self.every);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = rounds.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let round = async {
                match self.round().await {
                    Ok((0, 0)) => {}
                    Ok((expired, purged)) => {
                        tracing::info!(expired, purged, "reaped links that are over");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "links that are over could not be reaped; trying \
                            again later");
                    }
                }
            };
            tokio::select! {
                () = round => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// One round: how many expired, how many were deleted for good.
    pub(crate) async fn round(&self) -> Result<(usize, usize), StoreError> {
        let now = self.clock.now();
        let (mut expired, mut purged) = (0, 0);
        let hold = self.links.rules().quarantine_until(now);
        loop {
            let keys = self.store.mark_expired(now, self.batch).await?;
            keys.iter().for_each(|key| self.cache.forget(key));
            // They have expired all the same.
            if let Err(error) = self.links.tell_expired(&keys).await {
                tracing::warn!(%error, "nobody could be told of links that have expired");
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
            // Forgotten or not, the sweep of the clicks will find what is left.
            if let Err(error) = self.clicks.erase_links(&keys, now, now).await {
                tracing::warn!(%error, "the clicks of links that are gone could not be forgotten; \
                    trying again later");
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
