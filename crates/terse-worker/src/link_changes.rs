//! Follows the changes that other nodes make to links.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, ChangeFollower};

/// How often new change rows are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long one poll may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Drops changed links from this node's cache. A poll that fails is repeated a second later from
/// where it stopped.
pub struct LinkChanges(pub ChangeFollower);

#[async_trait]
impl Job for LinkChanges {
    fn name(&self) -> &'static str {
        "link changes"
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    fn timeout(&self) -> Duration {
        TIMEOUT
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        self.0.poll().await?;
        Ok(NextRun::Interval)
    }
}
