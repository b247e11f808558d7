//! What a store of links must promise.

use std::ops::Range;

use crate::time::Timestamp;
use async_trait::async_trait;

use crate::changes::ChangeFeed;
use crate::domain::Domain;
use crate::identity::Identity;
use crate::insert::{Insert, Inserted};
use crate::link::{Link, LinkKey, OwnerId, Revision, Status};
use crate::link_reader::{ClickSpender, LinkReader};
use crate::outbox::{Outbox, OutboxEvent};

/// How many earlier states of a link are kept.
pub const MAX_REVISIONS: usize = 50;

/// A driver's own error, kept as the source of ours.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong, by what can be done about it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another link has this code (or an alias of another owner differs from it only by case). Take
    /// another.
    #[error("the code is already taken")]
    CodeTaken,
    /// Somebody changed the link in between. Read it again.
    #[error("the link was changed by somebody else")]
    Conflict,
    /// Too much is waiting to be written. Nothing was done; try again in a moment.
    #[error("the store is busy")]
    Busy,
    /// Every number of this code length was given out. Take the next length.
    #[error("all codes of this length are used up")]
    Exhausted,
    /// Redirects serve what they remember.
    #[error("the store cannot be reached")]
    Unavailable(#[source] BoxError),
    /// Never becomes a redirect.
    #[error("the store holds something we cannot read")]
    Corrupt(#[source] BoxError),
}

/// A link before one of its changes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkVersion {
    /// As it was.
    pub link: Link,
    /// Until it was changed: when the link that took its place says to have been updated.
    pub until: Timestamp,
}

/// The outcome of a conditional update.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Updated {
    /// Written and durable.
    Done,
    /// No such link.
    Missing,
}

/// A place in a list, meaningful only to the store that made it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cursor(pub Vec<u8>);

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Sort {
    /// Newest first.
    #[default]
    Newest,
    /// Oldest first.
    Oldest,
}

/// Which links to list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// Only of this owner.
    pub owner: Option<OwnerId>,
    /// Only on this domain.
    pub domain: Option<Domain>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only those whose code, target or title contains this text; ASCII case does not matter.
    pub text: Option<String>,
    /// Only in this state at `now`. Deleted links are listed only if asked for.
    pub status: Option<Status>,
    /// Only those that are put away, or only those that are not.
    pub archived: Option<bool>,
    /// In which order.
    pub sort: Sort,
    /// Behind this place.
    pub after: Option<Cursor>,
    /// At most this many.
    pub limit: usize,
    /// The moment to judge states by.
    pub now: Timestamp,
}

impl ListQuery {
    /// All that are not deleted, the first `limit` of them. What else is wished is changed in it.
    pub fn all(sort: Sort, limit: usize, now: Timestamp) -> Self {
        let (owner, domain, tag, text, status, archived, after) =
            (None, None, None, None, None, None, None);
        Self { owner, domain, tag, text, status, archived, sort, after, limit, now }
    }
}

/// A part of a list. It may be shorter than asked for, even empty, although `next` says that there
/// is more: a store may stop looking after a while.
#[derive(Clone, Debug)]
pub struct Page {
    /// The links.
    pub links: Vec<Link>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
}

/// A tag, and how many links of an owner have it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// How many links.
    pub links: u64,
}

impl TagCount {
    /// How many different tags of one owner are counted; what comes after these is left out.
    pub const MAX_TAGS: usize = 100_000;

    /// The `limit` of them that most links have, those first; by name where as many have them.
    pub fn ranked(counts: impl IntoIterator<Item = (String, u64)>, limit: usize) -> Vec<Self> {
        let mut all: Vec<Self> =
            counts.into_iter().map(|(tag, links)| Self { tag, links }).collect();
        all.sort_unstable_by(|a, b| b.links.cmp(&a.links).then_with(|| a.tag.cmp(&b.tag)));
        all.truncate(limit);
        all
    }
}

