//! The connections of one node to one database.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use terse_core::{BoxError, StoreError};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Client, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::exclusive::{ExclusivePool, Transaction};
use crate::failure::{Failure, unavailable};
use crate::options::{PostgresOpenError, PostgresOptions, ServerUrl};
use crate::prepared::PreparedStatements;
use crate::replica::{Replica, Source, TO_EARLIER, TO_NOW};
use crate::shared::SharedConnection;
use crate::sql::Param;
use crate::tls;

/// Each statement must see what was committed before it, whatever the database's default is: after
/// the wait for a lock, the reads must see what its last holder wrote.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// How often a transaction that conflicts with another one is tried.
const ATTEMPTS: u32 = 4;
/// The first version with `xid8`.
const OLDEST_SERVER: i32 = 130_000;
/// The longest pause before a connection is tried again.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// The connections of a store, for others in the same database.
#[derive(Clone)]
pub struct PostgresConnections(pub(crate) Arc<Pool>);

impl std::fmt::Debug for PostgresConnections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresConnections").finish_non_exhaustive()
    }
}

/// Connections to one database. Lookups share a few, pipelined; transactions and lists have one to
/// themselves while they last.
pub(crate) struct Pool {
    lookups: Vec<SharedConnection>,
    next_lookup: AtomicUsize,
    writes: ExclusivePool,
    lists: ExclusivePool,
    replica: Option<Replica>,
    lookup_timeout: Duration,
}

impl Pool {
    /// Connects once, so that a wrong URL or password is known at once. Only the replica may be
    /// away.
    pub(crate) async fn open(options: &PostgresOptions) -> Result<Self, PostgresOpenError> {
        let has_pooler = options.direct_url.is_some();
        let connector = Connector::new(&options.url, options.connect_timeout)?;
        let connector = Arc::new(Connector { has_pooler, ..connector });
        let list_pool = |connector: &Arc<Connector>| {
            let connector = Arc::clone(connector);
            ExclusivePool::new(
                connector,
                PostgresOptions::LIST_CONNECTIONS,
                options.statement_timeout,
            )
        };
        let mut replica = None;
        if let Some(url) = &options.replica_url {
            let connector = Connector::new_replica(url, options.connect_timeout)?;
            let connector = Arc::new(Connector { has_pooler, ..connector });
            let opened = Replica::new(list_pool(&connector));
            opened.connect().await;
            replica = Some(opened);
        }
        let pool = Self {
            lookups: (0..PostgresOptions::LOOKUP_CONNECTIONS)
                .map(|_| SharedConnection::new(Arc::clone(&connector), options.lookup_timeout))
                .collect(),
            next_lookup: AtomicUsize::new(0),
            writes: ExclusivePool::new(
                Arc::clone(&connector),
                PostgresOptions::WRITE_CONNECTIONS,
                options.statement_timeout,
            ),
            lists: list_pool(&connector),
            replica,
            lookup_timeout: options.lookup_timeout,
        };
        pool.writes.connect().await.map_err(|source| connector.failed(source))?;
        pool.check_server().await.map_err(|error| connector.failed(error))??;
        Ok(pool)
    }

    /// Refuses a server that terse does not work on.
    async fn check_server(&self) -> Result<Result<(), PostgresOpenError>, StoreError> {
        let sql = "SELECT current_setting('server_version_num')::int, \
             current_setting('server_version'), current_setting('server_encoding')";
        let rows = self.lookup(sql, &[]).await?;
        let Some(row) = rows.first() else { return Ok(Ok(())) };
        let (number, version, encoding): (i32, &str, &str) = (row.get(0), row.get(1), row.get(2));
        Ok(if number < OLDEST_SERVER {
            Err(PostgresOpenError::Foreign(format!(
                "PostgreSQL 13 or later is needed, not {version}"
            )))
        } else if encoding != "UTF8" {
            let why = format!("the database must have the encoding UTF8, not {encoding}");
            Err(PostgresOpenError::Foreign(why))
        } else {
            Ok(())
        })
    }

