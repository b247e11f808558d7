//! The link store's public interface.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use terse_core::{
    AbsenceCertainty, ChangeCursor, ChangeFeed, ChangePage, ClickSpend, ClickSpender, Clock,
    CodeLease, Domain, IdempotencyKey, Insert, Inserted, Link, LinkChange, LinkKey, LinkPage,
    LinkReader, LinkStatus, LinkStore, LinkVersion, ListQuery, Numbering, Outbox, OutboxEvent,
    OutboxPage, OwnerId, PurgeBefore, Revision, StoreError, StoreIdentity, TagCount, Timestamp,
    Updated,
};

use crate::backup::BackupError;
use crate::database::Database;
use crate::engine::{self, DbLocation};
use crate::failure::unavailable;
use crate::indexer::{IndexSignal, Indexer};
use crate::issued_codes::IssuedCodes;
use crate::leases;
use crate::mark::{self, MarkFile};
use crate::options::{EmbeddedOpenError, EmbeddedOptions};
use crate::queries::LinkQueries;
use crate::reader::ConnectionHealth;
use crate::schema;
use crate::threads::{ReadPool, StoreThreads, to_store_error};
use crate::writes::{Decision, LinkWrites};

const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many lookups, and how many lists, may wait.
const LOOKUPS: usize = 65_536;
const LISTS: usize = 256;
/// How many of them share one read transaction. Beginning and ending it is half the cost of a
/// lookup. Lists do not share: they would hold an old snapshot for as long as all of them
/// take.
const MAX_LOOKUPS_PER_BATCH: usize = 256;
const MAX_LISTS_PER_BATCH: usize = 1;

/// The index of each reader pool.
const LOOKUP: usize = 0;
/// Reads of a few hundred rows in order.
const LIST: usize = 1;
/// Searches, filtered lists and counts, which may read thousands of rows. A plain list never waits
/// for them.
const SEARCH: usize = 2;
/// How many threads search.
pub(crate) const SEARCHERS: usize = 2;

/// Links in one SQLite file. Dropping it finishes the waiting work.
pub struct EmbeddedLinks {
    site: DbLocation,
    identity: StoreIdentity,
    numbering: Numbering,
    issued: Arc<IssuedCodes>,
    notice: Option<String>,
    mark: Option<Arc<Mutex<MarkFile>>>,
    indexer: Indexer,
    threads: StoreThreads<LinksDatabase>,
}

/// The data that this store's threads share.
#[derive(Clone)]
pub(crate) struct LinksDatabase {
    site: DbLocation,
    numbering: Numbering,
    issued: Arc<IssuedCodes>,
    /// `None` on a disk that tests simulate.
    mark: Option<Arc<Mutex<MarkFile>>>,
    index_signal: Arc<IndexSignal>,
}

impl Database for LinksDatabase {
    type Queries = LinkQueries;
    type Writes = LinkWrites;
    const NAME: &'static str = "links";
    const MAX_WRITES_PER_COMMIT: usize = 512;
    const CHECKPOINT_PAGES: u32 = 1000;

    fn site(&self) -> &DbLocation {
        &self.site
    }

    fn queries(&self, conn: Connection) -> LinkQueries {
        let (numbering, issued) = (self.numbering.clone(), self.issued.clone());
        LinkQueries::new(conn, numbering, issued, self.index_signal.clone())
    }

    fn writes(&self, conn: Connection) -> rusqlite::Result<LinkWrites> {
        LinkWrites::new(self.queries(conn), self.mark.clone())
    }
}

