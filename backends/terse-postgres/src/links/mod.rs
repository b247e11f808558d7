//! The link store.

mod changes;
mod expiry;
mod insert_batch;
mod inserts;
mod leases;
mod list;
mod lookups;
mod old_changes;
mod queue;
pub(crate) mod row;
mod spender;
mod updates;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::{
    AbsenceCertainty, Alphabet, ChangeCursor, ChangeFeed, ChangePage, ClickSpend, ClickSpender,
    CodeHash, CodeLease, Domain, IdempotencyKey, Insert, Inserted, LeaseMarks, Link, LinkChange,
    LinkKey, LinkPage, LinkReader, LinkStore, LinkVersion, ListQuery, Numbering, Outbox,
    OutboxEvent, OutboxPage, OwnerId, PurgeBefore, Revision, StoreError, StoreIdentity, TagCount,
    Timestamp, Updated,
};
use tokio::sync::Mutex;

use crate::failure::unavailable;
use crate::options::{PostgresOpenError, PostgresOptions};
use crate::pool::{Connector, Pool, PostgresConnections};
use crate::schema;
use crate::sql::params;
use crate::transfer;
use changes::Feed;
use inserts::{Inserter, Waiting};
use list::Purpose;
use lookups::Lookups;
pub use old_changes::OldLinkChanges;
use spender::Spender;

/// Links in a database that several nodes share.
pub struct PostgresLinks {
    pool: Arc<Pool>,
    identity: StoreIdentity,
    numbering: Numbering,
    marks: LeaseMarks,
    lookups: Lookups,
    inserter: Inserter,
    spender: Spender,
    feed: Mutex<Feed>,
}

impl PostgresLinks {
    /// Connects, and creates or migrates the tables. Connections and tasks belong to the runtime
    /// that calls this.
    pub async fn open(options: PostgresOptions) -> Result<Self, PostgresOpenError> {
        let direct = options.direct_url.as_ref().unwrap_or(&options.url);
        let direct = Connector::new(direct, options.connect_timeout)?;
        schema::LINKS.migrate_partitioned(&direct, options.partitions).await?;
        let pool = Arc::new(Pool::open(&options).await?);
        transfer::check_finished(&pool).await?;
        let identity = identity(&pool, options.alphabet)
            .await
            .map_err(|error| PostgresOpenError::Foreign(describe(&error)))?;
        let numbering = Numbering::new(&identity);
        let marks = leases::known(&pool)
            .await
            .map_err(|error| PostgresOpenError::Foreign(describe(&error)))?;
        let lookups = Lookups::start(Arc::clone(&pool));
        let inserter = Inserter::start(Arc::clone(&pool), numbering.clone(), options.queue);
        let spender = Spender::start(Arc::clone(&pool));
        let feed = Mutex::default();
        Ok(Self { pool, identity, numbering, marks, lookups, inserter, spender, feed })
    }

    /// Its connections, for other stores in the same database.
    pub fn connections(&self) -> PostgresConnections {
        PostgresConnections(Arc::clone(&self.pool))
    }

    /// How many new links are waiting to be committed.
    pub fn queue_depth(&self) -> usize {
        self.inserter.depth()
    }

    /// Commits the new links and the clicks that wait, and stops the tasks. Later lookups, inserts
    /// and clicks get `Unavailable`.
    pub async fn close(&self) {
        self.inserter.close().await;
        self.spender.close().await;
        self.lookups.close().await;
    }
}

fn describe(error: &StoreError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl std::fmt::Debug for PostgresLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresLinks").finish_non_exhaustive()
    }
}

/// Reads the identity of the store. The first node creates it.
async fn identity(pool: &Pool, alphabet: Alphabet) -> Result<StoreIdentity, StoreError> {
    let new = StoreIdentity::generate(alphabet)
        .map_err(|error| unavailable(format!("no random numbers: {error}")))?;
    pool.write_unrepeatable(
        "INSERT INTO link_store (secret, alphabet, code_hash, incarnation) \
         VALUES ($1, $2, $3, 1) ON CONFLICT (one) DO NOTHING",
        params![&new.secret()[..], new.alphabet.as_str(), new.code_hash.as_str()],
    )
    .await?;
    let stored = stored_identity(pool).await?;
    stored.ok_or_else(|| crate::failure::corrupt("the store has no identity"))
}

/// The identity of the store, if a node has created one.
pub(crate) async fn stored_identity(pool: &Pool) -> Result<Option<StoreIdentity>, StoreError> {
    let rows = pool.lookup("SELECT secret, alphabet, code_hash FROM link_store", &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let unknown = |what: &str| crate::failure::corrupt(format!("the store has an unknown {what}"));
    let secret: Vec<u8> = row.get(0);
    Ok(Some(StoreIdentity::from_stored(
        secret.try_into().map_err(|_| unknown("secret"))?,
        Alphabet::parse(row.get(1)).ok_or_else(|| unknown("alphabet"))?,
        CodeHash::parse(row.get(2)).ok_or_else(|| unknown("code hash"))?,
    )))
}

#[async_trait]
impl LinkReader for PostgresLinks {
    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        let found = self.lookups.get(key).await;
        self.marks.note_found(&found, &self.numbering);
        found
    }

    async fn get_many(&self, keys: &[LinkKey]) -> Vec<Result<Option<Link>, StoreError>> {
        let found = self.lookups.get_many(keys).await;
        found.iter().for_each(|found| self.marks.note_found(found, &self.numbering));
        found
    }

    async fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.lookups.get_folded(key).await
    }

    fn surely_absent(&self, _domain: &Domain, code: &str) -> AbsenceCertainty {
        self.marks.absence(code, &self.numbering)
    }
}

