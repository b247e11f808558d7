//! The registry's public interface.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rusqlite::Connection;
use terse_core::registry::RegistryError;

use crate::backup::BackupError;
use crate::database::Database;
use crate::engine::{self, DbLocation};
use crate::failure::Failure;
use crate::options::EmbeddedOpenError;
use crate::registry::options::RegistryOptions;
use crate::registry::outbox::RELEASE_CLAIMS;
use crate::registry::queries::RegistryQueries;
use crate::registry::schema::REGISTRY;
use crate::registry::writes::{RegistryWriteError, RegistryWrites};
use crate::threads::{ReadPool, StoreThreads};

const TIMEOUT: Duration = Duration::from_secs(5);
/// How many lookups may wait, and how many share one read transaction.
const LOOKUPS: usize = 4096;
const AT_ONCE: usize = 64;
/// How many lists may wait.
const LISTS: usize = 256;
const LOOKUP_CONNECTION: usize = 0;
const LIST: usize = 1;
/// Long jobs write in steps of this many rows, so that no caller waits long behind one.
pub(crate) const BATCH: usize = 1000;

pub(crate) type Answer<T> = Result<T, RegistryError>;

/// Owners in one SQLite file. Dropping it finishes the waiting work.
pub struct EmbeddedRegistry {
    site: DbLocation,
    threads: StoreThreads<RegistryDatabase>,
    /// Whether the log may still hold a deleted salt.
    pub(crate) to_wipe: AtomicBool,
}

/// The data that this registry's threads share.
#[derive(Clone)]
pub(crate) struct RegistryDatabase {
    site: DbLocation,
}

impl Database for RegistryDatabase {
    type Queries = RegistryQueries;
    type Writes = RegistryWrites;
    const NAME: &'static str = "registry";
    const MAX_WRITES_PER_COMMIT: usize = 256;
    const CHECKPOINT_PAGES: u32 = 1000;

    fn site(&self) -> &DbLocation {
        &self.site
    }

    fn queries(&self, conn: Connection) -> RegistryQueries {
        RegistryQueries { conn }
    }

    fn writes(&self, conn: Connection) -> rusqlite::Result<RegistryWrites> {
        RegistryWrites::new(self.queries(conn))
    }
}

impl EmbeddedRegistry {
    /// Opens the registry, creating it if it is missing. Blocks: not for async threads.
    pub fn open(options: RegistryOptions) -> Result<Self, EmbeddedOpenError> {
        let site = options.site();
        let conn = REGISTRY.open(&site)?;
        engine::sync_folder_of(&site.path)?;
        // One process at a time uses the file, so every claim belongs to a process that has ended.
        conn.execute(RELEASE_CLAIMS, [])?;
        // Lists have their own thread, so that a long one never delays the lookup of a key.
        let pools = [
            ReadPool {
                name: "lookup",
                threads: options.readers.max(1),
                bound: LOOKUPS,
                at_once: AT_ONCE,
            },
            ReadPool { name: "list", threads: 1, bound: LISTS, at_once: 1 },
        ];
        let threads = StoreThreads::start(
            &RegistryDatabase { site: site.clone() },
            options.queue,
            TIMEOUT,
            &pools,
        )?;
        // Closed last, so that SQLite never deletes the log between two connections.
        drop(conn);
        // A killed process may have left a deleted salt in the log.
        Ok(Self { site, threads, to_wipe: AtomicBool::new(true) })
    }

    /// Finishes the waiting work and closes the file. Later calls get `Unavailable`. Blocks until
    /// done.
    pub fn close(&self) {
        self.threads.close();
    }

    /// How many writes are waiting.
    pub fn queue_depth(&self) -> usize {
        self.threads.queue_depth()
    }

    /// How many bytes the registry takes on the disk, its log included.
    pub fn disk_size(&self) -> u64 {
        self.site.disk_size()
    }

    /// Copies the registry as it is now into a new file, while it stays in use. Blocks until done.
    pub fn backup(&self, to: &Path) -> Result<(), BackupError> {
        crate::registry::backup_registry(&self.site.path, to)
    }

    pub(crate) fn check_threads(&self) -> Answer<()> {
        Ok(self.threads.check()?)
    }

    pub(crate) fn site(&self) -> &DbLocation {
        &self.site
    }

    pub(crate) async fn read<A: Send + 'static>(
        &self,
        work: impl FnOnce(&RegistryQueries) -> Result<A, Failure> + Send + 'static,
    ) -> Answer<A> {
        Ok(self.threads.read(LOOKUP_CONNECTION, work).await?)
    }

    pub(crate) async fn list<A: Send + 'static>(
        &self,
        work: impl FnOnce(&RegistryQueries) -> Result<A, Failure> + Send + 'static,
    ) -> Answer<A> {
        Ok(self.threads.read(LIST, work).await?)
    }

    pub(crate) async fn write<A: Send + 'static>(
        &self,
        work: impl Fn(&RegistryWrites) -> Result<A, RegistryWriteError> + Send + 'static,
    ) -> Answer<A> {
        self.threads.write(move |writes| writes.step(&work)).await?
    }
}

impl std::fmt::Debug for EmbeddedRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedRegistry").field("path", &self.site.path).finish_non_exhaustive()
    }
}
