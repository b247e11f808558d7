//! A replica, for reads that no decision depends on.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use terse_core::StoreError;

use crate::exclusive::{ExclusivePool, Transaction};
use crate::failure::{Failure, unavailable};
use crate::sql::params;

/// How long the primary is asked after the replica failed.
const PAUSE: Duration = Duration::from_secs(10);
/// Reads see at least what the primary had committed this long before.
pub(crate) const MAX_LAG: Duration = Duration::from_secs(3);
/// How often the primary is asked for its position while the replica is read.
const POSITION_INTERVAL: Duration = Duration::from_secs(1);
/// How often a replica that lags behind is asked again.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a replica may take to catch up and to begin a read, and how often it is asked.
#[derive(Clone, Copy)]
pub(crate) struct CatchUp {
    limit: Duration,
    poll: Duration,
}

/// With a position that is seconds old.
pub(crate) const TO_EARLIER: CatchUp =
    CatchUp { limit: Duration::from_secs(1), poll: POLL_INTERVAL };
/// With the primary's position now: a replica that follows closely is some milliseconds behind.
pub(crate) const TO_NOW: CatchUp =
    CatchUp { limit: Duration::from_millis(200), poll: Duration::from_millis(5) };

/// Which server a read asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Primary,
    Replica,
}

pub(crate) struct Replica {
    pool: ExclusivePool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The primary answers until then.
    away_until: Option<Instant>,
    /// The primary answers reads that must see everything until then.
    behind_until: Option<Instant>,
    /// Where the primary was in its log, and when; oldest first.
    positions: VecDeque<(Instant, String)>,
}

impl Replica {
    pub(crate) fn new(pool: ExclusivePool) -> Self {
        Self { pool, state: Mutex::default() }
    }

    /// Opens the first connection. A replica that is away now is asked later.
    pub(crate) async fn connect(&self) {
        if let Err(error) = self.pool.connect().await {
            tracing::warn!(%error, "the replica does not answer; reads go to the primary until it does");
            self.pause();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause(&self) {
        self.state().away_until = Some(Instant::now() + PAUSE);
    }

    /// Whether it has not failed lately.
    pub(crate) fn is_usable(&self) -> bool {
        self.state().away_until.is_none_or(|until| until <= Instant::now())
    }

    /// Whether it has not failed lately, nor lagged behind the primary's position.
    pub(crate) fn is_close(&self) -> bool {
        let State { away_until, behind_until, .. } = &*self.state();
        let now = Instant::now();
        [away_until, behind_until].iter().all(|until| until.is_none_or(|until| until <= now))
    }

    /// The primary answers this read, and the next ones that must see everything.
    pub(crate) fn lagged(&self, failure: Failure) {
        self.state().behind_until = Some(Instant::now() + PAUSE);
        let error = StoreError::from(failure);
        tracing::debug!(%error, "the replica is behind; lists are read from the primary for {PAUSE:?}");
    }

    /// The primary answers this read and the next ones.
    pub(crate) fn failed(&self, failure: Failure) {
        self.pause();
        let error = StoreError::from(failure);
        tracing::warn!(%error, "the replica did not answer; reads go to the primary for {PAUSE:?}");
    }

    /// The position that reads must see, unless the primary must be asked for a newer one.
    pub(crate) fn position(&self) -> Option<String> {
        let mut state = self.state();
        while state.positions.front().is_some_and(|(at, _)| at.elapsed() > MAX_LAG) {
            state.positions.pop_front();
        }
        state.positions.back().filter(|(at, _)| at.elapsed() < POSITION_INTERVAL)?;
        state.positions.front().map(|(_, position)| position.clone())
    }

    /// Records where the primary was at `at`. Returns the position that reads must see.
    pub(crate) fn add_position(&self, at: Instant, position: String) -> String {
        let mut state = self.state();
        if state.positions.back().is_none_or(|(last, _)| at >= *last + POSITION_INTERVAL) {
            state.positions.push_back((at, position.clone()));
        }
        state.positions.front().map_or(position, |(_, oldest)| oldest.clone())
    }

    /// How far it has replayed the log of the primary; `None` if it is no standby.
    pub(crate) async fn replayed(&self) -> Result<Option<i64>, Failure> {
        let sql = "SELECT CASE WHEN pg_is_in_recovery() \
             THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint END";
        Ok(self.pool.query(sql, &[]).await?.first().and_then(|row| row.get(0)))
    }

    /// Begins a transaction once the replica has replayed the log of the primary up to `position`.
    /// `Busy` says nothing about the replica: other reads use all connections to it.
    pub(crate) async fn begin(
        &self,
        how: &str,
        position: &str,
        CatchUp { limit, poll }: CatchUp,
    ) -> Result<Transaction<'_>, Failure> {
        let permit = self.pool.permit(limit).await?;
        let begun = async {
            let transaction = self.pool.take_with(permit).await?;
            // Before the transaction, whose snapshot would be older. A server that is no standby
            // has no such position.
            let sql = "SELECT NOT pg_is_in_recovery() \
                 OR coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false)";
            while !transaction.query(sql, params![position]).await?.iter().all(|row| row.get(0)) {
                tokio::time::sleep(poll).await;
            }
            transaction.begin(how).await?;
            Ok(transaction)
        };
        let late = || unavailable("it did not answer in time, or lags behind").into();
        tokio::time::timeout(limit, begun).await.unwrap_or_else(|_| Err(late()))
    }
}