impl EmbeddedLinks {
    /// Opens the store, creating it if it is missing. Blocks: not for async threads.
    pub fn open(options: EmbeddedOptions) -> Result<Self, EmbeddedOpenError> {
        let site = options.site();
        let log = mark::wal_state(&site.path)?;
        // A file that cannot be read gets a better message below.
        let found = engine::log_frames(&site).unwrap_or(0);
        let mut conn = schema::LINKS.open(&site)?;
        let is_new = schema::stored_identity(&conn)?.is_none();
        let identity = schema::identity(&mut conn, options.alphabet)?;
        let numbering = Numbering::new(&identity);
        let (mut mark, mut notice) = (None, None);
        if site.vfs.is_none() {
            let (mut file, known) = MarkFile::open(&site.path, &identity, !site.unsafe_no_sync)?;
            if is_new && file.is_of_another_store() {
                notice = Some(mark::NEW_BESIDE_OLD_MARK.to_owned());
            }
            if let Some(known) = known {
                let lost = known.lost_frames(log, found);
                notice = leases::recover(&mut conn, &numbering, &known.leases, lost)?;
            }
            if let Some(notice) = &notice {
                tracing::error!(file = %site.path.display(), "{notice}");
                file.lost(Clock::default().now())?;
            }
            // The first commit marks the log as it is now.
            file.committed(&leases::beyond_links(&conn, &numbering)?, 0)?;
            mark = Some(Arc::new(Mutex::new(file)));
        }
        let issued = Arc::new(IssuedCodes::load(&conn, &numbering)?);
        issued.publish_leases(&leases::beyond_links(&conn, &numbering)?);
        engine::sync_folder_of(&site.path)?;
        let pools = [
            ReadPool {
                name: "lookup",
                threads: options.readers.max(1),
                bound: LOOKUPS,
                at_once: MAX_LOOKUPS_PER_BATCH,
            },
            ReadPool { name: "list", threads: 1, bound: LISTS, at_once: MAX_LISTS_PER_BATCH },
            ReadPool {
                name: "search",
                threads: SEARCHERS,
                bound: LISTS,
                at_once: MAX_LISTS_PER_BATCH,
            },
        ];
        let shared_mark = mark.clone();
        let database = LinksDatabase {
            site: site.clone(),
            numbering: numbering.clone(),
            issued: issued.clone(),
            mark,
            index_signal: Arc::default(),
        };
        let threads = StoreThreads::start(&database, options.queue, WRITE_TIMEOUT, &pools)?;
        let indexer = Indexer::start(database.index_signal.clone(), threads.writes_queue())?;
        if !options.index {
            indexer.close();
        }
        if database.queries(engine::connect_reader(&site)?).has_unindexed().unwrap_or(true) {
            database.index_signal.notify();
        }
        // Closed last, so that SQLite never deletes the log between two connections.
        drop(conn);
        Ok(Self { site, identity, numbering, issued, notice, mark: shared_mark, indexer, threads })
    }

    /// What an operator must know about the state in which the file was found.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Finishes the waiting work and closes the file. Later calls get `Unavailable`. Blocks until
    /// done.
    pub fn close(&self) {
        self.indexer.close();
        self.threads.close();
    }

    /// How many writes are waiting.
    pub fn queue_depth(&self) -> usize {
        self.threads.queue_depth()
    }

    /// How many bytes the store takes on the disk, its log included.
    pub fn disk_size(&self) -> u64 {
        self.site.disk_size()
    }

    #[cfg(test)]
    pub(crate) fn stop_indexing(&self) {
        self.indexer.close();
    }

    #[cfg(test)]
    pub(crate) fn threads(&self) -> &StoreThreads<LinksDatabase> {
        &self.threads
    }

    /// Copies the store as it is now into a new file, while it stays in use. Blocks until done.
    pub fn backup(&self, to: &Path) -> Result<(), BackupError> {
        crate::backup::backup(&self.site.path, to)
    }

    /// The highest id of an owner that a link refers to.
    pub(crate) async fn highest_owner(&self) -> Result<u64, StoreError> {
        self.threads.read(SEARCH, LinkQueries::highest_owner).await
    }

    /// The hash of the admin key, if an earlier version kept it in this file.
    pub(crate) async fn admin_key(&self) -> Result<Option<[u8; 32]>, StoreError> {
        self.threads.read(LIST, LinkQueries::admin_key).await
    }

    /// Deletes the admin key from this file, once the registry has it.
    pub(crate) async fn delete_admin_key(&self) -> Result<(), StoreError> {
        self.threads.write(LinkWrites::delete_admin_key).await
    }
}

impl Drop for EmbeddedLinks {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for EmbeddedLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedLinks").field("path", &self.site.path).finish_non_exhaustive()
    }
}

/// Whether nearly every link that a list reads is on its page.
fn is_plain(query: &ListQuery) -> bool {
    let ListQuery { domain, tag, text, status, archived, .. } = query;
    domain.is_none()
        && tag.is_none()
        && text.is_none()
        && matches!(status, None | Some(LinkStatus::Active))
        && *archived != Some(true)
}

/// The answer to each of several calls whose common job failed.
fn each_failed<A>(error: &StoreError, count: usize) -> Vec<Result<A, StoreError>> {
    let why = format!(
        "{error}: {}",
        std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
    );
    let busy = matches!(error, StoreError::Busy);
    let failed = |_| Err(if busy { StoreError::Busy } else { unavailable(why.as_str()) });
    (0..count).map(failed).collect()
}

