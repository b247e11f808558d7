//! Follows the changes that other nodes make to links.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::{BoxError, ChangeFollower};
use terse_worker::{Context, Job, Next};

/// How often new change rows are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long one poll may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads new change rows and drops those links from this node's cache. Every node runs it. A poll
/// that fails is repeated from where it stopped.
pub(crate) struct ChangeJob(pub(crate) ChangeFollower);

#[async_trait]
impl Job for ChangeJob {
    fn name(&self) -> &'static str {
        "link changes"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    fn timeout(&self) -> Duration {
        TIMEOUT
    }

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        self.0.poll().await?;
        Ok(Next::Interval)
    }
}
