//! How caches of links learn that a link changed.
//!
//! The node that writes calls its own [`RouteCache`] before it answers. Every other node reads
//! [`ChangeFeed`] once a second with a [`ChangeFollower`] and does the same. Copies of links that
//! nodes share are a [`SharedCache`], which the follower keeps up to date.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::link::{Link, LinkKey, Revision};
use crate::store::StoreError;
use crate::time::Timestamp;

/// A cache of routes in this process. A service calls it after a write is durable and before it
/// answers the caller, so that the node that wrote never serves the old link again.
pub trait RouteCache: Send + Sync + 'static {
    /// Drops what is cached for this link, found or missing. A lookup that began before this call
    /// is not cached when it ends.
    fn forget(&self, key: &LinkKey);

    /// This node has written the link in this form. Drops what is cached for it, as
    /// [`RouteCache::forget`] does. A cache that can reach other nodes also announces the change to
    /// them, without waiting: they read it in the change feed anyway.
    fn changed(&self, link: &Link) {
        self.forget(&link.key);
    }

    /// Like [`RouteCache::changed`], for a link whose present form the caller does not know.
    fn forget_everywhere(&self, key: &LinkKey) {
        self.forget(key);
    }

    /// Drops everything, with the same promise about lookups under way. Takes long if the cache is
    /// large: do not call it on a serving thread.
    fn forget_all(&self);
}

/// A cache that does nothing, for programs that cache no routes.
#[derive(Debug, Default)]
pub struct NoRouteCache;

impl RouteCache for NoRouteCache {
    fn forget(&self, _key: &LinkKey) {}

    fn forget_all(&self) {}
}

/// A position in the feed: all changes up to here were read. Only the store that created it can
/// read it.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct ChangeCursor(pub u64);

/// A link was changed, removed, or created with an alias.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkChange {
    /// Which link.
    pub key: LinkKey,
    /// The revision that the write stored, or the last one of a link that was removed;
    /// [`Revision::UNKNOWN`] after [`ChangeFeed::announce`]. A cache that is shared by several
    /// nodes keeps the value with the higher revision.
    pub revision: Revision,
    /// When, by the store's clock.
    pub at: Timestamp,
}

/// A part of the feed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChangePage {
    /// The changes, oldest first. A store whose writes become visible out of order repeats rows
    /// rather than leaving one out: forgetting twice is harmless.
    pub changes: Vec<LinkChange>,
    /// The cursor to continue from.
    pub next: ChangeCursor,
    /// Whether changes after the given cursor are no longer in the feed, because they are older
    /// than [`CHANGES_KEPT`] or because the store was restored from a backup. The reader must
    /// forget everything it has cached.
    pub gap: bool,
}

/// How long a store keeps change rows, at least.
pub const CHANGES_KEPT: Duration = Duration::from_secs(600);

/// The changes of a store, for every node that caches links.
///
/// The store writes a row in the same transaction as every write that alters or removes a stored
/// link and as every new alias. It writes none for a new generated code, which cannot have been
/// cached as missing before it was known, and none for a spent click. Rows older than
/// [`CHANGES_KEPT`] may be removed.
#[async_trait]
pub trait ChangeFeed: Send + Sync + 'static {
    /// Where the feed ends now: the place to begin for a node that has cached nothing yet.
    async fn last_change(&self) -> Result<ChangeCursor, StoreError>;

    /// The changes after a cursor, at most `limit` of them.
    async fn changes(&self, after: ChangeCursor, limit: usize) -> Result<ChangePage, StoreError>;

    /// Writes a row with [`Revision::UNKNOWN`] for a link that did not change, or that does not
    /// exist: every node that reads it forgets the link.
    async fn announce(&self, key: &LinkKey) -> Result<(), StoreError>;

    /// All changes of the last `span`, for a node that has not followed the feed all that time, in
    /// any order. `None` if there are more than `limit`, or if the store cannot tell.
    async fn recent_changes(
        &self,
        _span: Duration,
        _limit: usize,
    ) -> Result<Option<Vec<LinkChange>>, StoreError> {
        Ok(None)
    }
}

/// Copies of links outside of the store, which several nodes read and write.
#[async_trait]
pub trait SharedCache: Send + Sync + 'static {
    /// From now on this node uses no older copy of the link. Returns `false` if it knew of the
    /// change before. Called before the node's [`RouteCache`] forgets the link, because the next
    /// lookup reads the copy.
    fn record(&self, change: &LinkChange) -> bool;

    /// Replaces older copies, so that no node uses them. If that fails, this node uses no copies
    /// until it has done so.
    async fn invalidate(&self, changes: &[LinkChange]);

    /// This node has missed changes: it no longer uses any copy that exists now.
    fn reject_existing_copies(&self);
}

/// How many changes the follower reads at a time.
const PAGE: usize = 1000;
/// The largest number of pages that one poll reads. The next poll reads the rest.
const MAX_PAGES: usize = 100;

/// Called with each change that this node did not know.
pub type ChangeCallback = Arc<dyn Fn(&LinkChange) + Send + Sync>;

/// Reads the feed and drops what changed from this node's cache.
pub struct ChangeFollower {
    feed: Arc<dyn ChangeFeed>,
    cache: Arc<dyn RouteCache>,
    shared: Option<Arc<dyn SharedCache>>,
    on_change: Option<ChangeCallback>,
    cursor: Option<ChangeCursor>,
}

impl ChangeFollower {
    /// Begins at the end of the feed, at the first poll.
    pub fn new(feed: Arc<dyn ChangeFeed>, cache: Arc<dyn RouteCache>) -> Self {
        Self { feed, cache, shared: None, on_change: None, cursor: None }
    }

    /// Also keeps these copies up to date.
    #[must_use]
    pub fn with_shared(self, shared: Option<Arc<dyn SharedCache>>) -> Self {
        Self { shared, ..self }
    }

    /// Calls this for every change that the node learns of here.
    #[must_use]
    pub fn on_change(self, on_change: ChangeCallback) -> Self {
        Self { on_change: Some(on_change), ..self }
    }

    /// Forgets every link that changed since the last poll and returns how many rows it read.
    /// After an error the next poll continues where this one stopped.
    pub async fn poll(&mut self) -> Result<usize, StoreError> {
        let mut after = match self.cursor {
            Some(cursor) => cursor,
            None => {
                let cursor = self.feed.last_change().await?;
                // Anything cached before this point may have changed unseen.
                self.cache.forget_all();
                self.cursor = Some(cursor);
                cursor
            }
        };
        let mut read = 0;
        for _ in 0..MAX_PAGES {
            let page = self.feed.changes(after, PAGE).await?;
            if page.gap {
                if let Some(shared) = &self.shared {
                    shared.reject_existing_copies();
                }
                self.cache.forget_all();
            }
            self.apply(&page.changes).await;
            read += page.changes.len();
            let more = page.changes.len() >= PAGE && page.next != after;
            after = page.next;
            self.cursor = Some(after);
            if !more {
                break;
            }
        }
        Ok(read)
    }

    async fn apply(&self, changes: &[LinkChange]) {
        for change in changes {
            let is_new = self.shared.as_ref().is_none_or(|shared| shared.record(change));
            self.cache.forget(&change.key);
            if let Some(on_change) = self.on_change.as_ref().filter(|_| is_new) {
                on_change(change);
            }
        }
        if let Some(shared) = self.shared.as_ref().filter(|_| !changes.is_empty()) {
            shared.invalidate(changes).await;
        }
    }
}
