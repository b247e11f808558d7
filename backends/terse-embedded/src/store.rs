//! The store, as everyone else sees it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::{
    Domain, Identity, Insert, Inserted, Link, LinkKey, LinkStore, ListQuery, Moment, Numbering, Page, Revision, Spent,
    StoreError, Updated,
};
use tokio::sync::oneshot;

use crate::backup::BackupError;
use crate::engine;
use crate::failure::{Failure, unavailable};
use crate::health::Health;
use crate::issued::Issued;
use crate::leases;
use crate::options::{OpenError, Options};
use crate::queue::{Queue, Refused};
use crate::reader::{Connected, Errand, Reader};
use crate::roster::Roster;
use crate::schema;
use crate::scribe::Scribe;
use crate::shelf::Shelf;
use crate::writer::{Job, Pending, Writer};

const WRITE_PATIENCE: Duration = Duration::from_secs(10);
const READ_PATIENCE: Duration = Duration::from_secs(5);
/// How many lookups, and how many lists, may wait.
const LOOKUPS: usize = 65_536;
const LISTS: usize = 256;
/// How many of them share one read transaction: half of a lookup is beginning and ending it. A list would only hold on to an
/// old state of the file for as long as all the others take.
const LOOKUPS_AT_ONCE: usize = 256;
const LISTS_AT_ONCE: usize = 1;

/// Links in one SQLite file. Dropping it finishes what is waiting.
pub struct Embedded {
    path: PathBuf,
    identity: Identity,
    numbering: Numbering,
    issued: Arc<Issued>,
    health: Arc<Health>,
    writes: Arc<Queue<Box<dyn Job>>>,
    lookups: Arc<Queue<Errand>>,
    lists: Arc<Queue<Errand>>,
    roster: Arc<Roster>,
    readers: Mutex<Vec<JoinHandle<()>>>,
    writer: Mutex<Vec<JoinHandle<()>>>,
}

impl Embedded {
    /// Opens the store, making it if it is missing. May take a moment; not for async threads.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        engine::create(&options.path)?;
        // Looked at before anything is changed: a file that is not ours stays as it is.
        let version = schema::inspect(&engine::connect_bare(&options)?, &options.path)?;
        let (mut conn, _) = engine::connect_writer(&options)?;
        schema::migrate(&mut conn, version)?;
        let identity = schema::identity(&mut conn, options.alphabet)?;
        let numbering = Numbering::new(&identity);
        let issued = Arc::new(Issued::load(&conn, &numbering)?);
        issued.publish_leases(&leases::beyond_links(&conn, &numbering)?);
        engine::sync_folder_of(&options.path)?;

        let store = Self {
            path: options.path.clone(),
            identity,
            numbering,
            issued,
            health: Arc::new(Health::new()),
            writes: Arc::new(Queue::new(options.queue)),
            lookups: Arc::new(Queue::new(LOOKUPS)),
            lists: Arc::new(Queue::new(LISTS)),
            roster: Arc::default(),
            readers: Mutex::default(),
            writer: Mutex::default(),
        };
        store.start_readers(&options, "lookup", &store.lookups, options.readers.max(1), LOOKUPS_AT_ONCE)?;
        store.start_readers(&options, "list", &store.lists, 1, LISTS_AT_ONCE)?;
        let writer = Writer {
            options,
            numbering: store.numbering.clone(),
            issued: store.issued.clone(),
            health: store.health.clone(),
            queue: store.writes.clone(),
            roster: store.roster.clone(),
            readers: [store.lookups.clone(), store.lists.clone()],
        };
        start(&store.writer, "write", move || writer.run())?;
        // Only now, so that the log is never cleaned away between two connections.
        drop(conn);
        Ok(store)
    }

    fn start_readers(
        &self,
        options: &Options,
        name: &str,
        queue: &Arc<Queue<Errand>>,
        count: usize,
        batch: usize,
    ) -> Result<(), OpenError> {
        let crew = Arc::new(AtomicUsize::new(count));
        for _ in 0..count {
            let reader = Reader {
                options: options.clone(),
                numbering: self.numbering.clone(),
                issued: self.issued.clone(),
                queue: queue.clone(),
                roster: self.roster.clone(),
                batch,
                crew: crew.clone(),
            };
            start(&self.readers, name, move || reader.run())?;
        }
        Ok(())
    }

    /// Finishes what is waiting and lets go of the file. Later calls are answered `Unavailable`. Blocks meanwhile.
    pub fn close(&self) {
        // Readers first: the last connection to close moves the log into the file, which only the writer's can.
        self.lookups.close();
        self.lists.close();
        join(&self.readers);
        self.writes.close();
        join(&self.writer);
    }

    /// How many writes are waiting.
    pub fn queue_depth(&self) -> usize {
        self.writes.len()
    }

    /// How many bytes the store takes on the disk, its log included.
    pub fn disk_size(&self) -> u64 {
        ["", "-wal", "-shm"]
            .iter()
            .filter_map(|suffix| {
                let mut path = self.path.clone().into_os_string();
                path.push(suffix);
                std::fs::metadata(path).ok()
            })
            .map(|file| file.len())
            .sum()
    }

    /// Copies the store as it is now into a new file, while everyone goes on working. Blocks for as long as it takes.
    pub fn backup(&self, to: &Path) -> Result<(), BackupError> {
        crate::backup::backup(&self.path, to)
    }

    /// The SHA-256 of the operator's key, if one was set.
    pub async fn admin_key(&self) -> Result<Option<[u8; 32]>, StoreError> {
        read(&self.lists, Shelf::admin_key).await
    }

    /// Keeps the SHA-256 of the operator's key.
    pub async fn set_admin_key(&self, hash: [u8; 32]) -> Result<(), StoreError> {
        self.write(move |scribe| scribe.set_admin_key(&hash)).await
    }

    /// Hands work to the writer and waits until it is on the disk.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Scribe) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.health.refuse_if_broken()?;
        let (reply, answer) = oneshot::channel();
        self.writes.push(Box::new(Pending::new(work, reply))).map_err(|refused| match refused {
            Refused::Full => StoreError::Busy,
            Refused::Closed => unavailable("the store is closed"),
        })?;
        wait(answer, WRITE_PATIENCE).await
    }
}

