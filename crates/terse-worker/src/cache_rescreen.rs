//! Screens cached links again as soon as the screen has changed. The re-scan of all stored links
//! takes longer; visitors of cached links do not wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, Screening};

/// How often the job compares the screen's version: one atomic load.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The longest pause after a pass that took long: a change must take effect within seconds.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Screens cached links again whenever the screen has changed. A link that is not cached is
/// screened when it is read.
pub struct CacheRescreen {
    rescreen: Arc<dyn Fn() -> usize + Send + Sync>,
    screen: Arc<dyn Screening>,
    /// Cached links that were dropped so far.
    dropped: Arc<AtomicU64>,
    /// The version of the screen that the cache was screened by.
    seen: Option<u64>,
}

impl CacheRescreen {
    /// `rescreen` screens the cache and returns how many links it has dropped.
    pub fn new(
        screen: Arc<dyn Screening>,
        rescreen: impl Fn() -> usize + Send + Sync + 'static,
        dropped: Arc<AtomicU64>,
    ) -> Self {
        Self { rescreen: Arc::new(rescreen), screen, dropped, seen: None }
    }
}

#[async_trait]
impl Job for CacheRescreen {
    fn name(&self) -> &'static str {
        "cache rescreen"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        let version = self.screen.version();
        if self.seen == Some(version) {
            return Ok(NextRun::After(POLL_INTERVAL));
        }
        let (rescreen, begun) = (Arc::clone(&self.rescreen), Instant::now());
        let dropped = tokio::task::spawn_blocking(move || rescreen()).await?;
        self.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
        self.seen = Some(version);
        // A screen that changes constantly costs at most half a core.
        Ok(NextRun::After(begun.elapsed().clamp(POLL_INTERVAL, MAX_PAUSE)))
    }
}
