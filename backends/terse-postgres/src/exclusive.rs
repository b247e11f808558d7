//! Connections that belong to one caller while its transaction or list lasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use terse_core::StoreError;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, Row};

use crate::failure::{Failure, unavailable};
use crate::pool::{Backoff, Connection, Connector};
use crate::sql::Param;

/// How long the client waits beyond the statement timeout of the server, which then answers.
const GRACE: Duration = Duration::from_secs(1);

/// Without a statement timeout: at a timeout the server would stop waiting for a standby and report
/// success. The notice of a wait that was cancelled must arrive.
const COMMIT: &str =
    "SET LOCAL statement_timeout = 0; SET LOCAL client_min_messages = notice; COMMIT";
/// Writes something that no table has: a transaction that wrote nothing does not wait for the
/// standby.
const WRITE_NOTHING: &str = "SELECT pg_logical_emit_message(true, 'terse', '')";

pub(crate) struct ExclusivePool {
    connector: Arc<Connector>,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    backoff: Mutex<Backoff>,
    /// The timeouts of a transaction. They are set in the transaction, because a pooler may give
    /// the next one to another connection.
    settings: String,
    timeout: Duration,
}

impl ExclusivePool {
    pub(crate) fn new(connector: Arc<Connector>, size: usize, timeout: Duration) -> Self {
        let ms = timeout.as_millis();
        Self {
            connector,
            permits: Arc::new(Semaphore::new(size)),
            idle: Mutex::default(),
            backoff: Mutex::default(),
            settings: format!(
                "SET LOCAL statement_timeout = {ms}; SET LOCAL lock_timeout = {}; \
                 SET LOCAL idle_in_transaction_session_timeout = {}",
                ms / 2,
                ms * 2
            ),
            timeout,
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        self.connector.runtime()
    }

    /// Opens the first connection.
    pub(crate) async fn connect(&self) -> Result<(), terse_core::BoxError> {
        let connection = self.connector.connect().await?;
        self.idle().push(connection);
        Ok(())
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backoff(&self) -> std::sync::MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection without a transaction.
    pub(crate) async fn take(&self) -> Result<Transaction<'_>, Failure> {
        let permit = self.permit(self.timeout).await?;
        self.take_with(permit).await
    }

    /// Waits until one of the connections is free. `Busy` means that all are in use for `limit`.
    pub(crate) async fn permit(&self, limit: Duration) -> Result<OwnedSemaphorePermit, StoreError> {
        tokio::time::timeout(limit, Arc::clone(&self.permits).acquire_owned())
            .await
            .map_err(|_| StoreError::Busy)?
            .map_err(|_| unavailable("the store is closed"))
    }

    /// A connection without a transaction, in the place of `permit`.
    pub(crate) async fn take_with(
        &self,
        permit: OwnedSemaphorePermit,
    ) -> Result<Transaction<'_>, Failure> {
        let idle = {
            let mut idle = self.idle();
            idle.retain(|connection| !connection.client.is_closed());
            idle.pop()
        };
        let connection = match idle {
            Some(connection) => connection,
            None => {
                self.backoff().check()?;
                match self.connector.connect().await {
                    Ok(connection) => {
                        self.backoff().succeeded();
                        connection
                    }
                    Err(error) => return Err(self.backoff().failed(error).into()),
                }
            }
        };
        let committing = AtomicBool::new(false);
        Ok(Transaction { pool: self, held: Some((connection, permit)), committing })
    }

    /// Begins a transaction with its timeouts.
    pub(crate) async fn begin(&self, how: &str) -> Result<Transaction<'_>, Failure> {
        let transaction = self.take().await?;
        transaction.begin(how).await?;
        Ok(transaction)
    }

    /// One read.
    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        let transaction = self.begin("BEGIN READ ONLY").await?;
        let rows = transaction.query(sql, params).await?;
        transaction.commit().await?;
        Ok(rows)
    }
}

