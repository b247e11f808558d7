//! Shows the clicks of all nodes in the live views of this node.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::clicks::LiveFollower;
use terse_core::job::{Job, JobContext, NextRun};

/// How often stored clicks are read, while a link is watched.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long one poll may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the stored clicks of links that are watched on this node.
pub struct LiveClicks(pub LiveFollower);

#[async_trait]
impl Job for LiveClicks {
    fn name(&self) -> &'static str {
        "live clicks"
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
