//! Lookups. Those that arrive while others are under way are sent to the server together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use terse_core::{Link, LinkKey, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use crate::changes::RecentChanges;
use crate::client::Db;
use crate::folded_aliases::FoldedAliases;
use crate::item::{Attributes as _, Item};
use crate::keys;
use crate::requests::MAX_KEYS;
use crate::row;

/// How many lookups may wait.
const WAITING: usize = 65_536;
/// How many requests may be under way. While all are, lookups gather for the next one.
const MAX_IN_FLIGHT: usize = 16;
type Answer = Result<Option<Link>, StoreError>;
/// A key, and where its answer goes.
type Waiting = (LinkKey, oneshot::Sender<Answer>);

/// Where links are read.
#[derive(Clone)]
pub(crate) struct Source {
    /// The home region, read with strong consistency.
    pub(crate) home: Db,
    /// The replica of this node's region. A link that is not there yet, or whose change may not be,
    /// is read in the home region.
    pub(crate) near: Option<Db>,
    pub(crate) recent: Arc<RecentChanges>,
}

/// Sends lookups to the server.
pub(crate) struct Lookups {
    source: Source,
    queue: Mutex<Option<mpsc::Sender<Waiting>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Lookups {
    pub(crate) fn start(source: Source) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        let task = tokio::spawn(gather(source.clone(), waiting));
        Self { source, queue: Mutex::new(Some(queue)), task: Mutex::new(Some(task)) }
    }

    pub(crate) async fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A task that panicked has nothing left to finish.
            let _ended = task.await;
        }
    }

    pub(crate) async fn get(&self, key: &LinkKey) -> Answer {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let queue = queue.ok_or_else(|| unavailable("the store is closed"))?;
        queue.try_send((key.clone(), answer)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => unavailable("the store has stopped"),
        })?;
        // As long as for one request: a lookup that waits longer for its turn is too late anyway.
        match tokio::time::timeout(self.source.home.budget(), answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(unavailable("the lookup was given up"))),
            Err(_) => Err(unavailable("the lookup waited too long")),
        }
    }

    pub(crate) async fn get_many(&self, keys: &[LinkKey]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(keys.len());
        for keys in keys.chunks(MAX_KEYS) {
            answers.extend(find(&self.source, keys).await);
        }
        answers
    }

    pub(crate) async fn get_folded(&self, key: &LinkKey) -> Answer {
        let db = &self.source.home;
        let item_key = keys::folded(&key.domain, &key.code.folded());
        let item = db.get(db.deadline(), &item_key, true).await.map_err(StoreError::from)?;
        match FoldedAliases::read(item.as_ref())?.only() {
            Some(code) => self.get(&LinkKey { domain: key.domain.clone(), code }).await,
            None => Ok(None),
        }
    }
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.into())
}

/// Takes what waits, as long as a request may be sent. Returns when all requests have ended.
async fn gather(source: Source, mut waiting: mpsc::Receiver<Waiting>) {
    let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    let mut requests = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&in_flight).acquire_owned().await else { break };
        while requests.try_join_next().is_some() {}
        let mut batch = Vec::new();
        if waiting.recv_many(&mut batch, MAX_KEYS).await == 0 {
            break;
        }
        let source = source.clone();
        requests.spawn(async move {
            let permit = permit;
            // The caller may have given up while its lookup waited.
            let batch = batch.into_iter().filter(|(_, answer)| !answer.is_closed());
            let (keys, answers): (Vec<_>, Vec<_>) = batch.unzip();
            if keys.is_empty() {
                return;
            }
            let found = find(&source, &keys).await;
            drop(permit);
            for (answer, found) in answers.into_iter().zip(found) {
                // The caller may have given up.
                let _unheard = answer.send(found);
            }
        });
    }
    while requests.join_next().await.is_some() {}
}

/// Finds each key by one request for all of them, or two beside a replica.
async fn find(source: &Source, keys: &[LinkKey]) -> Vec<Answer> {
    let mut wanted: Vec<&LinkKey> = keys.iter().collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut items: HashMap<String, Item> = HashMap::new();
    if let Some(near) = &source.near {
        let settled: Vec<&LinkKey> =
            wanted.iter().copied().filter(|key| !source.recent.contains(key)).collect();
        // A replica that fails costs time, not answers: the home region has all links.
        if let Ok(found) = read(near, &settled, false).await {
            items.extend(found);
        }
        wanted.retain(|key| !items.contains_key(&keys::link(key).pk));
    }
    match read(&source.home, &wanted, true).await {
        Ok(found) => items.extend(found),
        Err(why) => {
            // What the replica had is answered anyway.
            let is_missing = |key: &LinkKey| !items.contains_key(&keys::link(key).pk);
            let answer = |key: &LinkKey| match (is_missing(key), &why) {
                (false, _) => link_of(&items, key),
                (true, StoreError::Busy) => Err(StoreError::Busy),
                (true, error) => Err(unavailable(&describe(error))),
            };
            return keys.iter().map(answer).collect();
        }
    }
    keys.iter().map(|key| link_of(&items, key)).collect()
}

fn link_of(items: &HashMap<String, Item>, key: &LinkKey) -> Answer {
    match items.get(&keys::link(key).pk) {
        None => Ok(None),
        Some(item) => Ok(row::read(item)?.map(|stored| stored.link)),
    }
}

pub(crate) fn describe(error: &StoreError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

async fn read(
    db: &Db,
    keys: &[&LinkKey],
    is_consistent: bool,
) -> Result<Vec<(String, Item)>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<_> = keys.iter().map(|key| keys::link(key)).collect();
    let items = db.get_all(db.deadline(), &keys, is_consistent).await.map_err(StoreError::from)?;
    items.into_iter().map(|item| Ok((item.text(keys::PK)?.to_owned(), item))).collect()
}