fn start(threads: &Mutex<Vec<JoinHandle<()>>>, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
    let thread = std::thread::Builder::new().name(format!("links-{name}")).spawn(run)?;
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

/// Hands work to a reader and waits for what it finds.
async fn read<T: Send + 'static>(
    queue: &Queue<Errand>,
    work: impl FnOnce(&Shelf) -> Result<T, Failure> + Send + 'static,
) -> Result<T, StoreError> {
    read_part_by_part(queue, move |shelf, connected| work(shelf).map_err(|failure| told(failure, connected))).await
}

/// What the caller hears, and what it says about the connection.
fn told(failure: Failure, connected: &mut Connected) -> StoreError {
    if matches!(failure, Failure::Engine(_)) {
        *connected = Connected::No;
    }
    failure.into()
}

/// The same for work of several parts, of which some may fail.
async fn read_part_by_part<T: Send + 'static>(
    queue: &Queue<Errand>,
    work: impl FnOnce(&Shelf, &mut Connected) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (reply, answer) = oneshot::channel();
    let errand: Errand = Box::new(move |shelf| {
        let mut connected = Connected::Yes;
        if reply.is_closed() {
            return connected;
        }
        let found = match shelf {
            Ok(shelf) => work(shelf, &mut connected),
            Err(why) => Err(unavailable(why)),
        };
        let _gone = reply.send(found);
        connected
    });
    queue.push(errand).map_err(|refused| match refused {
        Refused::Full => unavailable("too many are waiting to read"),
        Refused::Closed => unavailable("the store is closed"),
    })?;
    wait(answer, READ_PATIENCE).await
}

async fn wait<T>(answer: oneshot::Receiver<Result<T, StoreError>>, patience: Duration) -> Result<T, StoreError> {
    match tokio::time::timeout(patience, answer).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_dropped)) => Err(unavailable("the store has stopped")),
        Err(_elapsed) => Err(unavailable("the store takes too long")),
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("path", &self.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl LinkStore for Embedded {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        let key = key.clone();
        read(&self.lookups, move |shelf| shelf.get(&key)).await
    }

    async fn get_many(&self, keys: &[LinkKey]) -> Vec<Result<Option<Link>, StoreError>> {
        let (count, keys) = (keys.len(), keys.to_vec());
        let look = move |shelf: &Shelf, connected: &mut Connected| {
            let found = shelf.get_many(&keys).map_err(|failure| told(failure, connected))?;
            Ok(found.into_iter().map(|found| found.map_err(|failure| told(failure, connected))).collect::<Vec<_>>())
        };
        match read_part_by_part(&self.lookups, look).await {
            Ok(found) => found,
            Err(error) => {
                let why = format!("{error}: {}", std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default());
                (0..count).map(|_| Err(unavailable(why.as_str()))).collect()
            }
        }
    }

    async fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        let key = key.clone();
        // With the lookups: a visitor waits for this, and a search may take long.
        read(&self.lookups, move |shelf| shelf.get_folded(&key)).await
    }

    fn surely_absent(&self, domain: &Domain, code: &str) -> bool {
        self.issued.surely_absent(domain, code, &self.numbering)
    }

    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError> {
        self.write(move |scribe| scribe.insert(&insert)).await
    }

    async fn update(&self, link: &Link, expected: Revision) -> Result<Updated, StoreError> {
        let link = link.clone();
        self.write(move |scribe| scribe.update(&link, expected)).await
    }

    async fn spend(&self, key: &LinkKey) -> Result<Spent, StoreError> {
        let key = key.clone();
        self.write(move |scribe| scribe.spend(&key)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        let query = query.clone();
        read(&self.lists, move |shelf| shelf.list(&query)).await
    }

    async fn lease(&self, length: u8, count: u64, capacity: u64) -> Result<Range<u64>, StoreError> {
        self.write(move |scribe| scribe.lease(length, count, capacity)).await
    }

    async fn mark_expired(&self, now: Moment, limit: usize) -> Result<Vec<LinkKey>, StoreError> {
        self.write(move |scribe| scribe.mark_expired(now, limit)).await
    }

    async fn purge(&self, before: Moment, limit: usize) -> Result<Vec<LinkKey>, StoreError> {
        self.write(move |scribe| scribe.purge(before, limit)).await
    }

    async fn forget_requests(&self, before: Moment, limit: usize) -> Result<usize, StoreError> {
        self.write(move |scribe| scribe.forget_requests(before, limit)).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        // Also if a thread has panicked.
        if self.writes.is_closed() || self.lookups.is_closed() || self.lists.is_closed() {
            return Err(unavailable("the store has stopped"));
        }
        self.health.check(WRITE_PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_store_that_can_no_longer_read_is_not_well() {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(Options::new(folder.path().join("terse.db"))).unwrap();
        store.check().await.unwrap();
        assert!(read::<()>(&store.lists, |_| panic!("a defect")).await.is_err());
        while !store.lists.is_closed() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(store.check().await.is_err());
    }
}
