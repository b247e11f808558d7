//! Reads a changed geo database again, for redirect rules.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, Clock};

use crate::enrich::UserAgentClassifier;

/// How often the job checks whether the file has changed.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Reads the file in the background, so that no visitor waits for it.
pub struct GeoRefresh {
    /// Holds the database.
    pub classifier: Arc<UserAgentClassifier>,
    /// The time.
    pub clock: Clock,
}

#[async_trait]
impl Job for GeoRefresh {
    fn name(&self) -> &'static str {
        "geo database"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        let (classifier, now) = (Arc::clone(&self.classifier), self.clock.now());
        tokio::task::spawn_blocking(move || classifier.refresh(now)).await?;
        Ok(NextRun::Interval)
    }
}
