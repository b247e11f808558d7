//! Look-ups that begin at the same moment share one trip to the store.
//!
//! A thread that serves many visitors meets several misses in one round of its runtime. The first
//! of them schedules a trip, which sets out when the round is over and takes everyone along: one
//! message to the store and one back, instead of two wake-ups each. Nobody waits for company: the
//! trip is already on its way in the queue when others join.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terse_core::{Link, LinkKey, LinkReader, StoreError};
use tokio::sync::oneshot;

/// The most to go on one trip.
const MAX_BATCH: usize = 256;
/// One place to gather for each serving thread, nearly always.
const PLACES: usize = 64;

type Waiting = Vec<(LinkKey, oneshot::Sender<Result<Option<Link>, StoreError>>)>;

/// The places where look-ups gather.
pub(crate) struct LookupBatcher {
    store: Arc<dyn LinkReader>,
    places: Vec<Arc<Mutex<Waiting>>>,
}

impl LookupBatcher {
    pub(crate) fn new(store: Arc<dyn LinkReader>) -> Self {
        Self { store, places: (0..PLACES).map(|_| Arc::default()).collect() }
    }

    /// Looks a link up, together with all others that are looked up on this thread now.
    pub(crate) async fn get(&self, key: LinkKey) -> Result<Option<Link>, StoreError> {
        let (sender, answer) = oneshot::channel();
        let place = &self.places[place_of_thread() % PLACES];
        let first = {
            let mut waiting = lock(place);
            waiting.push((key, sender));
            waiting.len() == 1
        };
        if first {
            tokio::spawn(travel(Arc::clone(&self.store), Arc::clone(place)));
        }
        match answer.await {
            Ok(found) => found,
            Err(dropped) => Err(StoreError::Unavailable(dropped.into())),
        }
    }
}

async fn travel(store: Arc<dyn LinkReader>, place: Arc<Mutex<Waiting>>) {
    let mut waiting = std::mem::take(&mut *lock(&place));
    while !waiting.is_empty() {
        let rest = waiting.split_off(waiting.len().min(MAX_BATCH));
        let (keys, senders): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
        for (found, sender) in store.get_many(&keys).await.into_iter().zip(senders) {
            let _gone = sender.send(found);
        }
        waiting = rest;
    }
}

fn lock(place: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A small number that stays the same on each thread.
fn place_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    PLACE.with(|place| match place.get() {
        Some(number) => number,
        None => {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            place.set(Some(number));
            number
        }
    })
}
