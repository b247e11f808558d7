//! Fetches blocklists and warn lists from other servers when they change.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, HttpClient, RequestLimits};
use url::Url;

use super::Safety;

/// The retry interval after a failed fetch, if the normal interval is longer.
const RETRY_DELAY: Duration = Duration::from_secs(300);

/// Fetches one list at its interval.
pub(super) struct Feed {
    pub(super) safety: Arc<Safety>,
    pub(super) client: Arc<dyn HttpClient>,
    pub(super) every: Duration,
    /// The index of the list.
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) url: Url,
}

#[async_trait]
impl Job for Feed {
    fn name(&self) -> &'static str {
        "blocklist feeds"
    }

    fn interval(&self) -> Duration {
        self.every
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        match self.fetch().await {
            true => Ok(NextRun::Interval),
            false => Ok(NextRun::After(self.every.min(RETRY_DELAY))),
        }
    }
}

impl Feed {
    /// Fetches the list if it has changed. `false` if the fetch failed or the list was refused; the
    /// last version then stays in force.
    async fn fetch(&self) -> bool {
        let counts = &self.safety.counts;
        let (safety, at) = (Arc::clone(&self.safety), self.at);
        let Ok(known) = tokio::task::spawn_blocking(move || safety.validators(at)).await else {
            return false;
        };
        let why = match self
            .client
            .get_if_changed(self.url.as_str(), RequestLimits::FEED, &known)
            .await
        {
            Ok(fetched) if fetched.is_unchanged() => {
                counts.unchanged.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            Ok(fetched) if fetched.is_success() => {
                let (safety, at) = (Arc::clone(&self.safety), self.at);
                let offer = move || safety.offer(at, &fetched.body, &fetched.validators);
                return tokio::task::spawn_blocking(offer).await.unwrap_or(false);
            }
            Ok(fetched) => format!("its server answers {}", fetched.status),
            Err(error) => error.to_string(),
        };
        counts.failed.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            list = self.name,
            why,
            "a list could not be fetched; its last version stays in force"
        );
        false
    }
}
