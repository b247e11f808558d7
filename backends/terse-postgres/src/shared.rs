//! A connection that carries the statements of many callers at once, pipelined.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use terse_core::BoxError;
use tokio::sync::{Mutex, watch};
use tokio_postgres::Row;

use crate::failure::{Failure, unavailable};
use crate::pool::{Backoff, Connection, Connector};
use crate::sql::Param;

/// How long a connection that was given up may take to end, beyond the statement timeout of the
/// server.
const GRACE: Duration = Duration::from_secs(1);
/// The same behind a pooler, where a statement has the timeout of the role, if that has one.
const POOLER_LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct SharedConnection {
    connector: Arc<Connector>,
    /// How long the server may take for a statement.
    statement_timeout: Duration,
    current: Arc<RwLock<Option<Arc<Connection>>>>,
    connecting: Arc<Mutex<Backoff>>,
    /// Whether a connection was given up that has not ended yet. No other one is opened meanwhile:
    /// while a table is locked, each would wait for the lock, and the server has few.
    ending: watch::Sender<bool>,
}

impl SharedConnection {
    pub(crate) fn new(connector: Arc<Connector>, statement_timeout: Duration) -> Self {
        let (current, connecting, ending) =
            (Arc::default(), Arc::default(), watch::Sender::new(false));
        Self { connector, statement_timeout, current, connecting, ending }
    }

    /// Each statement is a transaction of its own. After a timeout the connection is replaced,
    /// because later statements on it would wait for the slow one.
    pub(crate) async fn query(
        &self,
        sql: &str,
        params: &[Param<'_>],
        deadline: Instant,
    ) -> Result<Vec<Row>, Failure> {
        let deadline = tokio::time::Instant::from_std(deadline);
        let connection = tokio::time::timeout_at(deadline, self.connection())
            .await
            .map_err(|_| Failure::Again("no connection in time".into()))??;
        let answer = async {
            match &connection.prepared {
                Some(prepared) => prepared.query(&connection.client, sql, params).await,
                None => connection.client.query_typed(sql, params).await,
            }
        };
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.give_up(connection);
                Err(unavailable("the database did not answer in time").into())
            }
        }
    }

    /// Whether a connection that was given up has not ended yet.
    pub(crate) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    fn usable(&self) -> Option<Arc<Connection>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|connection| !connection.client.is_closed()).cloned()
    }

    async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        let mut backoff = Arc::clone(&self.connecting).lock_owned().await;
        // Another caller may have connected meanwhile.
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        // It cannot fail: `self` has the sender.
        drop(self.ending.subscribe().wait_for(|ending| !ending).await);
        // Another connection may work.
        backoff.check().map_err(|error| Failure::Again(Box::new(error)))?;
        let (connector, current) = (Arc::clone(&self.connector), Arc::clone(&self.current));
        let statement_timeout = self.statement_timeout;
        // In a task of its own, so that it continues if its caller stops waiting.
        let connecting = self.connector.runtime().spawn(async move {
            match connect(&connector, statement_timeout).await {
                Ok(connection) => {
                    backoff.succeeded();
                    let connection = Arc::new(connection);
                    *current.write().unwrap_or_else(PoisonError::into_inner) =
                        Some(Arc::clone(&connection));
                    Ok(connection)
                }
                Err(error) => Err(backoff.failed(error)),
            }
        });
        match connecting.await {
            Ok(connected) => connected.map_err(|error| Failure::Again(Box::new(error))),
            Err(error) => Err(unavailable(error.to_string()).into()),
        }
    }

    /// Replaces a connection, unless another caller has done that already.
    fn give_up(&self, connection: Arc<Connection>) {
        {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            if !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &connection)) {
                return;
            }
            // Before another caller sees that there is none.
            self.ending.send_replace(true);
            *current = None;
        }
        let limit = match self.connector.has_pooler() {
            true => POOLER_LIMIT,
            false => self.statement_timeout + GRACE,
        };
        let ending = self.ending.clone();
        self.connector.runtime().spawn(async move {
            connection.abandon(limit).await;
            ending.send_replace(false);
        });
    }
}

/// Connects, and limits the time of each statement. Behind a pooler a setting would stay with a
/// connection that others use next.
async fn connect(connector: &Connector, limit: Duration) -> Result<Connection, BoxError> {
    let connection = connector.connect().await?;
    if !connector.has_pooler() {
        let sql = format!("SET statement_timeout = {}", limit.as_millis());
        tokio::time::timeout(limit, connection.client.batch_execute(&sql)).await??;
    }
    Ok(connection)
}
