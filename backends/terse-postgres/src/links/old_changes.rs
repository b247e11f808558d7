//! Deletes the change rows that are older than the readers of the feed need.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, CHANGES_KEPT, StoreError};

use crate::PostgresConnections;
use crate::pool::Pool;
use crate::sql::params;

/// A row stays for twice the promised time. A handle that did not read for the promised time
/// reports a gap without looking at the rows, so no reader misses those that are gone.
const AGE: Duration = CHANGES_KEPT.saturating_mul(2);
const INTERVAL: Duration = Duration::from_secs(60);
/// Rows per transaction.
const BATCH: i64 = 10_000;
/// A run that has removed so many batches leaves the rest to the next one: 10,000,000 rows.
const MAX_BATCHES: u32 = 1_000;

/// Removes old changes of links, on the node that has the lease.
pub struct OldLinkChanges {
    pool: Arc<Pool>,
}

impl std::fmt::Debug for OldLinkChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OldLinkChanges").finish_non_exhaustive()
    }
}

impl OldLinkChanges {
    /// Removes them from the database of these connections.
    pub fn new(connections: &PostgresConnections) -> Self {
        Self { pool: Arc::clone(&connections.0) }
    }

    /// Whether there may be more.
    async fn remove_batch(&self) -> Result<bool, StoreError> {
        let rows = self
            .pool
            .write_unrepeatable(
                "WITH gone AS (DELETE FROM link_changes WHERE id IN (SELECT id FROM link_changes \
                 WHERE at < clock_timestamp() - make_interval(secs => $1) ORDER BY at LIMIT $2 \
                 FOR UPDATE SKIP LOCKED) \
                 RETURNING true) SELECT count(*) FROM gone",
                params![AGE.as_secs_f64(), BATCH],
            )
            .await?;
        Ok(rows.first().is_some_and(|row| row.get::<_, i64>(0) >= BATCH))
    }
}

#[async_trait]
impl Job for OldLinkChanges {
    fn name(&self) -> &'static str {
        "old link changes"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        for _ in 0..MAX_BATCHES {
            context.check_lease().await?;
            if !self.remove_batch().await? {
                break;
            }
        }
        Ok(NextRun::Interval)
    }
}
