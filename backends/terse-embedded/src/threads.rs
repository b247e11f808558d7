//! The threads of a store, and how callers queue work for them.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use terse_core::StoreError;
use tokio::sync::oneshot;

use crate::connection_gate::ConnectionGate;
use crate::database::Database;
use crate::failure::{Failure, unavailable};
use crate::health::Health;
use crate::queue::{Queue, Refused};
use crate::reader::{ConnectionHealth, ReadJob, Reader};
use crate::writer::{QueuedWrite, WriteJob, Writer};

const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a group of reader threads.
pub(crate) struct ReadPool {
    pub(crate) name: &'static str,
    pub(crate) threads: usize,
    /// How many jobs may wait.
    pub(crate) bound: usize,
    /// How many jobs share one read transaction.
    pub(crate) at_once: usize,
}

/// All threads of a store.
pub(crate) struct StoreThreads<T: Database> {
    health: Arc<Health>,
    writes: Arc<Queue<Box<dyn WriteJob<T::Writes>>>>,
    pools: Vec<Arc<Queue<ReadJob<T::Queries>>>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
    writer: Mutex<Vec<JoinHandle<()>>>,
    timeout: Duration,
}

impl<T: Database> StoreThreads<T> {
    /// Starts the threads. Up to `writes` writes may wait, each no longer than `timeout`.
    pub(crate) fn start(
        database: &T,
        writes: usize,
        timeout: Duration,
        pools: &[ReadPool],
    ) -> std::io::Result<Self> {
        let connection_gate: Arc<ConnectionGate> = Arc::default();
        let threads = Self {
            health: Arc::new(Health::new()),
            writes: Arc::new(Queue::new(writes)),
            pools: pools.iter().map(|pool| Arc::new(Queue::new(pool.bound))).collect(),
            readers: Mutex::default(),
            writer: Mutex::default(),
            timeout,
        };
        for (pool, queue) in pools.iter().zip(&threads.pools) {
            let left = Arc::new(AtomicUsize::new(pool.threads));
            for _ in 0..pool.threads {
                let reader = Reader {
                    database: database.clone(),
                    queue: queue.clone(),
                    connection_gate: connection_gate.clone(),
                    batch: pool.at_once,
                    threads: left.clone(),
                };
                start::<T>(&threads.readers, pool.name, move || reader.run())?;
            }
        }
        let writer = Writer {
            database: database.clone(),
            health: threads.health.clone(),
            queue: threads.writes.clone(),
            connection_gate,
            readers: threads.pools.clone(),
        };
        start::<T>(&threads.writer, "write", move || writer.run())?;
        Ok(threads)
    }

    /// Finishes the waiting work and closes the file. Later calls get `Unavailable`. Blocks until
    /// done.
    pub(crate) fn close(&self) {
        // Readers first: the last connection to close moves the log into the file, which only the
        // writer's connection can do.
        self.pools.iter().for_each(|queue| queue.close());
        join(&self.readers);
        self.writes.close();
        join(&self.writer);
    }

    /// The queue of the writer thread.
    pub(crate) fn writes_queue(&self) -> Arc<Queue<Box<dyn WriteJob<T::Writes>>>> {
        self.writes.clone()
    }

    /// How many writes are waiting.
    pub(crate) fn queue_depth(&self) -> usize {
        self.writes.len()
    }

    /// Whether the store accepts writes and reads.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        // Fails also if a thread has panicked.
        if self.writes.is_closed() || self.pools.iter().any(|queue| queue.is_closed()) {
            return Err(unavailable("the store has stopped"));
        }
        self.health.check(self.timeout)
    }

    /// Queues work for the writer thread and waits until it is on the disk.
    pub(crate) async fn write<A: Send + 'static>(
        &self,
        work: impl FnMut(&mut T::Writes) -> Result<A, Failure> + Send + 'static,
    ) -> Result<A, StoreError> {
        self.health.refuse_if_broken()?;
        let (reply, answer) = oneshot::channel();
        self.writes.push(Box::new(QueuedWrite::new(work, reply))).map_err(
            |refused| match refused {
                Refused::Full => StoreError::Busy,
                Refused::Closed => unavailable("the store is closed"),
            },
        )?;
        wait(answer, self.timeout).await
    }

    /// Queues work for a reader pool and waits for the result.
    pub(crate) async fn read<A: Send + 'static>(
        &self,
        pool: usize,
        work: impl FnOnce(&T::Queries) -> Result<A, Failure> + Send + 'static,
    ) -> Result<A, StoreError> {
        self.read_part_by_part(pool, move |queries, connected| {
            work(queries).map_err(|failure| to_store_error(failure, connected))
        })
        .await
    }

    /// Like [`Self::read`], for work of several parts, of which some may fail.
    pub(crate) async fn read_part_by_part<A: Send + 'static>(
        &self,
        pool: usize,
        work: impl FnOnce(&T::Queries, &mut ConnectionHealth) -> Result<A, StoreError> + Send + 'static,
    ) -> Result<A, StoreError> {
        let (reply, answer) = oneshot::channel();
        let read_job: ReadJob<T::Queries> = Box::new(move |queries| {
            let mut connected = ConnectionHealth::Yes;
            if reply.is_closed() {
                return connected;
            }
            let found = match queries {
                Ok(queries) => work(queries, &mut connected),
                Err(why) => Err(unavailable(why)),
            };
            let _gone = reply.send(found);
            connected
        });
        self.pools[pool].push(read_job).map_err(|refused| match refused {
            Refused::Full => unavailable("too many reads are waiting"),
            Refused::Closed => unavailable("the store is closed"),
        })?;
        wait(answer, READ_TIMEOUT).await
    }
}

impl<T: Database> Drop for StoreThreads<T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Converts a failure for the caller, and marks the connection as broken if SQLite failed.
pub(crate) fn to_store_error(failure: Failure, connected: &mut ConnectionHealth) -> StoreError {
    if matches!(failure, Failure::Engine(_)) {
        *connected = ConnectionHealth::No;
    }
    failure.into()
}

async fn wait<A>(
    answer: oneshot::Receiver<Result<A, StoreError>>,
    timeout: Duration,
) -> Result<A, StoreError> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_dropped)) => Err(unavailable("the store has stopped")),
        Err(_elapsed) => Err(unavailable("the store takes too long")),
    }
}

fn start<T: Database>(
    threads: &Mutex<Vec<JoinHandle<()>>>,
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name(format!("{}-{name}", T::NAME)).spawn(run)?;
    threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    Ok(())
}

fn join(threads: &Mutex<Vec<JoinHandle<()>>>) {
    for thread in threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        if thread.join().is_err() {
            tracing::error!("a thread of the store had panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EmbeddedLinks, EmbeddedOptions};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_store_that_can_no_longer_read_is_not_well() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            EmbeddedLinks::open(EmbeddedOptions::new(folder.path().join("terse.db"))).unwrap();
        let threads = store.threads();
        threads.check().unwrap();
        assert!(threads.read::<()>(1, |_| panic!("a defect")).await.is_err());
        while !threads.pools[1].is_closed() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(threads.check().is_err());
    }
}
