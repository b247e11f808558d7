//! Lookups of codes that were probably never issued.
//!
//! A scanner that tries random codes causes as many misses as it sends requests. A store that
//! several nodes share cannot refuse them by arithmetic, because another node may have issued the
//! code a moment ago. These lookups therefore have a queue of their own, which is bounded, and one
//! call of the store at a time, for all serving threads together. The other lookups do not wait
//! for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use terse_core::{Link, LinkKey, LinkReader, StoreError};
use tokio::sync::oneshot;

/// The most lookups in one call.
const MAX_BATCH: usize = 32;
/// The most lookups that wait. More are refused at once.
pub(crate) const MAX_WAITING: usize = 256;

type Waiting = (LinkKey, oneshot::Sender<Result<Option<Link>, StoreError>>);

/// Collects the lookups of all threads and reads them in small batches, one after the other.
pub(crate) struct UnissuedLane {
    store: Arc<dyn LinkReader>,
    queue: Arc<Mutex<Queue>>,
    /// How long one call may take.
    timeout: Duration,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Whether a task is reading.
    is_read: bool,
}

impl UnissuedLane {
    pub(crate) fn new(store: Arc<dyn LinkReader>, timeout: Duration) -> Self {
        Self { store, queue: Arc::default(), timeout }
    }

    /// Looks a link up when its turn comes. `Busy` if too many lookups wait.
    pub(crate) async fn get(&self, key: LinkKey) -> Result<Option<Link>, StoreError> {
        let (sender, answer) = oneshot::channel();
        let starts = {
            let mut queue = lock(&self.queue);
            if queue.waiting.len() >= MAX_WAITING {
                // Visitors who have disconnected leave their places to others.
                queue.waiting.retain(|(_, sender)| !sender.is_closed());
            }
            if queue.waiting.len() >= MAX_WAITING {
                return Err(StoreError::Busy);
            }
            queue.waiting.push_back((key, sender));
            !std::mem::replace(&mut queue.is_read, true)
        };
        if starts {
            let reading = Reading { queue: Arc::clone(&self.queue), has_ended: false };
            tokio::spawn(read_all(Arc::clone(&self.store), reading, self.timeout));
        }
        answer.await.unwrap_or_else(|dropped| Err(StoreError::Unavailable(dropped.into())))
    }
}

/// The task that reads. If its runtime stops, the next lookup starts another one.
struct Reading {
    queue: Arc<Mutex<Queue>>,
    /// Whether it has found the queue empty. Another task may be reading by now.
    has_ended: bool,
}

impl Reading {
    /// The next lookups whose visitors still wait; none if the queue is empty, and then the task
    /// ends.
    fn next(&mut self) -> Vec<Waiting> {
        let mut queue = lock(&self.queue);
        let mut batch = Vec::new();
        while batch.len() < MAX_BATCH {
            let Some(waiting) = queue.waiting.pop_front() else { break };
            if !waiting.1.is_closed() {
                batch.push(waiting);
            }
        }
        if batch.is_empty() {
            queue.is_read = false;
            self.has_ended = true;
        }
        batch
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.queue).is_read = false;
        }
    }
}

async fn read_all(store: Arc<dyn LinkReader>, mut reading: Reading, timeout: Duration) {
    loop {
        let batch = reading.next();
        if batch.is_empty() {
            return;
        }
        let (keys, senders): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        // After the timeout the senders are dropped, and their visitors get 503.
        if let Ok(found) = tokio::time::timeout(timeout, store.get_many(&keys)).await {
            for (found, sender) in found.into_iter().zip(senders) {
                // The visitor may have disconnected.
                let _ = sender.send(found);
            }
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
