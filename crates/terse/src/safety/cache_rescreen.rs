//! Screens cached links again as soon as the screen has changed. The re-scan of all stored links
//! takes longer; visitors of cached links do not wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use terse_core::{BoxError, Screening};
use terse_redirect::Redirector;
use terse_worker::{Context, Job, Next};

/// How often the job compares the screen's version: one atomic load.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The longest pause after a pass that took long: a change must take effect within seconds.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Screens cached links again whenever the screen has changed. A link that is not cached is
/// screened when it is read.
pub(crate) struct CacheRescreen {
    /// Holds the cache.
    pub(crate) redirector: Arc<Redirector>,
    /// The screen.
    pub(crate) screen: Arc<dyn Screening>,
    /// Cached links that were dropped so far.
    pub(crate) recalled: Arc<AtomicU64>,
    /// The version of the screen that the cache was screened by.
    pub(crate) seen: Option<u64>,
}

#[async_trait]
impl Job for CacheRescreen {
    fn name(&self) -> &'static str {
        "cache rescreen"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        let version = self.screen.version();
        if self.seen == Some(version) {
            return Ok(Next::After(POLL_INTERVAL));
        }
        let (redirector, begun) = (Arc::clone(&self.redirector), Instant::now());
        let recalled = tokio::task::spawn_blocking(move || redirector.rescreen()).await?;
        self.recalled.fetch_add(recalled as u64, Ordering::Relaxed);
        self.seen = Some(version);
        // A screen that changes constantly costs at most half a core.
        Ok(Next::After(begun.elapsed().clamp(POLL_INTERVAL, MAX_PAUSE)))
    }
}
