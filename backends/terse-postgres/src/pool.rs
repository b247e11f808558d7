//! The connections of one node to one database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use terse_core::{BoxError, StoreError};
use tokio::runtime::Handle;
use tokio_postgres::{Client, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::exclusive::{ExclusivePool, Transaction};
use crate::failure::{Failure, unavailable};
use crate::options::{OpenError, Options, Place};
use crate::shared::SharedConnection;
use crate::sql::Param;
use crate::tls;

/// How often a transaction that met another one is begun.
const ATTEMPTS: u32 = 4;
/// The longest pause before a connection is tried again.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Connections to one database. Look-ups share a few, pipelined; transactions and lists have one to
/// themselves while they last.
pub(crate) struct Pool {
    lookups: Vec<SharedConnection>,
    next_lookup: AtomicUsize,
    writes: ExclusivePool,
    lists: ExclusivePool,
    lookup_timeout: Duration,
    statement_timeout: Duration,
}

impl Pool {
    /// Connects once, so that a wrong URL or password is known at once.
    pub(crate) async fn open(options: &Options) -> Result<Self, OpenError> {
        let connector = Arc::new(Connector::new(&options.url, options.connect_timeout)?);
        let for_lists = match &options.replica_url {
            None => Arc::clone(&connector),
            Some(url) => Arc::new(Connector::new(url, options.connect_timeout)?),
        };
        let pool = Self {
            lookups: (0..Options::LOOKUP_CONNECTIONS)
                .map(|_| SharedConnection::new(Arc::clone(&connector)))
                .collect(),
            next_lookup: AtomicUsize::new(0),
            writes: ExclusivePool::new(
                Arc::clone(&connector),
                Options::WRITE_CONNECTIONS,
                options.statement_timeout,
            ),
            lists: ExclusivePool::new(
                Arc::clone(&for_lists),
                Options::LIST_CONNECTIONS,
                options.statement_timeout,
            ),
            lookup_timeout: options.lookup_timeout,
            statement_timeout: options.statement_timeout,
        };
        for (connector, exclusive) in [(&connector, &pool.writes), (&for_lists, &pool.lists)] {
            exclusive.connect().await.map_err(|source| connector.failed(source))?;
        }
        Ok(pool)
    }

    /// A short read, pipelined with those of other callers.
    pub(crate) async fn lookup(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let deadline = Instant::now() + self.lookup_timeout;
        // A connection that the server has closed meanwhile fails once; the other one may work.
        let first = self.lookup_once(sql, params, deadline).await;
        match first {
            Err(Failure::Again(_)) => self.lookup_once(sql, params, deadline).await,
            other => other,
        }
    }

    async fn lookup_once(
        &self,
        sql: &str,
        params: &[Param<'_>],
        deadline: Instant,
    ) -> Result<Vec<Row>, Failure> {
        let n = self.next_lookup.fetch_add(1, Ordering::Relaxed);
        self.lookups[n % self.lookups.len()].query(sql, params, deadline).await
    }

    /// A statement that writes and commits by itself, pipelined. It is never repeated: if the
    /// connection is lost, it may have happened.
    pub(crate) async fn write_once(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let deadline = Instant::now() + self.statement_timeout;
        Ok(self.lookup_once(sql, params, deadline).await?)
    }

    /// A read that may take long.
    pub(crate) async fn list(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        match self.lists.query(sql, params).await {
            Err(Failure::Again(_)) => self.lists.query(sql, params).await,
            other => other,
        }
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&self) -> Result<Transaction<'_>, Failure> {
        self.writes.begin("BEGIN").await
    }

    /// Begins a transaction whose statements all see one snapshot.
    pub(crate) async fn begin_snapshot(&self) -> Result<Transaction<'_>, Failure> {
        self.writes.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
    }

    /// Whether writes are likely to succeed now.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let sql = "SELECT NOT pg_is_in_recovery() \
             AND current_setting('transaction_read_only') = 'off'";
        match self.lookup(sql, &[]).await?.first() {
            Some(row) if row.get(0) => Ok(()),
            _ => Err(unavailable("the database is read-only")),
        }
    }

    /// Takes a connection, for a caller that sends `BEGIN` together with its first statements.
    pub(crate) async fn unbegun(&self) -> Result<Transaction<'_>, Failure> {
        self.writes.take().await
    }
}

/// Repeats a transaction that met another one, or whose connection was closed before it committed.
pub(crate) async fn retried<T, F>(attempt: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut tries = 1;
    loop {
        match attempt().await {
            Err(Failure::Again(error)) if tries < ATTEMPTS => {
                tracing::debug!(%error, tries, "a transaction is tried again");
                tokio::time::sleep(pause(tries, Duration::from_millis(5))).await;
                tries += 1;
            }
            other => return other,
        }
    }
}

/// A pause that doubles with every failure, with jitter, so that nodes do not come back together.
pub(crate) fn pause(failures: u32, first: Duration) -> Duration {
    let longest = first.saturating_mul(1 << failures.min(10)).min(MAX_PAUSE);
    let random = getrandom::u32().unwrap_or(u32::MAX);
    longest / 2 + (longest / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Makes connections. They belong to the runtime on which the store was opened, whichever thread
/// asks for one.
pub(crate) struct Connector {
    place: Place,
    tls: MakeRustlsConnect,
    runtime: Handle,
    timeout: Duration,
}

impl Connector {
    pub(crate) fn new(url: &str, timeout: Duration) -> Result<Self, OpenError> {
        let place = Place::parse(url, timeout)?;
        let tls = tls::connector(place.roots.as_deref())?;
        Ok(Self { place, tls, runtime: Handle::current(), timeout })
    }

    pub(crate) async fn connect(&self) -> Result<Client, BoxError> {
        let (config, tls) = (self.place.config.clone(), self.tls.clone());
        let connecting = self.runtime.spawn(async move {
            let (client, connection) = config.connect(tls).await?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to the database ended");
                }
            });
            Ok::<_, tokio_postgres::Error>(client)
        });
        // Names with many addresses are tried one after the other.
        let limit = self.timeout * 2;
        match tokio::time::timeout(limit, connecting).await {
            Ok(Ok(connected)) => Ok(connected?),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(format!("no connection within {limit:?}").into()),
        }
    }

    pub(crate) fn failed(&self, source: impl Into<BoxError>) -> OpenError {
        OpenError::Connect { place: self.place.shown.clone(), source: source.into() }
    }
}

/// When the next connection attempt is due.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
    due: Option<Instant>,
    why: String,
}

impl Backoff {
    /// Fails at once while an attempt would come too soon after the last one.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.due {
            Some(due) if Instant::now() < due => Err(unavailable(self.why.clone())),
            _ => Ok(()),
        }
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn failed(&mut self, error: BoxError) -> StoreError {
        self.failures += 1;
        self.due = Some(Instant::now() + pause(self.failures, Duration::from_millis(50)));
        self.why = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        tracing::warn!(why = self.why, failures = self.failures, "no connection to the database");
        StoreError::Unavailable(error)
    }
}
