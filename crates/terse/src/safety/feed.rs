//! A list from elsewhere: asked for now and then, whether it has changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_outgoing::{Limits, Outgoing};
use tokio::sync::watch;
use url::Url;

use super::Safety;

/// How soon a feed that did not answer is asked again, if not earlier by its own plan.
const RETRY_DELAY: Duration = Duration::from_secs(300);

/// One feed.
pub(crate) struct Feed {
    pub(crate) safety: Arc<Safety>,
    /// Which of the lists.
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) url: Url,
}

impl Feed {
    /// Asks at once and then every so often, until told to stop.
    pub(crate) async fn run(
        self,
        outgoing: Arc<Outgoing>,
        every: Duration,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            let pause = tokio::select! {
                well = self.ask(&outgoing) => if well { every } else { every.min(RETRY_DELAY) },
                _ = stop.wait_for(|stop| *stop) => return,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Asks once. Tells whether the feed is well.
    async fn ask(&self, outgoing: &Outgoing) -> bool {
        let counts = &self.safety.counts;
        let (safety, at) = (Arc::clone(&self.safety), self.at);
        let Ok(known) = tokio::task::spawn_blocking(move || safety.validators(at)).await else {
            return false;
        };
        let why = match outgoing.get_if_changed(self.url.as_str(), Limits::FEED, &known).await {
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
            "a blocklist could not be fetched; its last version stays in force"
        );
        false
    }
}
