//! A block is felt at once: the re-scan of all links takes its time, but no visitor waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terse_core::Screening;
use terse_redirect::Redirector;
use tokio::sync::watch;

/// How often it is looked whether the screen has learned something: one load.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// And at the latest, however long the last time took: what was learned meanwhile has to be felt
/// within seconds.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Has remembered links judged again whenever the screen has learned something. A link that is not
/// remembered is judged when it is read.
pub(crate) struct CacheRescreen {
    /// Who remembers.
    pub(crate) redirector: Arc<Redirector>,
    /// Who learns.
    pub(crate) screen: Arc<dyn Screening>,
    /// How many were forgotten so far.
    pub(crate) recalled: Arc<AtomicU64>,
}

impl CacheRescreen {
    /// Looks until told to stop.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let (mut seen, mut pause) = (None, POLL_INTERVAL);
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            pause = POLL_INTERVAL;
            let version = self.screen.version();
            if seen.replace(version) == Some(version) {
                continue;
            }
            let (redirector, begun) = (Arc::clone(&self.redirector), Instant::now());
            match tokio::task::spawn_blocking(move || redirector.rescreen()).await {
                Ok(recalled) => drop(self.recalled.fetch_add(recalled as u64, Ordering::Relaxed)),
                Err(error) => tracing::error!(%error, "remembered links could not be judged again"),
            }
            // A screen that learns all the time takes at most half of a core.
            pause = begun.elapsed().clamp(POLL_INTERVAL, MAX_PAUSE);
        }
    }
}
