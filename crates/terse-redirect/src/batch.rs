//! Batches lookups: misses that a thread meets in the same round of its runtime share one call of
//! the store.
//!
//! The first miss of a round spawns a task. The task runs when the round is over and takes all
//! lookups that were added meanwhile: one message to the store and one back, instead of two
//! wake-ups per lookup. No lookup waits longer for this, because the task is already queued when
//! others join.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terse_core::{Link, LinkKey, LinkReader, StoreError};
use tokio::sync::oneshot;

/// The most lookups in one call.
const MAX_BATCH: usize = 256;
/// One queue for each serving thread on machines with up to this many.
const QUEUES: usize = 64;

type Queue = Vec<(LinkKey, oneshot::Sender<Result<Option<Link>, StoreError>>)>;

/// Collects the lookups of each thread.
pub(crate) struct LookupBatcher {
    store: Arc<dyn LinkReader>,
    queues: Vec<Arc<Mutex<Queue>>>,
}

impl LookupBatcher {
    pub(crate) fn new(store: Arc<dyn LinkReader>) -> Self {
        Self { store, queues: (0..QUEUES).map(|_| Arc::default()).collect() }
    }

    /// Looks a link up, in one call with the other lookups of this thread.
    pub(crate) async fn get(&self, key: LinkKey) -> Result<Option<Link>, StoreError> {
        let (sender, answer) = oneshot::channel();
        let queue = &self.queues[thread_number() % QUEUES];
        let first = {
            let mut waiting = lock(queue);
            waiting.push((key, sender));
            waiting.len() == 1
        };
        if first {
            tokio::spawn(look_up_all(Arc::clone(&self.store), Arc::clone(queue)));
        }
        match answer.await {
            Ok(found) => found,
            Err(dropped) => Err(StoreError::Unavailable(dropped.into())),
        }
    }
}

async fn look_up_all(store: Arc<dyn LinkReader>, queue: Arc<Mutex<Queue>>) {
    let mut waiting = std::mem::take(&mut *lock(&queue));
    while !waiting.is_empty() {
        let rest = waiting.split_off(waiting.len().min(MAX_BATCH));
        let (keys, senders): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
        for (found, sender) in store.get_many(&keys).await.into_iter().zip(senders) {
            // The visitor may have disconnected.
            let _ = sender.send(found);
        }
        waiting = rest;
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A small number for the current thread, which stays the same.
///
/// Static, because threads belong to the process and outlive a batcher; the number only spreads
/// threads over queues, and two threads with the same queue are merely batched together.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.with(|mine| match mine.get() {
        Some(number) => number,
        None => {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            mine.set(Some(number));
            number
        }
    })
}
