//! Finishes the erasure of accounts.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::accounts::Erasures;
use terse_core::job::{Job, JobContext, NextRun};

/// How often the job checks for erasures that were interrupted.
const INTERVAL: Duration = Duration::from_mins(15);

/// Finishes the erasure of accounts that a stop or a crash interrupted.
pub struct ErasureJob {
    /// The service that erases accounts.
    pub erasures: Erasures,
}

impl ErasureJob {
    /// Finishes all erasures that were begun and returns their number.
    async fn finish_all(&self, context: &JobContext) -> Result<usize, BoxError> {
        let unfinished = self.erasures.unfinished().await?;
        let count = unfinished.len();
        for mut erasure in unfinished {
            loop {
                context.check_lease().await?;
                if !erasure.next_batch().await? {
                    break;
                }
            }
        }
        context.check_lease().await?;
        self.erasures.scrub().await?;
        Ok(count)
    }
}

#[async_trait]
impl Job for ErasureJob {
    fn name(&self) -> &'static str {
        "erasures"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let finished = self.finish_all(context).await?;
        if finished > 0 {
            tracing::info!(finished, "finished erasing accounts");
        }
        Ok(NextRun::Interval)
    }
}
