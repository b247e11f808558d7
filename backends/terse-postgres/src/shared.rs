//! A connection that carries the statements of many callers at once, pipelined.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio::sync::Mutex;
use tokio_postgres::{Client, Row};

use crate::failure::{Failure, unavailable};
use crate::pool::{Backoff, Connector};
use crate::sql::Param;

pub(crate) struct SharedConnection {
    connector: Arc<Connector>,
    current: Arc<RwLock<Option<Arc<Client>>>>,
    connecting: Arc<Mutex<Backoff>>,
}

impl SharedConnection {
    pub(crate) fn new(connector: Arc<Connector>) -> Self {
        Self { connector, current: Arc::default(), connecting: Arc::default() }
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
        let client = tokio::time::timeout_at(deadline, self.client())
            .await
            .map_err(|_| Failure::Again("no connection in time".into()))??;
        match tokio::time::timeout_at(deadline, client.query_typed(sql, params)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.drop_if_current(&client);
                Err(unavailable("the database did not answer in time").into())
            }
        }
    }

    fn usable(&self) -> Option<Arc<Client>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|client| !client.is_closed()).cloned()
    }

    async fn client(&self) -> Result<Arc<Client>, Failure> {
        if let Some(client) = self.usable() {
            return Ok(client);
        }
        let mut backoff = Arc::clone(&self.connecting).lock_owned().await;
        // Another caller may have connected meanwhile.
        if let Some(client) = self.usable() {
            return Ok(client);
        }
        // Another connection may work.
        backoff.check().map_err(|error| Failure::Again(Box::new(error)))?;
        let (connector, current) = (Arc::clone(&self.connector), Arc::clone(&self.current));
        // In a task of its own, so that it continues if its caller stops waiting.
        let connecting = self.connector.runtime().spawn(async move {
            match connector.connect().await {
                Ok(connection) => {
                    backoff.succeeded();
                    let client = Arc::new(connection.client);
                    *current.write().unwrap_or_else(PoisonError::into_inner) =
                        Some(Arc::clone(&client));
                    Ok(client)
                }
                Err(error) => Err(backoff.failed(error)),
            }
        });
        match connecting.await {
            Ok(connected) => connected.map_err(|error| Failure::Again(Box::new(error))),
            Err(error) => Err(unavailable(error.to_string()).into()),
        }
    }

    fn drop_if_current(&self, client: &Arc<Client>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, client)) {
            *current = None;
        }
    }
}
