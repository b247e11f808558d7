//! Lookups. Those that arrive while others are under way are sent to the server in one statement.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use terse_core::{Link, LinkKey, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use super::queue::TaskQueue;
use super::row::{self, COLUMNS};
use crate::failure::unavailable;
use crate::pool::Pool;
use crate::sql::params;

/// How many lookups may wait.
const WAITING: usize = 65_536;
/// How many go into one statement.
const PER_STATEMENT: usize = 256;
/// How many statements may be under way. While all are, lookups gather for the next one.
const MAX_IN_FLIGHT: usize = 4;
/// How long a caller waits: for its turn, and for the statement.
const TIMEOUT: Duration = Duration::from_secs(5);

type Answer = Result<Option<Link>, StoreError>;
/// A key, and where its answer goes.
type Waiting = (LinkKey, oneshot::Sender<Answer>);

/// Sends lookups to the server.
pub(crate) struct Lookups {
    pool: Arc<Pool>,
    queue: TaskQueue<Waiting>,
}

impl Lookups {
    pub(crate) fn start(pool: Arc<Pool>) -> Self {
        let gathering = Arc::clone(&pool);
        let queue = TaskQueue::start(WAITING, |waiting| gather(gathering, waiting));
        Self { pool, queue }
    }

    pub(crate) async fn close(&self) {
        self.queue.close().await;
    }

    pub(crate) async fn get(&self, key: &LinkKey) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.queue.send((key.clone(), answer))?;
        match tokio::time::timeout(TIMEOUT, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(unavailable("the lookup was given up"))),
            Err(_) => Err(unavailable("the lookup waited too long")),
        }
    }

    pub(crate) async fn get_many(&self, keys: &[LinkKey]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(keys.len());
        for keys in keys.chunks(PER_STATEMENT) {
            answers.extend(find(&self.pool, keys).await);
        }
        answers
    }

    pub(crate) async fn get_folded(&self, key: &LinkKey) -> Answer {
        let sql = format!(
            "SELECT {COLUMNS} FROM links l \
             WHERE l.domain = $1 AND lower(l.code) = $2 AND NOT l.generated LIMIT 2"
        );
        let rows = self.pool.lookup(&sql, params![key.domain.as_str(), key.code.folded()]).await?;
        match &rows[..] {
            [only] => row::read(only, 0).map(Some),
            _ => Ok(None),
        }
    }
}

/// Takes what waits, as long as a statement may be sent. Returns when all statements have ended.
async fn gather(pool: Arc<Pool>, mut waiting: mpsc::Receiver<Waiting>) {
    let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    let mut statements = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&in_flight).acquire_owned().await else { break };
        while statements.try_join_next().is_some() {}
        let mut batch = Vec::new();
        if waiting.recv_many(&mut batch, PER_STATEMENT).await == 0 {
            break;
        }
        let pool = Arc::clone(&pool);
        statements.spawn(async move {
            let permit = permit;
            // The caller may have given up while its lookup waited.
            let batch = batch.into_iter().filter(|(_, answer)| !answer.is_closed());
            let (keys, answers): (Vec<_>, Vec<_>) = batch.unzip();
            if keys.is_empty() {
                return;
            }
            let found = find(&pool, &keys).await;
            drop(permit);
            for (answer, found) in answers.into_iter().zip(found) {
                // The caller may have given up.
                let _unheard = answer.send(found);
            }
        });
    }
    while statements.join_next().await.is_some() {}
}

/// Finds each key by one statement for all of them.
async fn find(pool: &Pool, keys: &[LinkKey]) -> Vec<Answer> {
    let (domains, codes): (Vec<&str>, Vec<&str>) =
        keys.iter().map(|key| (key.domain.as_str(), key.code.as_str())).unzip();
    let sql = format!(
        "SELECT {COLUMNS} FROM unnest($1, $2) AS k (domain, code) \
         JOIN links l ON l.domain = k.domain COLLATE \"C\" AND l.code = k.code COLLATE \"C\""
    );
    let found = pool.lookup(&sql, params![domains, codes]).await.map_err(StoreError::from);
    let mut by_key = HashMap::new();
    let failed = match found {
        Ok(rows) => {
            let mut unreadable = None;
            for row in &rows {
                match row::read_keyed(row) {
                    Ok((key, link)) => drop(by_key.insert(key, link)),
                    Err(error) => unreadable = Some(error),
                }
            }
            unreadable
        }
        Err(error) => Some(error),
    };
    if let Some(error) = failed {
        let why = super::describe(&error);
        return keys.iter().map(|_| Err(unavailable(why.clone()))).collect();
    }
    let answer = |key: &LinkKey| match by_key.get(key) {
        None => Ok(None),
        Some(Ok(link)) => Ok(Some(link.clone())),
        Some(Err(error)) => Err(crate::failure::corrupt(super::describe(error))),
    };
    keys.iter().map(answer).collect()
}