    /// A short read, pipelined with those of other callers.
    pub(crate) async fn lookup(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let deadline = Instant::now() + self.lookup_timeout;
        // A connection that was closed meanwhile, or that cannot be made now, fails; another may
        // work.
        let mut answer = self.lookup_once(sql, params, deadline).await;
        for _ in 0..self.lookups.len() {
            if !matches!(answer, Err(Failure::Again(_))) {
                break;
            }
            answer = self.lookup_once(sql, params, deadline).await;
        }
        answer
    }

    async fn lookup_once(
        &self,
        sql: &str,
        params: &[Param<'_>],
        deadline: Instant,
    ) -> Result<Vec<Row>, Failure> {
        let first = self.next_lookup.fetch_add(1, Ordering::Relaxed);
        let nth = |n: usize| &self.lookups[(first + n) % self.lookups.len()];
        // A connection that was given up has no successor before it has ended.
        let free = (0..self.lookups.len()).map(nth).find(|connection| !connection.is_ending());
        free.unwrap_or_else(|| nth(0)).query(sql, params, deadline).await
    }

    /// One statement that writes, and its commit, in one round trip. It is never repeated: if the
    /// connection is lost, it may have happened. Lookups never wait behind it.
    pub(crate) async fn write_unrepeatable(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let mut transaction = self.writes.take().await?;
        let (begun, rows, committed) = tokio::join!(
            biased;
            transaction.begin(BEGIN),
            transaction.query(sql, params),
            transaction.send_commit(),
        );
        // All were sent together: if the connection was lost, the commit may have happened.
        if let Err(lost @ Failure::Unknown(_)) = committed {
            return Err(lost.into());
        }
        begun?;
        let rows = rows?;
        committed?;
        transaction.give_back();
        Ok(rows)
    }

    /// A read that may take long, for a decision.
    pub(crate) async fn list(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        retried(|| self.lists.query(sql, params)).await
    }

    /// The same for what is only shown. A replica may answer it that has everything that was
    /// committed before.
    pub(crate) async fn list_to_show(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        if let Some(replica) = self.replica.as_ref().filter(|replica| replica.is_close()) {
            let read = async {
                let position = self.position().await?;
                let transaction = replica.begin("BEGIN READ ONLY", &position, TO_NOW).await?;
                let rows = transaction.query(sql, params).await?;
                transaction.commit().await?;
                Ok(rows)
            };
            match read.await {
                Ok(rows) => return Ok(rows),
                // The primary answers this read only.
                Err(Failure::Refused(StoreError::Busy)) => {}
                Err(failure) => replica.lagged(failure),
            }
        }
        self.list(sql, params).await
    }

    /// How far the log of the primary was written.
    async fn position(&self) -> Result<String, Failure> {
        let rows = self.lookup("SELECT pg_current_wal_lsn()::text", &[]).await?;
        let row = rows.first().ok_or_else(|| unavailable("the primary has no position"))?;
        Ok(row.get(0))
    }

    /// How far the replica has replayed the log of the primary, if there is one.
    pub(crate) async fn replica_position(&self) -> Option<Result<Option<i64>, Failure>> {
        match &self.replica {
            Some(replica) => Some(replica.replayed().await),
            None => None,
        }
    }

    /// A read that no decision depends on. A replica may answer it that is some seconds behind.
    pub(crate) async fn search(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        self.report(|source| self.search_once(source, sql, params)).await
    }

    async fn search_once(
        &self,
        source: Source,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let Some(transaction) = self.begin_on_replica(source, "BEGIN READ ONLY").await? else {
            return self.lists.query(sql, params).await;
        };
        let rows = transaction.query(sql, params).await?;
        transaction.commit().await?;
        Ok(rows)
    }

    /// Reads from the replica if there is one that works, and from the primary if that fails.
    pub(crate) async fn report<T, F>(&self, read: impl Fn(Source) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        if let Some(replica) = self.replica.as_ref().filter(|replica| replica.is_usable()) {
            match read(Source::Replica).await {
                Ok(answer) => return Ok(answer),
                // The primary answers this read only.
                Err(Failure::Refused(StoreError::Busy)) => {}
                Err(failure) => replica.failed(failure),
            }
        }
        retried(|| read(Source::Primary)).await
    }

    /// Begins a transaction for a report: its statements all see one snapshot. It takes a
    /// connection for lists, so that writes never wait behind slow reports.
    pub(crate) async fn begin_report(&self, source: Source) -> Result<Transaction<'_>, Failure> {
        match self.begin_on_replica(source, BEGIN_SNAPSHOT).await? {
            Some(transaction) => Ok(transaction),
            None => self.lists.begin(BEGIN_SNAPSHOT).await,
        }
    }