#[async_trait]
impl LinkReader for EmbeddedLinks {
    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        let key = key.clone();
        self.threads.read(LOOKUP, move |queries| queries.get(&key)).await
    }

    async fn get_many(&self, keys: &[LinkKey]) -> Vec<Result<Option<Link>, StoreError>> {
        let (count, keys) = (keys.len(), keys.to_vec());
        let look = move |queries: &LinkQueries, connected: &mut ConnectionHealth| {
            let found =
                queries.get_many(&keys).map_err(|failure| to_store_error(failure, connected))?;
            Ok(found
                .into_iter()
                .map(|found| found.map_err(|failure| to_store_error(failure, connected)))
                .collect::<Vec<_>>())
        };
        match self.threads.read_part_by_part(LOOKUP, look).await {
            Ok(found) => found,
            Err(error) => each_failed(&error, count),
        }
    }

    async fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        let key = key.clone();
        // In the lookup pool: a visitor waits for this, and a search may take long.
        self.threads.read(LOOKUP, move |queries| queries.get_folded(&key)).await
    }

    fn surely_absent(&self, domain: &Domain, code: &str) -> AbsenceCertainty {
        self.issued.surely_absent(domain, code, &self.numbering)
    }
}

#[async_trait]
impl ClickSpender for EmbeddedLinks {
    async fn spend(&self, key: &LinkKey) -> Result<ClickSpend, StoreError> {
        let key = key.clone();
        self.threads.write(move |writes| writes.spend(&key)).await
    }
}

#[async_trait]
impl ChangeFeed for EmbeddedLinks {
    async fn last_change(&self) -> Result<ChangeCursor, StoreError> {
        self.threads.read(LIST, LinkQueries::last_change).await
    }

    async fn changes(&self, after: ChangeCursor, limit: usize) -> Result<ChangePage, StoreError> {
        self.threads.read(LIST, move |queries| queries.changes(after, limit)).await
    }

    async fn announce(&self, key: &LinkKey) -> Result<(), StoreError> {
        let key = key.clone();
        self.threads.write(move |writes| writes.record_change(&key, Revision::UNKNOWN)).await
    }

    async fn recent_changes(
        &self,
        span: Duration,
        limit: usize,
    ) -> Result<Option<Vec<LinkChange>>, StoreError> {
        self.threads.read(LIST, move |queries| queries.recent_changes(span, limit)).await
    }
}

#[async_trait]
impl Outbox for EmbeddedLinks {
    async fn outbox(&self, after: Option<u64>, limit: usize) -> Result<OutboxPage, StoreError> {
        self.threads.read(LIST, move |queries| queries.outbox(after, limit)).await
    }

    async fn outbox_done(&self, positions: &[u64]) -> Result<(), StoreError> {
        let positions = positions.to_vec();
        self.threads.write(move |writes| writes.outbox_done(&positions)).await
    }
}

#[async_trait]
impl LinkStore for EmbeddedLinks {
    fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError> {
        self.threads.write(move |writes| writes.insert(&insert)).await
    }

    async fn insert_many(&self, inserts: Arc<[Insert]>) -> Vec<Result<Inserted, StoreError>> {
        let job = Arc::clone(&inserts);
        match self.threads.write(move |writes| writes.insert_many(&job)).await {
            Ok(outcomes) => outcomes,
            // SQLite refused one of them, and nothing was written. One by one, only that one fails.
            Err(StoreError::Corrupt(_)) if inserts.len() > 1 => {
                let mut outcomes = Vec::with_capacity(inserts.len());
                for insert in inserts.iter() {
                    outcomes.push(self.insert(insert.clone()).await);
                }
                outcomes
            }
            Err(error) => each_failed(&error, inserts.len()),
        }
    }

    async fn preview_insert(&self, insert: &Insert) -> Result<Inserted, StoreError> {
        let insert = insert.clone();
        // On the writer's thread, as an insert: a reader's snapshot may be older.
        self.threads
            .write(move |writes| {
                Ok(match writes.decide(&insert)? {
                    Decision::Write => Inserted::Created,
                    Decision::Reuse(_, existing) => Inserted::Existing(existing),
                    Decision::Answer(answer) => answer,
                })
            })
            .await
    }

    async fn answered(&self, request: &IdempotencyKey) -> Result<Option<Inserted>, StoreError> {
        let request = request.clone();
        // Not on a reader's thread: its snapshot may be older than the answer.
        self.threads.write(move |writes| writes.answered(&request)).await
    }

