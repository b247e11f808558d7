//! The store, as everyone else sees it.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use terse_core::{
    Domain, Identity, Insert, Inserted, Link, LinkKey, LinkStore, ListQuery, Moment, Numbering, OwnerId, Page, Past, Revision,
    Spent, StoreError, TagCount, Updated,
};

use crate::backup::BackupError;
use crate::crew::{Crew, Hall, told};
use crate::engine::{self, Site};
use crate::failure::unavailable;
use crate::issued::Issued;
use crate::leases;
use crate::options::{OpenError, Options};
use crate::reader::Connected;
use crate::schema;
use crate::scribe::Scribe;
use crate::shelf::Shelf;
use crate::trade::Trade;

const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// How many lookups, and how many lists, may wait.
const LOOKUPS: usize = 65_536;
const LISTS: usize = 256;
/// How many of them share one read transaction: half of a lookup is beginning and ending it. A list would only hold on to an
/// old state of the file for as long as all the others take.
const LOOKUPS_AT_ONCE: usize = 256;
const LISTS_AT_ONCE: usize = 1;

/// Where the readers of each kind wait.
const LOOKUP: usize = 0;
const LIST: usize = 1;

/// Links in one SQLite file. Dropping it finishes what is waiting.
pub struct Embedded {
    site: Site,
    identity: Identity,
    numbering: Numbering,
    issued: Arc<Issued>,
    crew: Crew<Links>,
}

/// What the threads of this store know.
#[derive(Clone)]
pub(crate) struct Links {
    site: Site,
    numbering: Numbering,
    issued: Arc<Issued>,
}

impl Trade for Links {
    type Shelf = Shelf;
    type Scribe = Scribe;
    const NAME: &'static str = "links";
    const WRITES_AT_ONCE: usize = 512;
    const CHECKPOINT_PAGES: u32 = 1000;

    fn site(&self) -> &Site {
        &self.site
    }

    fn shelf(&self, conn: Connection) -> Shelf {
        Shelf::new(conn, self.numbering.clone(), self.issued.clone())
    }

    fn scribe(&self, conn: Connection) -> rusqlite::Result<Scribe> {
        Scribe::new(self.shelf(conn))
    }
}

impl Embedded {
    /// Opens the store, making it if it is missing. May take a moment; not for async threads.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let site = options.site();
        let mut conn = schema::LINKS.open(&site)?;
        let identity = schema::identity(&mut conn, options.alphabet)?;
        let numbering = Numbering::new(&identity);
        let issued = Arc::new(Issued::load(&conn, &numbering)?);
        issued.publish_leases(&leases::beyond_links(&conn, &numbering)?);
        engine::sync_folder_of(&site.path)?;
        let halls = [
            Hall { name: "lookup", threads: options.readers.max(1), bound: LOOKUPS, at_once: LOOKUPS_AT_ONCE },
            Hall { name: "list", threads: 1, bound: LISTS, at_once: LISTS_AT_ONCE },
        ];
        let trade = Links { site: site.clone(), numbering: numbering.clone(), issued: issued.clone() };
        let crew = Crew::start(&trade, options.queue, WRITE_PATIENCE, &halls)?;
        // Only now, so that the log is never cleaned away between two connections.
        drop(conn);
        Ok(Self { site, identity, numbering, issued, crew })
    }

    /// Finishes what is waiting and lets go of the file. Later calls are answered `Unavailable`. Blocks meanwhile.
    pub fn close(&self) {
        self.crew.close();
    }

    /// How many writes are waiting.
    pub fn queue_depth(&self) -> usize {
        self.crew.queue_depth()
    }

    /// How many bytes the store takes on the disk, its log included.
    pub fn disk_size(&self) -> u64 {
        self.site.disk_size()
    }

    #[cfg(test)]
    pub(crate) fn crew(&self) -> &Crew<Links> {
        &self.crew
    }

    /// Copies the store as it is now into a new file, while everyone goes on working. Blocks for as long as it takes.
    pub fn backup(&self, to: &Path) -> Result<(), BackupError> {
        crate::backup::backup(&self.site.path, to)
    }

    /// The SHA-256 of the operator's key, if one was set.
    pub async fn admin_key(&self) -> Result<Option<[u8; 32]>, StoreError> {
        self.crew.read(LIST, Shelf::admin_key).await
    }

    /// Keeps the SHA-256 of the operator's key.
    pub async fn set_admin_key(&self, hash: [u8; 32]) -> Result<(), StoreError> {
        self.crew.write(move |scribe| scribe.set_admin_key(&hash)).await
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("path", &self.site.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl LinkStore for Embedded {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        let key = key.clone();
        self.crew.read(LOOKUP, move |shelf| shelf.get(&key)).await
    }

    async fn get_many(&self, keys: &[LinkKey]) -> Vec<Result<Option<Link>, StoreError>> {
        let (count, keys) = (keys.len(), keys.to_vec());
        let look = move |shelf: &Shelf, connected: &mut Connected| {
            let found = shelf.get_many(&keys).map_err(|failure| told(failure, connected))?;
            Ok(found.into_iter().map(|found| found.map_err(|failure| told(failure, connected))).collect::<Vec<_>>())
        };
        match self.crew.read_part_by_part(LOOKUP, look).await {
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
        self.crew.read(LOOKUP, move |shelf| shelf.get_folded(&key)).await
    }

    fn surely_absent(&self, domain: &Domain, code: &str) -> bool {
        self.issued.surely_absent(domain, code, &self.numbering)
    }

    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError> {
        self.crew.write(move |scribe| scribe.insert(&insert)).await
    }

    async fn update(&self, link: &Link, expected: Revision) -> Result<Updated, StoreError> {
        let link = link.clone();
        self.crew.write(move |scribe| scribe.update(&link, expected)).await
    }

    async fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<Past>, StoreError> {
        let key = key.clone();
        self.crew.read(LIST, move |shelf| shelf.history(&key, limit)).await
    }

    async fn forget_history(&self, key: &LinkKey) -> Result<(), StoreError> {
        let key = key.clone();
        self.crew.write(move |scribe| scribe.forget_history_of(&key)).await
    }

    async fn spend(&self, key: &LinkKey) -> Result<Spent, StoreError> {
        let key = key.clone();
        self.crew.write(move |scribe| scribe.spend(&key)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        let query = query.clone();
        self.crew.read(LIST, move |shelf| shelf.list(&query)).await
    }

    async fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, StoreError> {
        self.crew.read(LIST, move |shelf| shelf.tags(owner, limit)).await
    }

    async fn lease(&self, length: u8, count: u64, capacity: u64) -> Result<Range<u64>, StoreError> {
        self.crew.write(move |scribe| scribe.lease(length, count, capacity)).await
    }

    async fn mark_expired(&self, now: Moment, limit: usize) -> Result<Vec<LinkKey>, StoreError> {
        self.crew.write(move |scribe| scribe.mark_expired(now, limit)).await
    }

    async fn purge(&self, before: Moment, limit: usize, hold: Option<Moment>) -> Result<Vec<LinkKey>, StoreError> {
        self.crew.write(move |scribe| scribe.purge(before, limit, hold)).await
    }

    async fn release(&self, now: Moment, limit: usize) -> Result<usize, StoreError> {
        self.crew.write(move |scribe| scribe.release(now, limit)).await
    }

    async fn forget_requests(&self, before: Moment, limit: usize) -> Result<usize, StoreError> {
        self.crew.write(move |scribe| scribe.forget_requests(before, limit)).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.crew.check()
    }
}
