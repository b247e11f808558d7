//! The link store.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::{
    AbsenceCertainty, ChangeCursor, ChangeFeed, ChangePage, ClickSpend, ClickSpender, CodeLease,
    Domain, IdempotencyKey, Insert, Inserted, LeaseMarks, Link, LinkChange, LinkKey, LinkPage,
    LinkReader, LinkStore, LinkVersion, ListQuery, Numbering, Outbox, OutboxEvent, OutboxPage,
    OwnerId, PurgeBefore, Revision, StoreError, StoreIdentity, TagCount, Timestamp, Updated,
};
use tokio::sync::Mutex;

use crate::changes::{self, Feed, RecentChanges};
use crate::client::{Db, TableRegion};
use crate::lookups::{Lookups, Source, describe};
use crate::options::{DynamoOpenError, DynamoOptions};
use crate::{expiry, inserts, leases, list, outbox, table, updates};

/// Links in a table that several nodes share.
pub struct DynamoLinks {
    /// The table in the home region, which gets all writes.
    db: Db,
    max_in_flight: usize,
    identity: StoreIdentity,
    numbering: Numbering,
    marks: LeaseMarks,
    lookups: Lookups,
    feed: Mutex<Feed>,
}

/// The capacity that requests have consumed, as the server counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConsumedCapacity {
    /// Read request units.
    pub read: f64,
    /// Write request units.
    pub written: f64,
}

impl DynamoLinks {
    /// Connects and checks the table. Tasks belong to the runtime that calls this.
    pub async fn open(options: DynamoOptions) -> Result<Self, DynamoOpenError> {
        let db = Db::connect(&options, TableRegion::Home).await?;
        let table_id = table::check(&db, &options).await?;
        let near = match options.address.home {
            Some(_) => {
                let near = Db::connect(&options, TableRegion::Near).await?;
                table::check(&near, &options).await?;
                Some(near)
            }
            None => None,
        };
        let identity = table::identity(&db, options.alphabet).await?;
        let numbering = Numbering::new(&identity);
        let detected = leases::detect_restore(&db, &numbering, &table_id).await;
        detected.map_err(|error| DynamoOpenError::Service(describe(&error)))?;
        let marks = leases::known(&db).await;
        let marks = marks.map_err(|error| DynamoOpenError::Service(describe(&error)))?;
        let recent = Arc::new(RecentChanges::default());
        let source = Source { home: db.clone(), near, recent: Arc::clone(&recent) };
        let lookups = Lookups::start(source);
        let feed = Mutex::new(Feed::new(recent));
        let max_in_flight = options.max_in_flight;
        Ok(Self { db, max_in_flight, identity, numbering, marks, lookups, feed })
    }

    /// How many requests are under way.
    pub fn queue_depth(&self) -> usize {
        self.max_in_flight.saturating_sub(self.db.free_requests())
    }

    /// What the requests of this handle have consumed in the home region.
    pub fn consumed(&self) -> ConsumedCapacity {
        let units = self.db.units();
        let whole = |hundredths: u64| hundredths as f64 / 100.0;
        ConsumedCapacity {
            read: whole(units.read.load(Ordering::Relaxed)),
            written: whole(units.written.load(Ordering::Relaxed)),
        }
    }

    /// Stops the task that gathers lookups. Later ones get `Unavailable`.
    pub async fn close(&self) {
        self.lookups.close().await;
    }
}

impl std::fmt::Debug for DynamoLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynamoLinks").field("db", &self.db).finish_non_exhaustive()
    }
}

#[async_trait]
impl LinkReader for DynamoLinks {
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
impl ClickSpender for DynamoLinks {
    async fn spend(&self, key: &LinkKey) -> Result<ClickSpend, StoreError> {
        updates::spend(&self.db, key).await
    }
}

#[async_trait]
impl ChangeFeed for DynamoLinks {
    async fn last_change(&self) -> Result<ChangeCursor, StoreError> {
        let mut feed = self.feed.lock().await;
        feed.refresh(&self.db).await?;
        Ok(feed.last())
    }

    async fn changes(&self, after: ChangeCursor, limit: usize) -> Result<ChangePage, StoreError> {
        let mut feed = self.feed.lock().await;
        feed.refresh(&self.db).await?;
        Ok(feed.page(after, limit))
    }

    async fn announce(&self, key: &LinkKey) -> Result<(), StoreError> {
        changes::announce(&self.db, key).await
    }

    async fn recent_changes(
        &self,
        span: Duration,
        limit: usize,
    ) -> Result<Option<Vec<LinkChange>>, StoreError> {
        changes::recent(&self.db, span, limit).await
    }
}

#[async_trait]
impl Outbox for DynamoLinks {
    async fn outbox(&self, after: Option<u64>, limit: usize) -> Result<OutboxPage, StoreError> {
        outbox::page(&self.db, after, limit).await
    }

    async fn outbox_done(&self, positions: &[u64]) -> Result<(), StoreError> {
        outbox::remove(&self.db, positions).await
    }
}

#[async_trait]
impl LinkStore for DynamoLinks {
    fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError> {
        inserts::insert(&self.db, &self.numbering, insert).await
    }

    async fn preview_insert(&self, insert: &Insert) -> Result<Inserted, StoreError> {
        inserts::preview(&self.db, &self.numbering, insert).await
    }

    async fn answered(&self, request: &IdempotencyKey) -> Result<Option<Inserted>, StoreError> {
        inserts::answered(&self.db, request).await
    }

    async fn update(
        &self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, StoreError> {
        updates::update(&self.db, link, expected, events).await
    }

    /// What the service shows is durable.
    async fn confirm(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<LinkVersion>, StoreError> {
        updates::history(&self.db, key, limit).await
    }

    async fn forget_history(&self, key: &LinkKey) -> Result<(), StoreError> {
        updates::forget_history(&self.db, key).await
    }

    async fn list(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        list::page(&self.db, query).await
    }

    async fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, StoreError> {
        list::tags(&self.db, owner, limit).await
    }

    async fn lease_ahead(&self, lease: CodeLease) -> Result<Range<u64>, StoreError> {
        let range = leases::lease(&self.db, &self.numbering, lease).await?;
        self.marks.raise(lease.length, range.end);
        Ok(range)
    }

    async fn incarnation(&self) -> Result<u64, StoreError> {
        leases::incarnation(&self.db).await
    }

    async fn raise_incarnation(&self, seen: u64) -> Result<u64, StoreError> {
        leases::raise_incarnation(&self.db, &self.numbering, seen).await
    }

    async fn mark_expired(
        &self,
        now: Timestamp,
        limit: usize,
        subscribers: &[OwnerId],
    ) -> Result<Vec<LinkKey>, StoreError> {
        expiry::mark(&self.db, now, limit, subscribers).await
    }

    async fn purge(
        &self,
        before: PurgeBefore,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError> {
        expiry::purge(&self.db, before, limit, quarantine_until).await
    }

    async fn count_purgeable(&self, before: PurgeBefore) -> Result<u64, StoreError> {
        expiry::count_purgeable(&self.db, before).await
    }

    async fn count_links(&self) -> Result<u64, StoreError> {
        list::count_links(&self.db).await
    }

    async fn release(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        expiry::release(&self.db, now, limit).await
    }

    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        expiry::forget_requests(&self.db, before, limit).await
    }

    /// The service manages its storage.
    async fn scrub(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        leases::incarnation(&self.db).await.map(drop)
    }
}