    /// `None` if the primary is to be asked.
    async fn begin_on_replica(
        &self,
        source: Source,
        how: &str,
    ) -> Result<Option<Transaction<'_>>, Failure> {
        let (Source::Replica, Some(replica)) = (source, &self.replica) else { return Ok(None) };
        let position = match replica.position() {
            Some(position) => position,
            None => {
                let asked = Instant::now();
                replica.add_position(asked, self.position().await?)
            }
        };
        replica.begin(how, &position, TO_EARLIER).await.map(Some)
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&self) -> Result<Transaction<'_>, Failure> {
        self.writes.begin(BEGIN).await
    }

    /// Begins a transaction whose statements all see one snapshot, for a decision.
    pub(crate) async fn begin_snapshot(&self) -> Result<Transaction<'_>, Failure> {
        self.writes.begin(BEGIN_SNAPSHOT).await
    }

    /// Returns once the synchronous standby has everything that was visible before the call. For an
    /// answer that says that something is stored: it may be visible without being on the standby,
    /// after the wait of its commit was cancelled or the server was restarted.
    pub(crate) async fn confirm(&self) -> Result<(), Failure> {
        self.begin().await?.confirm().await
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

    /// Where connections belong.
    pub(crate) fn runtime(&self) -> &Handle {
        self.writes.runtime()
    }

    /// Takes a connection, for a caller that sends `BEGIN` together with its first statements.
    pub(crate) async fn take_connection(&self) -> Result<Transaction<'_>, Failure> {
        self.writes.take().await
    }
}

/// Repeats a transaction that conflicted with another one, or whose connection was closed before it
/// committed.
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