    async fn update(
        &self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, StoreError> {
        let (link, events) = (link.clone(), events.to_vec());
        self.threads.write(move |writes| writes.update(&link, expected, &events)).await
    }

    /// Readers see a change only after its sync.
    async fn confirm(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<LinkVersion>, StoreError> {
        let key = key.clone();
        self.threads.read(LIST, move |queries| queries.history(&key, limit)).await
    }

    async fn forget_history(&self, key: &LinkKey) -> Result<(), StoreError> {
        let key = key.clone();
        self.threads.write(move |writes| writes.forget_history_of(&key)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        let query = query.clone();
        let pool = if is_plain(&query) { LIST } else { SEARCH };
        self.threads.read(pool, move |queries| queries.list(&query)).await
    }

    async fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, StoreError> {
        self.threads.read(SEARCH, move |queries| queries.tags(owner, limit)).await
    }

    async fn lease_ahead(&self, lease: CodeLease) -> Result<Range<u64>, StoreError> {
        self.threads.write(move |writes| writes.lease(lease)).await
    }

    async fn incarnation(&self) -> Result<u64, StoreError> {
        self.threads.read(LIST, |queries| Ok(leases::incarnation(&queries.conn)?)).await
    }

    async fn raise_incarnation(&self, seen: u64) -> Result<u64, StoreError> {
        self.threads.write(move |writes| writes.raise_incarnation(seen)).await
    }

    async fn mark_expired(
        &self,
        now: Timestamp,
        limit: usize,
        subscribers: &[OwnerId],
    ) -> Result<Vec<LinkKey>, StoreError> {
        let subscribers = subscribers.iter().copied().collect();
        self.threads.write(move |writes| writes.mark_expired(now, limit, &subscribers)).await
    }

    async fn purge(
        &self,
        before: PurgeBefore,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError> {
        self.threads.write(move |writes| writes.purge(before, limit, quarantine_until)).await
    }

    async fn count_purgeable(&self, before: PurgeBefore) -> Result<u64, StoreError> {
        self.threads.read(SEARCH, move |queries| queries.count_purgeable(before)).await
    }

    async fn count_links(&self) -> Result<u64, StoreError> {
        self.threads.read(SEARCH, LinkQueries::count_links).await
    }

    async fn release(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.threads.write(move |writes| writes.release(now, limit)).await
    }

    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.threads.write(move |writes| writes.forget_requests(before, limit)).await
    }

    async fn scrub(&self) -> Result<(), StoreError> {
        let mark = self.mark.clone();
        let marked = move |site: &DbLocation| {
            let Some(mark) = &mark else { return engine::empty_log(site) };
            let lock = || mark.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = lock().begin_emptying() {
                tracing::warn!(%error, "the mark beside the links file cannot be written");
            }
            let emptied = engine::empty_log(site);
            lock().end_emptying();
            emptied
        };
        engine::scrub_by(&self.site, marked).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.threads.check()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use terse_core::Sort;
    use terse_testkit::{alias, timestamp};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_list_does_not_wait_for_searches() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(
            EmbeddedLinks::open(EmbeddedOptions::new(folder.path().join("terse.db"))).unwrap(),
        );
        store.insert(Insert::new(alias("listed", "https://example.com/"), None)).await.unwrap();
        // More searches than threads for them; none ends before the list has.
        let (begun, begins) = mpsc::channel();
        let mut searches = Vec::new();
        for _ in 0..=SEARCHERS {
            let (release, released) = mpsc::channel::<()>();
            let (store, begun) = (store.clone(), begun.clone());
            let search = tokio::spawn(async move {
                let search = move |_: &LinkQueries| {
                    let _gone = begun.send(());
                    let _gone = released.recv();
                    Ok(())
                };
                let _timeout = store.threads().read(SEARCH, search).await;
            });
            searches.push((release, search));
        }
        for _ in 0..SEARCHERS {
            begins.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        let query = ListQuery::all(Sort::Newest, 10, timestamp(1));
        assert_eq!(store.list(&query).await.unwrap().links.len(), 1);
        assert!(begins.try_recv().is_err(), "the last search waits for a thread");
        for (release, search) in searches {
            drop(release);
            search.await.unwrap();
        }
        store.close();
    }

    #[test]
    fn lists_with_filters_are_searches() {
        let all = ListQuery::all(Sort::Newest, 10, timestamp(1));
        for (query, plain) in [
            (all.clone(), true),
            (ListQuery { owner: Some(OwnerId(1)), ..all.clone() }, true),
            (ListQuery { archived: Some(false), ..all.clone() }, true),
            (ListQuery { status: Some(LinkStatus::Active), ..all.clone() }, true),
            (ListQuery { status: Some(LinkStatus::Blocked), ..all.clone() }, false),
            (ListQuery { archived: Some(true), ..all.clone() }, false),
            (ListQuery { text: Some("x".into()), ..all.clone() }, false),
            (ListQuery { tag: Some("x".into()), ..all.clone() }, false),
            (ListQuery { domain: Some(Domain::primary()), ..all.clone() }, false),
        ] {
            assert_eq!(is_plain(&query), plain, "{query:?}");
        }
    }
}