#[async_trait]
impl ClickSpender for PostgresLinks {
    async fn spend(&self, key: &LinkKey) -> Result<ClickSpend, StoreError> {
        self.spender.spend(key).await
    }
}

#[async_trait]
impl ChangeFeed for PostgresLinks {
    async fn last_change(&self) -> Result<ChangeCursor, StoreError> {
        let mut feed = self.feed.lock().await;
        feed.refresh(&self.pool).await?;
        Ok(feed.last())
    }

    async fn changes(&self, after: ChangeCursor, limit: usize) -> Result<ChangePage, StoreError> {
        let mut feed = self.feed.lock().await;
        feed.refresh(&self.pool).await?;
        Ok(feed.page(after, limit))
    }

    async fn announce(&self, key: &LinkKey) -> Result<(), StoreError> {
        changes::announce(&self.pool, key).await
    }

    async fn recent_changes(
        &self,
        span: Duration,
        limit: usize,
    ) -> Result<Option<Vec<LinkChange>>, StoreError> {
        changes::recent(&self.pool, span, limit).await
    }
}

#[async_trait]
impl Outbox for PostgresLinks {
    async fn outbox(&self, after: Option<u64>, limit: usize) -> Result<OutboxPage, StoreError> {
        self.waiting_events(after, limit).await
    }

    async fn outbox_done(&self, positions: &[u64]) -> Result<(), StoreError> {
        let ids: Vec<i64> =
            positions.iter().filter_map(|position| i64::try_from(*position).ok()).collect();
        self.pool
            .write_unrepeatable("DELETE FROM link_outbox WHERE id = ANY($1)", params![ids])
            .await
            .map(drop)
    }
}

#[async_trait]
impl LinkStore for PostgresLinks {
    fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError> {
        self.inserter.insert(insert).await
    }

    async fn preview_insert(&self, insert: &Insert) -> Result<Inserted, StoreError> {
        let waiting = [Waiting::unanswered(insert.clone())];
        let decided = insert_batch::preview(&self.pool, &self.numbering, &waiting).await?;
        decided.into_iter().next().unwrap_or_else(|| Err(unavailable("no answer")))
    }

    async fn answered(&self, request: &IdempotencyKey) -> Result<Option<Inserted>, StoreError> {
        self.find_answer(request).await
    }

    async fn update(
        &self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, StoreError> {
        self.update_link(link, expected, events).await
    }

    async fn confirm(&self) -> Result<(), StoreError> {
        Ok(self.pool.confirm().await?)
    }

    async fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<LinkVersion>, StoreError> {
        self.versions(key, limit).await
    }

    async fn forget_history(&self, key: &LinkKey) -> Result<(), StoreError> {
        self.pool
            .write_unrepeatable(
                "DELETE FROM link_revisions WHERE domain = $1 AND code = $2",
                params![key.domain.as_str(), key.code.as_str()],
            )
            .await
            .map(drop)
    }

    async fn list(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        self.list_page(query, Purpose::Decision).await
    }

    async fn list_to_show(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        self.list_page(query, Purpose::Display).await
    }

    async fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, StoreError> {
        self.count_tags(owner, limit).await
    }

    async fn lease_ahead(&self, lease: CodeLease) -> Result<Range<u64>, StoreError> {
        self.lease_numbers(lease).await
    }

    async fn incarnation(&self) -> Result<u64, StoreError> {
        let rows = self.pool.lookup("SELECT incarnation FROM link_store", &[]).await?;
        let row = rows.first().ok_or_else(|| crate::failure::corrupt("no identity"))?;
        Ok(row.get::<_, i64>(0).cast_unsigned())
    }

    async fn raise_incarnation(&self, seen: u64) -> Result<u64, StoreError> {
        self.raise(seen).await
    }

    async fn mark_expired(
        &self,
        now: Timestamp,
        limit: usize,
        subscribers: &[OwnerId],
    ) -> Result<Vec<LinkKey>, StoreError> {
        self.mark(now, limit, subscribers).await
    }

    async fn purge(
        &self,
        before: PurgeBefore,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError> {
        self.purge_ended(before, limit, quarantine_until).await
    }

    async fn count_purgeable(&self, before: PurgeBefore) -> Result<u64, StoreError> {
        self.purgeable(before).await
    }

    async fn count_links(&self) -> Result<u64, StoreError> {
        // The server's own estimate where counting would take long: of the table, or of its
        // partitions, as the server estimates a partitioned table only when asked.
        let sql = "SELECT CASE WHEN estimate > 1000000 THEN estimate::bigint \
             ELSE (SELECT count(*) FROM links) END \
             FROM (SELECT sum(greatest(reltuples, 0)) AS estimate FROM pg_class \
             WHERE relkind = 'r' AND (oid = to_regclass('links') \
             OR oid IN (SELECT inhrelid FROM pg_inherits \
             WHERE inhparent = to_regclass('links')))) AS e";
        let rows = self.pool.list(sql, &[]).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
    }

    async fn release(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.release_aliases(now, limit).await
    }

    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.delete_requests(before, limit).await
    }

    /// The server manages its files. Its vacuum and the recycling of its log remove what it keeps
    /// of deleted rows.
    async fn scrub(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.pool.check().await
    }
}
