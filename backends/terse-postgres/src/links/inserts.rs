//! New links. One task commits those of all callers, as many as wait, in one transaction.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use terse_core::{Insert, Inserted, Numbering, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::insert_batch::{self, Claims};
use super::queue::TaskQueue;
use crate::failure::{Failure, unavailable};
use crate::pool::{Pool, pause};

/// How many links one transaction writes.
const PER_COMMIT: usize = 256;
/// How often a batch is tried that conflicted with another transaction or lost its connection.
const ATTEMPTS: u32 = 5;
/// How long a caller waits for its commit.
const TIMEOUT: Duration = Duration::from_secs(20);

type Answer = Result<Inserted, StoreError>;

/// A link that waits.
pub(crate) struct Waiting {
    pub(crate) insert: Insert,
    pub(crate) claims: Claims,
    /// Whether an earlier attempt may have been committed.
    pub(crate) maybe_done: bool,
    answer: oneshot::Sender<Answer>,
}

impl Waiting {
    /// An insert whose caller gets no answer: the store only previews it.
    pub(crate) fn unanswered(insert: Insert) -> Self {
        let claims = Claims::of(&insert);
        Self { insert, claims, maybe_done: false, answer: oneshot::channel().0 }
    }
}

/// Sends new links to the server.
pub(crate) struct Inserter {
    queue: TaskQueue<Waiting>,
}

impl Inserter {
    pub(crate) fn start(pool: Arc<Pool>, numbering: Numbering, bound: usize) -> Self {
        let queue = TaskQueue::start(bound, |waiting| commit_all(pool, numbering, waiting));
        Self { queue }
    }

    pub(crate) fn depth(&self) -> usize {
        self.queue.depth()
    }

    pub(crate) async fn close(&self) {
        self.queue.close().await;
    }

    pub(crate) async fn insert(&self, insert: Insert) -> Answer {
        let (answer, answered) = oneshot::channel();
        let claims = Claims::of(&insert);
        self.queue.send(Waiting { insert, claims, maybe_done: false, answer })?;
        match tokio::time::timeout(TIMEOUT, answered).await {
            Ok(answered) => answered.unwrap_or_else(|_| Err(unavailable("the store was closed"))),
            Err(_) => Err(unavailable("the commit took too long")),
        }
    }
}

async fn commit_all(pool: Arc<Pool>, numbering: Numbering, mut queue: mpsc::Receiver<Waiting>) {
    // Links that claim the same name, request or reuse as one of the batch before them.
    let mut deferred = VecDeque::new();
    loop {
        let mut arrived = Vec::new();
        let room = PER_COMMIT.saturating_sub(deferred.len()).max(1);
        if deferred.is_empty() {
            if queue.recv_many(&mut arrived, room).await == 0 {
                return;
            }
        } else {
            while arrived.len() < room
                && let Ok(waiting) = queue.try_recv()
            {
                arrived.push(waiting);
            }
        }
        let (mut batch, mut claimed) = (Vec::new(), HashSet::new());
        let mut later = VecDeque::new();
        for waiting in deferred.drain(..).chain(arrived) {
            // The caller has given up, and nothing was written for it yet.
            if waiting.answer.is_closed() {
                continue;
            }
            if batch.len() < PER_COMMIT
                && waiting.claims.all().all(|claim| !claimed.contains(&claim))
            {
                claimed.extend(waiting.claims.all());
                batch.push(waiting);
            } else {
                later.push_back(waiting);
            }
        }
        deferred = later;
        commit(&pool, &numbering, batch).await;
    }
}

/// Commits a batch and answers its callers. If the answer to a commit is lost, the batch is tried
/// again, because only the database knows whether it was committed. If a link is stored exactly as
/// it was sent, the first attempt succeeded.
async fn commit(pool: &Pool, numbering: &Numbering, mut batch: Vec<Waiting>) {
    // The same order on every node, so that two of them never wait for each other.
    batch.sort_by(|a, b| a.insert.link.key.cmp(&b.insert.link.key));
    let mut tries = 1;
    let outcome = loop {
        match insert_batch::write(pool, numbering, &batch).await {
            Ok(answers) => break Ok(answers),
            Err(failure @ (Failure::Again(_) | Failure::Unknown(_))) if tries < ATTEMPTS => {
                if let Failure::Unknown(error) = &failure {
                    tracing::warn!(%error, "a commit was not answered; checking whether it succeeded");
                    batch.iter_mut().for_each(|waiting| waiting.maybe_done = true);
                }
                tokio::time::sleep(pause(tries, Duration::from_millis(5))).await;
                tries += 1;
            }
            // One link has a value that the database refuses: the others are tried without it.
            Err(failure) if batch.len() > 1 && failure.is_about_a_value() => {
                for waiting in batch {
                    Box::pin(commit(pool, numbering, vec![waiting])).await;
                }
                return;
            }
            // Each link has up to three locks, and the server keeps those of all transactions in a
            // table of a fixed size.
            Err(failure) if batch.len() > 1 && failure.is_about_the_size() => {
                let second = batch.split_off(batch.len() / 2);
                Box::pin(commit(pool, numbering, batch)).await;
                Box::pin(commit(pool, numbering, second)).await;
                return;
            }
            Err(failure) => break Err(StoreError::from(failure)),
        }
    };
    match outcome {
        Ok(answers) => {
            for (waiting, answer) in batch.into_iter().zip(answers) {
                let _unheard = waiting.answer.send(answer);
            }
        }
        Err(error) => {
            let why = super::describe(&error);
            tracing::warn!(links = batch.len(), why, "new links could not be committed");
            for waiting in batch {
                let error = match error {
                    StoreError::Busy if !waiting.maybe_done => StoreError::Busy,
                    _ => unavailable(why.clone()),
                };
                let _unheard = waiting.answer.send(Err(error));
            }
        }
    }
}
