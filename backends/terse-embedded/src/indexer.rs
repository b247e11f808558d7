//! The thread that puts new and changed links into the search index.
//!
//! It has no connection of its own: it queues jobs for the writer thread, one at a time, so that
//! other writes come in between.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::queue::Queue;
use crate::writer::{QueuedWrite, WriteJob};
use crate::writes::LinkWrites;

/// Links that arrive within this time are indexed together.
const COLLECT: Duration = Duration::from_millis(200);
/// How many links one job indexes: it takes about 20 ms.
const MAX_INDEXED_AT_ONCE: usize = 1000;
/// How much longer than a job the indexer pauses while callers' writes wait.
const CALLERS_SHARE: u32 = 8;
/// The longest such pause, so that the links that wait do not become too many to search.
const MAX_PAUSE: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Signals the indexer that links wait, or that the store closes.
#[derive(Default)]
pub(crate) struct IndexSignal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: bool,
    damaged: bool,
    closed: bool,
}

impl IndexSignal {
    /// Links wait.
    pub(crate) fn notify(&self) {
        let mut state = self.lock();
        if !state.waiting {
            state.waiting = true;
            self.changed.notify_all();
        }
    }

    /// The index is damaged.
    pub(crate) fn damaged(&self) {
        self.lock().damaged = true;
        self.notify();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until links wait. `false` if the store closes.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        while !state.waiting && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting = false;
        !state.closed
    }

    /// Waits for this time. `false` if the store closes.
    fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return !state.closed;
            }
            state =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running indexer.
pub(crate) struct Indexer {
    signal: Arc<IndexSignal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

type Writes = Arc<Queue<Box<dyn WriteJob<LinkWrites>>>>;

impl Indexer {
    pub(crate) fn start(signal: Arc<IndexSignal>, writes: Writes) -> std::io::Result<Self> {
        let shared = signal.clone();
        let thread = std::thread::Builder::new().name("links-index".into()).spawn(move || {
            while shared.wait() && shared.pause(COLLECT) {
                if !run(&shared, &writes) {
                    return;
                }
            }
        })?;
        Ok(Self { signal, thread: Mutex::new(Some(thread)) })
    }

    /// Stops after the job under way.
    pub(crate) fn close(&self) {
        self.signal.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the indexer had panicked");
        }
    }
}

/// Indexes until no links wait. `false` if the store closes.
fn run(signal: &IndexSignal, writes: &Writes) -> bool {
    loop {
        let begun = Instant::now();
        let (reply, answer) = oneshot::channel();
        let damaged = std::mem::take(&mut signal.lock().damaged);
        let work = move |writes: &mut LinkWrites| {
            if damaged {
                writes.report_damaged_index()?;
            }
            writes.index_waiting(MAX_INDEXED_AT_ONCE)
        };
        let job = QueuedWrite::new(work, reply);
        let outcome = writes.push(Box::new(job)).ok().and_then(|()| answer.blocking_recv().ok());
        let pause = match outcome {
            Some(Ok(false)) => return true,
            // Callers' writes get most of the writer's time: an import is not held up, and a search
            // compares the links that wait themselves.
            Some(Ok(true)) if writes.len() > 0 => (begun.elapsed() * CALLERS_SHARE).min(MAX_PAUSE),
            Some(Ok(true)) => Duration::ZERO,
            // The queue is full, or the disk fails.
            Some(Err(_)) | None => RETRY_AFTER,
        };
        if !signal.pause(pause) {
            return false;
        }
    }
}
