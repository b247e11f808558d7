//! Clicks of links with `max_clicks`. Visits that wait together are counted in one transaction, by
//! one task: a link that very many follow takes one connection, and creates have the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use terse_core::{ClickSpend, LinkKey, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::queue::TaskQueue;
use super::row::key_of;
use crate::failure::{Failure, unavailable};
use crate::pool::{BEGIN, Pool};
use crate::sql::params;

/// How many visits may wait.
const WAITING: usize = 4096;
/// How many visits one transaction counts.
const PER_COMMIT: usize = 1024;
/// How long a batch waits for links that another transaction has locked: less than visitors wait,
/// so that one such link costs the others a moment, and not their clicks.
const LOCK_TIMEOUT: Duration = Duration::from_millis(150);
/// How long a visit waits for its commit.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Locks the links, in the same order on every node, so that two of them never wait for each other.
/// A row that had to be waited for is returned as it is then.
const LOCK: &str = "SELECT l.domain, l.code, l.max_clicks, l.spent_clicks \
     FROM unnest($1, $2) AS k (domain, code) \
     JOIN links l ON l.domain = k.domain COLLATE \"C\" AND l.code = k.code COLLATE \"C\" \
     ORDER BY l.domain, l.code FOR NO KEY UPDATE OF l";
const SPEND: &str = "UPDATE links l \
     SET spent_clicks = least(l.max_clicks, l.spent_clicks + k.visits) \
     FROM unnest($1, $2, $3) AS k (domain, code, visits) \
     WHERE l.domain = k.domain COLLATE \"C\" AND l.code = k.code COLLATE \"C\" \
     AND l.spent_clicks < l.max_clicks";

type Answer = Result<ClickSpend, StoreError>;
/// The link that a visitor follows, and where the answer goes.
type Waiting = (LinkKey, oneshot::Sender<Answer>);
/// The visits of each link, in the order in which they came.
type Visits = BTreeMap<LinkKey, Vec<oneshot::Sender<Answer>>>;

/// Counts visits.
pub(crate) struct Spender {
    queue: TaskQueue<Waiting>,
}

impl Spender {
    pub(crate) fn start(pool: Arc<Pool>) -> Self {
        let queue = TaskQueue::start(WAITING, |waiting| spend_all(pool, waiting));
        Self { queue }
    }

    pub(crate) async fn close(&self) {
        self.queue.close().await;
    }

    /// Counts one visit. A caller that gives up does not interrupt the transaction: its visit is
    /// counted, or was not begun.
    pub(crate) async fn spend(&self, key: &LinkKey) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.queue.send((key.clone(), answer))?;
        match tokio::time::timeout(TIMEOUT, answered).await {
            Ok(answered) => answered.unwrap_or_else(|_| Err(unavailable("the store was closed"))),
            Err(_) => Err(unavailable("the click took too long")),
        }
    }
}

async fn spend_all(pool: Arc<Pool>, mut queue: mpsc::Receiver<Waiting>) {
    loop {
        let mut arrived = Vec::new();
        if queue.recv_many(&mut arrived, PER_COMMIT).await == 0 {
            return;
        }
        let mut visits = Visits::new();
        for (key, answer) in arrived {
            visits.entry(key).or_default().push(answer);
        }
        spend(&pool, visits).await;
    }
}

/// Counts visits and answers them.
async fn spend(pool: &Pool, mut visits: Visits) {
    // Visitors who gave up while they waited spend nothing.
    visits.retain(|_, answers| {
        answers.retain(|answer| !answer.is_closed());
        !answers.is_empty()
    });
    if visits.is_empty() {
        return;
    }
    let error = match commit(pool, &visits).await {
        Ok(left) => {
            for (key, answers) in visits {
                let left = left.get(&key);
                for (n, answer) in (0..).zip(answers) {
                    let spent = match left {
                        None => ClickSpend::Missing,
                        Some(left) if n < *left => ClickSpend::Yes,
                        Some(_) => ClickSpend::UsedUp,
                    };
                    let _unheard = answer.send(Ok(spent));
                }
            }
            return;
        }
        Err(failure @ (Failure::Unknown(_) | Failure::Refused(StoreError::Busy))) => failure.into(),
        // Nothing was written, because of one link perhaps: each is tried without the others.
        Err(_) if visits.len() > 1 => {
            for (key, answers) in visits {
                Box::pin(spend(pool, Visits::from([(key, answers)]))).await;
            }
            return;
        }
        Err(failure) => StoreError::from(failure),
    };
    let why = super::describe(&error);
    for answer in visits.into_values().flatten() {
        let _unheard = answer.send(Err(match error {
            StoreError::Busy => StoreError::Busy,
            _ => unavailable(why.clone()),
        }));
    }
}

/// Counts visits in one transaction and one round trip. Returns how many clicks each link had left
/// before, for the links that there are.
async fn commit(pool: &Pool, visits: &Visits) -> Result<BTreeMap<LinkKey, i64>, Failure> {
    let (domains, codes): (Vec<&str>, Vec<&str>) =
        visits.keys().map(|key| (key.domain.as_str(), key.code.as_str())).unzip();
    let counts: Vec<i64> = visits.values().map(|answers| answers.len() as i64).collect();
    let limit = format!("SET LOCAL lock_timeout = {}", LOCK_TIMEOUT.as_millis());
    let (keys, spent) = (params![domains, codes], params![domains, codes, counts]);
    let mut transaction = pool.take_connection().await?;
    let (begun, limited, found, updated, committed) = tokio::join!(
        biased;
        transaction.begin(BEGIN),
        transaction.batch(&limit),
        transaction.query(LOCK, keys),
        transaction.execute(SPEND, spent),
        transaction.send_commit(),
    );
    // All were sent together: if the connection was lost, the commit may have happened.
    if let Err(lost @ Failure::Unknown(_)) = committed {
        return Err(lost);
    }
    // The first failure is the cause of the others.
    begun?;
    limited?;
    let found = found?;
    updated?;
    committed?;
    transaction.give_back();
    let mut left = BTreeMap::new();
    for row in &found {
        let (max, spent): (Option<i64>, i64) = (row.get(2), row.get(3));
        left.insert(key_of(row, 0)?, max.map_or(i64::MAX, |max| max.saturating_sub(spent)));
    }
    Ok(left)
}