/// A pause that doubles with every failure, with jitter, so that nodes do not retry at the same
/// time.
pub(crate) fn pause(failures: u32, first: Duration) -> Duration {
    let longest = first.saturating_mul(1 << failures.min(10)).min(MAX_PAUSE);
    let random = getrandom::u32().unwrap_or(u32::MAX);
    longest / 2 + (longest / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// A connection, and how to learn that it has ended.
pub(crate) struct Connection {
    pub(crate) client: Client,
    ended: watch::Receiver<()>,
    /// Whether the server stopped waiting for a synchronous standby and reported success.
    standby_skipped: Arc<AtomicBool>,
    /// Reads and writes the socket.
    task: AbortHandle,
    /// How to cancel a statement; `None` behind a pooler.
    cancel_with: Option<MakeRustlsConnect>,
    /// The statements of lookups; `None` behind a pooler, where the next statement may be for
    /// another connection of the server.
    pub(crate) prepared: Option<PreparedStatements>,
}

impl Connection {
    /// Whether a commit was reported as done that the standby may not have.
    pub(crate) fn has_skipped_standby(&self) -> bool {
        self.standby_skipped.load(Ordering::Acquire)
    }

    /// Returns once the server has answered everything that was sent, or the connection is lost,
    /// which keepalives notice. For a commit: a cancel request would end the wait for a synchronous
    /// standby and make the transaction visible that the standby does not have.
    pub(crate) async fn finish(self) {
        let Self { client, mut ended, .. } = self;
        drop(client);
        let _ended = ended.changed().await;
    }

    /// Gives up statements that may be under way, and returns once the connection has ended, or
    /// after `limit`. The server goes on with a statement whose client is gone, for as long as it
    /// waits for a lock: closing the socket before the end would leave its connection in use while
    /// the caller opens another one. So terse cancels what the server does, one statement after the
    /// other, if callers share the connection.
    ///
    /// Behind a pooler terse sends no cancel request: pgbouncer 1.18 (of Debian 12) exits when a
    /// client that cancels disconnects early. The server ends the statement by itself, and the
    /// connection with it.
    pub(crate) async fn abandon(self: Arc<Self>, limit: Duration) {
        let (mut ended, task) = (self.ended.clone(), self.task.clone());
        let (cancel, cancel_with) = (self.client.cancel_token(), self.cancel_with.clone());
        drop(self);
        let ends = async {
            if let Some(tls) = cancel_with {
                // Mostly it ends by itself: it was closed, or nothing was under way.
                let mut wait = Duration::from_millis(100);
                while tokio::time::timeout(wait, ended.changed()).await.is_err() {
                    let cancelled = cancel.cancel_query(tls.clone());
                    let _unheard = tokio::time::timeout(MAX_PAUSE, cancelled).await;
                    wait = (wait * 2).min(MAX_PAUSE);
                }
            } else {
                let _ended = ended.changed().await;
            }
        };
        if tokio::time::timeout(limit, ends).await.is_err() {
            task.abort();
            let _ended = ended.changed().await;
        }
    }
}

/// Makes connections. They belong to the runtime on which the store was opened, whichever thread
/// asks for one.
pub(crate) struct Connector {
    place: ServerUrl,
    tls: MakeRustlsConnect,
    runtime: Handle,
    timeout: Duration,
    /// Whether a pooler such as pgbouncer stands in between.
    has_pooler: bool,
}

impl Connector {
    /// Whether a pooler such as pgbouncer stands in between.
    pub(crate) fn has_pooler(&self) -> bool {
        self.has_pooler
    }

    /// To the primary: of several hosts, the one that accepts writes.
    pub(crate) fn new(url: &str, timeout: Duration) -> Result<Self, PostgresOpenError> {
        let mut connector = Self::new_replica(url, timeout)?;
        connector.place.config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(connector)
    }

    /// To whichever server the URL names.
    pub(crate) fn new_replica(url: &str, timeout: Duration) -> Result<Self, PostgresOpenError> {
        let place = ServerUrl::parse(url, timeout)?;
        let tls = tls::connector(place.roots.as_deref())?;
        Ok(Self { place, tls, runtime: Handle::current(), timeout, has_pooler: false })
    }

    pub(crate) async fn connect(&self) -> Result<Connection, BoxError> {
        let (config, tls) = (self.place.config.clone(), self.tls.clone());
        // Names with many addresses are tried one after the other. The attempt ends after `limit`,
        // also if its caller has given up before.
        let limit = self.timeout * 2;
        let has_pooler = self.has_pooler;
        let connecting = self.runtime.spawn(async move {
            let connected = tokio::time::timeout(limit, config.connect(tls.clone())).await;
            let (client, mut connection) =
                connected.map_err(|_| format!("no connection within {limit:?}"))??;
            let (alive, ended) = watch::channel(());
            let standby_skipped = Arc::new(AtomicBool::new(false));
            let skipped = Arc::clone(&standby_skipped);
            let task = tokio::spawn(async move {
                // Dropped last, also if the task is aborted.
                let _alive = alive;
                // The notice of a statement is read before its answer is passed on.
                while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                    match message {
                        Ok(AsyncMessage::Notice(notice)) => {
                            tracing::debug!(%notice, "the database sent a notice");
                            if is_standby_skipped(&notice) {
                                skipped.store(true, Ordering::Release);
                            }
                        }
                        Ok(_) => {}
                        Err(error) => {
                            tracing::debug!(%error, "a connection to the database ended");
                            break;
                        }
                    }
                }
            });
            let cancel_with = (!has_pooler).then_some(tls);
            let task = task.abort_handle();
            let prepared = (!has_pooler).then(PreparedStatements::default);
            Ok::<_, BoxError>(Connection {
                client,
                ended,
                standby_skipped,
                task,
                cancel_with,
                prepared,
            })
        });
        connecting.await?
    }

    /// Where connections belong.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn failed(&self, source: impl Into<BoxError>) -> PostgresOpenError {
        PostgresOpenError::Connect { place: self.place.shown.clone(), source: source.into() }
    }
}

/// Whether a notice says that a commit did not wait for its synchronous standby to the end. The
/// text depends on the language of the server; the name of the function that sends it does not.
fn is_standby_skipped(notice: &DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
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