/// Where links live. Every implementation runs `terse_testkit::link_store!`.
///
/// Every write is one atomic, conditional operation and is durable when it returns `Ok`. A write
/// that returns an error other than `Unavailable` changed nothing; after `Unavailable` it may or
/// may not have happened, as with any database whose answer got lost. Dropping a future at any
/// point leaves the write done or not done, never half.
#[async_trait]
pub trait LinkStore: LinkReader + ClickSpender + ChangeFeed + Outbox {
    /// The store's own secret, made at its birth.
    fn identity(&self) -> &Identity;

    /// Applies an [`Insert`] in one atomic conditional write: of two racing inserts of one key one
    /// wins, the other is refused with `CodeTaken`, as it is if one of the conditions does not
    /// hold. A deleted or expired link holds its code until it is purged.
    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError>;

    /// Replaces the link if its stored revision is still `expected`; else `Conflict`. Key, owner,
    /// `generated`, `created_at` and `spent_clicks` are never changed by an update. In the same
    /// write, what the link was before is kept for [`LinkStore::history`], unless its owner would
    /// see no difference ([`Link::owner_visible_eq`]). The events go to the outbox in the same write.
    async fn update(
        &self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, StoreError>;

    /// What a link was before each of its last changes, the latest first: at most `limit` of them,
    /// and of the oldest nothing is left once there are more than [`MAX_REVISIONS`]. They go for
    /// good with the link.
    async fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<LinkVersion>, StoreError>;

    /// Forgets what a link was before its changes. Nothing happens where there is nothing to
    /// forget.
    async fn forget_history(&self, key: &LinkKey) -> Result<(), StoreError>;

    /// Lists links that existed throughout a walk exactly once, whatever is written meanwhile.
    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError>;

    /// The tags of an owner's links, but for deleted ones, as [`TagCount::ranked`] has them.
    /// Nobody's links have none here.
    async fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, StoreError>;

    /// Hands out numbers for codes of this length that no other caller ever gets. May be shorter
    /// than asked for, never empty. `Exhausted` at `capacity`.
    ///
    /// `at_least` is the highest end of a range of this length that the caller knows of, 0 if it
    /// knows of none; the range begins no lower. A store whose own mark is lower has lost leases,
    /// as after a restore from an older copy: in the same write it raises its incarnation and skips
    /// ahead in all ranges, as [`LinkStore::raise_incarnation`] does.
    async fn lease(
        &self,
        length: u8,
        count: u64,
        capacity: u64,
        at_least: u64,
    ) -> Result<Range<u64>, StoreError>;

    /// Which life of the store this is. A restore from a copy begins another, because everything
    /// that happened since the copy was made is known to the world and not to the store. Caches
    /// outside of the store put it in front of their keys.
    async fn incarnation(&self) -> Result<u64, StoreError>;

    /// Begins another life if the present one is still `seen`, and returns the present one: if
    /// several nodes notice the same restore, it is raised once. In the same write all ranges skip
    /// ahead by a billion numbers, or by a sixteenth of a length that has fewer.
    async fn raise_incarnation(&self, seen: u64) -> Result<u64, StoreError>;

    /// Frees up to `limit` links that expired by `now` from being reused, once each, and says
    /// which. For those that are `Status::Expired` at `now`, a `LinkExpired` event goes to the
    /// outbox in the same write if their owner is one of `subscribers`.
    async fn mark_expired(
        &self,
        now: Timestamp,
        limit: usize,
        subscribers: &[OwnerId],
    ) -> Result<Vec<LinkKey>, StoreError>;

    /// Deletes for good up to `limit` links that expired or were deleted by `before`, and says
    /// which. Blocked links stay, so that their codes are never given out again. With
    /// `quarantine_until`, aliases that people chose are held until then in the same step: what was
    /// printed and sent around must not lead to a stranger's page the day after. Their former
    /// owners can have them back; nobody was the owner of an anonymous one.
    async fn purge(
        &self,
        before: Timestamp,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError>;

    /// Frees up to `limit` aliases that were held until `now` or earlier, and says how many.
    async fn release(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Forgets up to `limit` request ids older than `before`.
    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Whether writes can be expected to succeed right now.
    async fn check(&self) -> Result<(), StoreError>;
}
