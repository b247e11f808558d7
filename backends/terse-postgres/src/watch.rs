//! Watches what can go wrong with a database unnoticed: its clock, and how far replicas lag.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::metrics::Metrics;
use terse_core::{BoxError, Clock, StoreError};

use crate::PostgresConnections;
use crate::failure::unavailable;
use crate::pool::Pool;
use crate::sql::SqlTimestamp;

const INTERVAL: Duration = Duration::from_secs(5);
/// How long the servers may take to answer.
const TIMEOUT: Duration = Duration::from_secs(4);
/// How many positions of the primary are remembered, one for each run.
const POSITIONS: usize = 720;

/// What was seen last.
#[derive(Debug, Default)]
pub struct DatabaseWatchResults(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// How far the clock of the database is ahead of this machine's.
    clock_ahead: Option<f64>,
    /// How far the slowest standby is behind, if the role of terse may see that.
    standby_lag: Option<f64>,
    /// How far the replica for reads is behind, if there is one.
    replica_lag: Option<f64>,
}

impl DatabaseWatchResults {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is known.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let Seen { clock_ahead, standby_lag, replica_lag } = *self.seen();
        if let Some(seconds) = clock_ahead {
            let help = "How far the clock of the database is ahead of this machine's";
            to.gauge("terse_database_clock_ahead_seconds", help, seconds);
        }
        if let Some(seconds) = standby_lag {
            let help = "How far the slowest standby that the database sends its log to is behind";
            to.gauge("terse_database_standby_lag_seconds", help, seconds);
        }
        if let Some(seconds) = replica_lag {
            let help = "How far the replica of store_replica is behind the database";
            to.gauge("terse_database_replica_lag_seconds", help, seconds);
        }
    }
}

/// Compares clocks and positions in the log.
pub struct DatabaseWatch {
    pool: Arc<Pool>,
    results: Arc<DatabaseWatchResults>,
    positions: PrimaryPositions,
}

impl std::fmt::Debug for DatabaseWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseWatch").finish_non_exhaustive()
    }
}

impl DatabaseWatch {
    /// Watches the database of these connections.
    pub fn new(connections: &PostgresConnections) -> Self {
        let positions = PrimaryPositions::default();
        Self { pool: Arc::clone(&connections.0), results: Arc::default(), positions }
    }

    /// Where the results are.
    pub fn results(&self) -> Arc<DatabaseWatchResults> {
        Arc::clone(&self.results)
    }

    async fn look(&mut self) -> Result<(), BoxError> {
        let clock = Clock::default();
        let (asked, before) = (Instant::now(), clock.now());
        // A role without `pg_monitor` sees no state of standbys.
        let sql = "SELECT clock_timestamp(), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, \
             (SELECT max(extract(epoch FROM coalesce(replay_lag, '0')))::float8 \
             FROM pg_stat_replication WHERE state IS NOT NULL)";
        let rows = self.pool.lookup(sql, &[]).await.map_err(StoreError::from)?;
        let row = rows.first().ok_or_else(|| unavailable("the database said nothing"))?;
        let here = f64::midpoint(before.as_ms() as f64, clock.now().as_ms() as f64);
        let ahead = (row.get::<_, SqlTimestamp>(0).0.as_ms() as f64 - here) / 1000.0;
        self.positions.add(asked, row.get(1));
        {
            let mut seen = self.results.seen();
            (seen.clock_ahead, seen.standby_lag) = (Some(ahead), row.get(2));
        }
        let lag = match self.pool.replica_position().await {
            None | Some(Ok(None)) => None,
            Some(Ok(Some(position))) => {
                self.positions.reached(position);
                Some(self.positions.lag(Instant::now()))
            }
            // Its lag grows until it answers.
            Some(Err(failure)) => {
                let error = StoreError::from(failure);
                tracing::debug!(%error, "the replica did not say how far it is");
                Some(self.positions.lag(Instant::now()))
            }
        };
        self.results.seen().replica_lag = lag.map(|lag| lag.as_secs_f64());
        Ok(())
    }
}

#[async_trait]
impl Job for DatabaseWatch {
    fn name(&self) -> &'static str {
        "database watch"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn is_traced(&self) -> bool {
        false
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        tokio::time::timeout(TIMEOUT, self.look()).await??;
        Ok(NextRun::Interval)
    }
}

/// Where the primary was in its log, at times that the replica has not reached yet.
#[derive(Default)]
struct PrimaryPositions(VecDeque<(Instant, i64)>);

impl PrimaryPositions {
    fn add(&mut self, at: Instant, position: i64) {
        // A replica that is so far behind has reached the first one last, whatever follows.
        if self.0.len() < POSITIONS {
            self.0.push_back((at, position));
        }
    }

    fn reached(&mut self, position: i64) {
        while self.0.front().is_some_and(|(_, first)| *first <= position) {
            self.0.pop_front();
        }
    }

    /// How old the first position is that was not reached.
    fn lag(&self, now: Instant) -> Duration {
        self.0.front().map_or(Duration::ZERO, |(at, _)| now.saturating_duration_since(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_lags_since_the_first_position_that_it_has_not_reached() {
        let (mut positions, begin) = (PrimaryPositions::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let lag = |positions: &PrimaryPositions, at| positions.lag(after(at)).as_secs();
        assert_eq!(lag(&positions, 9), 0);
        for (at, position) in [(0, 10), (5, 20), (10, 20), (15, 30)] {
            positions.add(after(at), position);
        }
        positions.reached(9);
        assert_eq!(lag(&positions, 16), 16);
        positions.reached(20);
        assert_eq!(lag(&positions, 16), 1);
        positions.reached(31);
        assert_eq!(lag(&positions, 16), 0);
        // Many positions are not kept forever, and the lag still grows.
        for at in 0..2 * POSITIONS as u64 {
            positions.add(after(at), 40);
        }
        assert_eq!(positions.0.len(), POSITIONS);
        assert_eq!(lag(&positions, 5000), 5000);
    }
}