/// A connection with a transaction. If it is dropped without a commit, the connection is given up,
/// and the server rolls back; its place in the pool is free once it has ended. Behind a pooler that
/// is when the server has ended the statement, at the statement timeout at the latest.
///
/// If it is dropped after `COMMIT` was sent, its place in the pool is free once the server has
/// answered or the connection is lost. A commit that waits for a standby is never cancelled.
pub(crate) struct Transaction<'a> {
    pool: &'a ExclusivePool,
    held: Option<(Connection, OwnedSemaphorePermit)>,
    /// Whether `COMMIT` was sent.
    committing: AtomicBool,
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some((connection, permit)) = self.held.take() {
            let limit = self.pool.timeout + GRACE;
            let committing = *self.committing.get_mut();
            self.pool.connector.runtime().spawn(async move {
                match committing {
                    true => connection.finish().await,
                    false => Arc::new(connection).abandon(limit).await,
                }
                drop(permit);
            });
        }
    }
}

impl Transaction<'_> {
    fn client(&self) -> Result<&Client, Failure> {
        match &self.held {
            Some((connection, _)) => Ok(&connection.client),
            None => Err(unavailable("the transaction is over").into()),
        }
    }

    async fn limited<T>(
        &self,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.pool.timeout + GRACE, statement).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(unavailable("the database did not answer in time").into()),
        }
    }

    /// `BEGIN`, or a variant of it, and the timeouts.
    pub(crate) async fn begin(&self, how: &str) -> Result<(), Failure> {
        let sql = format!("{how}; {}", self.pool.settings);
        self.limited(self.client()?.batch_execute(&sql)).await
    }

    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        self.limited(self.client()?.query_typed(sql, params)).await
    }

    pub(crate) async fn query_opt(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.query(sql, params).await?.pop())
    }

    pub(crate) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Failure> {
        self.limited(self.client()?.execute_typed(sql, params)).await
    }

    /// Several statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Failure> {
        self.limited(self.client()?.batch_execute(sql)).await
    }

    /// Sends `COMMIT`. If the connection is lost before the answer, or the standby may not have the
    /// transaction, the outcome is unknown.
    pub(crate) async fn send_commit(&self) -> Result<(), Failure> {
        let Some((connection, _)) = &self.held else {
            return Err(unavailable("the transaction is over").into());
        };
        self.committing.store(true, Ordering::Relaxed);
        let unknown = |why: terse_core::BoxError| Failure::Unknown(why);
        let committed = connection.client.batch_execute(COMMIT);
        match tokio::time::timeout(self.pool.timeout + GRACE, committed).await {
            Ok(Ok(())) if connection.has_skipped_standby() => {
                Err(unknown("the server did not wait for its standby to the end".into()))
            }
            Ok(Ok(())) => Ok(()),
            // The server answered: the transaction was rolled back.
            Ok(Err(error)) if error.as_db_error().is_some_and(|e| !ends_connection(e)) => {
                Err(error.into())
            }
            Ok(Err(error)) => Err(unknown(error.into())),
            Err(_) => Err(unknown("the commit was not answered in time".into())),
        }
    }

    /// Commits and gives the connection back.
    pub(crate) async fn commit(mut self) -> Result<(), Failure> {
        self.send_commit().await?;
        self.give_back();
        Ok(())
    }

    /// Ends a transaction that found what an earlier one wrote, and returns once the synchronous
    /// standby has it: a later write is replicated after all earlier ones.
    pub(crate) async fn confirm(self) -> Result<(), Failure> {
        self.batch(WRITE_NOTHING).await?;
        self.commit().await
    }

    /// Ends a transaction that has written nothing.
    pub(crate) async fn rollback(mut self) -> Result<(), Failure> {
        self.batch("ROLLBACK").await?;
        self.give_back();
        Ok(())
    }

    /// Gives back a connection whose transaction has ended.
    pub(crate) fn give_back(&mut self) {
        if let Some((connection, permit)) = self.held.take() {
            self.pool.idle().push(connection);
            drop(permit);
        }
    }
}

/// Whether the server ended the connection, as when it shuts down.
fn ends_connection(error: &tokio_postgres::error::DbError) -> bool {
    matches!(error.severity(), "FATAL" | "PANIC")
        || error.code().code().starts_with("57P")
        || error.code().code().starts_with("08")
}
