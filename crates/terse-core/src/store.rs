//! The contract of a link store.

use std::ops::Range;
use std::sync::Arc;

use crate::time::Timestamp;
use async_trait::async_trait;

use crate::changes::ChangeFeed;
use crate::domain::Domain;
use crate::identity::StoreIdentity;
use crate::insert::{self, IdempotencyKey, Insert, Inserted};
use crate::join_all::join_all;
use crate::link::{Link, LinkKey, LinkStatus, OwnerId, Revision};
use crate::link_reader::{ClickSpender, LinkReader};
use crate::outbox::{Outbox, OutboxEvent};
use crate::validation::{ValidationError, ValidationErrorKind};

/// How many earlier versions of a link a store keeps.
pub const MAX_REVISIONS: usize = 50;

/// How many inserts of [`LinkStore::insert_many`] are under way at a time, in a store that does not
/// write them at once: enough to share its syncs, few enough to leave capacity for other callers.
const INSERTS_AT_ONCE: usize = 256;

/// The error of a database driver, kept as the source of a [`StoreError`].
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Errors of a store, grouped by what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another link has this code (or an alias of another owner differs from it only by case).
    /// Choose another code.
    #[error("the code is already taken")]
    CodeTaken,
    /// Another caller changed the link in between. Read it again.
    #[error("another caller changed the link")]
    Conflict,
    /// The write queue is full. Nothing was written; try again shortly.
    #[error("the store is busy")]
    Busy,
    /// Every number of this code length is leased. Use the next length.
    #[error("all codes of this length are used up")]
    Exhausted,
    /// The store does not answer. Redirects are served from the cache.
    #[error("the store cannot be reached")]
    Unavailable(#[source] BoxError),
    /// Stored data is damaged. It is never used for a redirect.
    #[error("stored data cannot be read")]
    Corrupt(#[source] BoxError),
    /// A later version of terse wrote the data in a form that this one cannot read. The data is
    /// whole: a node of that version reads it.
    #[error("a later version of terse wrote this data; upgrade this node")]
    LaterVersion,
}

/// A link before one of its changes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkVersion {
    /// The link before the change.
    pub link: Link,
    /// When it was replaced: the `updated_at` of the version that followed it.
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

/// A request for numbers of generated codes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CodeLease {
    /// The length of the codes.
    pub length: u8,
    /// How many numbers.
    pub count: u64,
    /// How many numbers of this length there are.
    pub capacity: u64,
    /// The highest end of a range of this length that the caller knows of; 0 if it knows of none.
    pub at_least: u64,
    /// How many numbers to leave out before the range.
    pub skip: u64,
}

impl CodeLease {
    /// How many numbers a process leaves out before its first range: random, so that a folder that
    /// was copied back continues elsewhere than the one it was copied from. Large against what a
    /// day issues, small against all numbers of a length.
    pub fn start_distance(capacity: u64) -> u64 {
        random_up_to((1 << 26).min(capacity >> 15))
    }

    /// How many numbers a store leaves out when its incarnation rises: at least a billion, or a
    /// sixteenth of a length that has fewer, and a random number up to half as many more.
    pub fn restore_distance(capacity: u64) -> u64 {
        let least = 1_000_000_000.min(capacity / 16);
        least + random_up_to(least / 2)
    }
}

/// A random number from 0 to `most`; `most` if the system has no random numbers.
fn random_up_to(most: u64) -> u64 {
    getrandom::u64().map_or(most, |random| random % (most + 1))
}

/// A position in a list. Only the store that created it can read it.
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
    /// Only links of this owner.
    pub owner: Option<OwnerId>,
    /// Only links on this domain.
    pub domain: Option<Domain>,
    /// Only links with this tag.
    pub tag: Option<String>,
    /// Only links whose code, title, target or target of a redirect rule contains this text,
    /// ignoring ASCII case.
    pub text: Option<String>,
    /// Only links with this status at `now`. Deleted links are listed only with
    /// `LinkStatus::Deleted`.
    pub status: Option<LinkStatus>,
    /// Only archived links, or only links that are not archived.
    pub archived: Option<bool>,
    /// The order.
    pub sort: Sort,
    /// Only links after this position.
    pub after: Option<Cursor>,
    /// The largest number of links to return.
    pub limit: usize,
    /// The time at which statuses are evaluated.
    pub now: Timestamp,
}

/// The largest number of characters to search for.
pub const MAX_SEARCH_LENGTH: usize = 256;

impl ListQuery {
    /// Checks a text to search for.
    pub fn check_text(text: &str) -> Result<(), ValidationError> {
        if text.chars().count() <= MAX_SEARCH_LENGTH {
            return Ok(());
        }
        let detail = format!("expected 0 to {MAX_SEARCH_LENGTH} characters");
        Err(ValidationError::new(ValidationErrorKind::InvalidRequest, "q", detail))
    }

    /// The first `limit` links that are not deleted. Callers set further filters on the result.
    pub fn all(sort: Sort, limit: usize, now: Timestamp) -> Self {
        let (owner, domain, tag, text, status, archived, after) =
            (None, None, None, None, None, None, None);
        Self { owner, domain, tag, text, status, archived, sort, after, limit, now }
    }

    /// Whether the filters select this link.
    pub fn matches(&self, link: &Link) -> bool {
        let status = link.status(self.now);
        self.owner.is_none_or(|owner| link.owner == owner)
            && self.domain.as_ref().is_none_or(|domain| link.key.domain == *domain)
            && self.tag.as_ref().is_none_or(|tag| link.tags.iter().any(|have| have == tag))
            && self.text.as_ref().is_none_or(|text| link.contains(&text.to_ascii_lowercase()))
            && self.archived.is_none_or(|archived| link.archived_at.is_some() == archived)
            && match self.status {
                None => status != LinkStatus::Deleted,
                Some(wanted) => status == wanted,
            }
    }
}

/// A page of a list. It may have fewer links than `limit`, even none, although `next` is set: a
/// store may stop a long search early.
#[derive(Clone, Debug)]
pub struct LinkPage {
    /// The links.
    pub links: Vec<Link>,
    /// Where the next page starts; `None` at the end.
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
    /// The largest number of distinct tags of one owner that a store counts; it leaves out the
    /// rest.
    pub const MAX_TAGS: usize = 100_000;

    /// The `limit` most frequent tags, the most frequent first; ties are ordered by name.
    pub fn ranked(counts: impl IntoIterator<Item = (String, u64)>, limit: usize) -> Vec<Self> {
        let mut all: Vec<Self> =
            counts.into_iter().map(|(tag, links)| Self { tag, links }).collect();
        all.sort_unstable_by(|a, b| b.links.cmp(&a.links).then_with(|| a.tag.cmp(&b.tag)));
        all.truncate(limit);
        all
    }
}

/// Which links [`LinkStore::purge`] deletes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PurgeBefore {
    /// Links that were deleted by then, and links without an owner that expired by then.
    pub ended: Timestamp,
    /// Links of owners that expired by then.
    pub expired_with_owner: Timestamp,
}

/// The same time for all links.
impl From<Timestamp> for PurgeBefore {
    fn from(before: Timestamp) -> Self {
        Self { ended: before, expired_with_owner: before }
    }
}

/// Stores links. Every implementation runs `terse_testkit::link_store!`.
///
/// Every write is one atomic, conditional operation and is durable when it returns `Ok`. A write
/// that returns an error other than `Unavailable` changed nothing; after `Unavailable` it may or
/// may not have happened, as with any database whose answer got lost. Dropping a future at any
/// point leaves the write done or not done, never half.
#[async_trait]
pub trait LinkStore: LinkReader + ClickSpender + ChangeFeed + Outbox {
    /// The secret of the store, created with it.
    fn identity(&self) -> &StoreIdentity;

    /// Applies an [`Insert`] in one atomic conditional write: of two concurrent inserts of one key
    /// one wins and the store refuses the other with `CodeTaken`. It answers the same if one of the
    /// conditions does not hold. A deleted or expired link keeps its code until it is purged.
    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError>;

    /// Applies inserts as [`LinkStore::insert`] would, each after those before it, and answers in
    /// their order. One that is refused or fails does not affect the others. A store may write all
    /// of them at once; this default sends those together that cannot affect each other.
    async fn insert_many(&self, inserts: Arc<[Insert]>) -> Vec<Result<Inserted, StoreError>> {
        let mut outcomes: Vec<_> = inserts.iter().map(|_| None).collect();
        for round in insert::independent_rounds(&inserts) {
            for some in round.chunks(INSERTS_AT_ONCE) {
                let inserting = some.iter().map(|place| self.insert(inserts[*place].clone()));
                let answers = join_all(inserting.collect()).await;
                for (place, answer) in some.iter().zip(answers) {
                    outcomes[*place] = Some(answer);
                }
            }
        }
        outcomes.into_iter().map(|outcome| outcome.expect("each is in one round")).collect()
    }

    /// What [`LinkStore::insert`] would answer now. Writes nothing; another write may come in
    /// between.
    async fn preview_insert(&self, insert: &Insert) -> Result<Inserted, StoreError>;

    /// The answer that [`LinkStore::insert`] would repeat for this request: `Replayed` or
    /// `RequestMismatch`. `None` if the store has not answered it.
    async fn answered(&self, request: &IdempotencyKey) -> Result<Option<Inserted>, StoreError>;

    /// Replaces the link if its stored revision is still `expected`; else `Conflict`. Key, owner,
    /// `generated`, `created_at`, `spent_clicks` and `imported_clicks` never change in an update.
    /// In the same write, the store keeps the previous version for [`LinkStore::history`], unless
    /// its owner would see no difference ([`Link::owner_visible_eq`]), and adds the events to the
    /// outbox.
    async fn update(
        &self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, StoreError>;

    /// Returns once everything that was visible before the call is as durable as a write. For an
    /// answer that says that a change is there already: where several nodes share a database, an
    /// earlier attempt that was not acknowledged may be visible before its standby has it.
    async fn confirm(&self) -> Result<(), StoreError>;

    /// Up to `limit` earlier versions of a link, the latest first. The store keeps the last
    /// [`MAX_REVISIONS`] and deletes them with the link.
    async fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<LinkVersion>, StoreError>;

    /// Deletes the earlier versions of a link, if there are any.
    async fn forget_history(&self, key: &LinkKey) -> Result<(), StoreError>;

    /// Lists links page by page. A link that exists during the whole walk is listed exactly once,
    /// whatever is written meanwhile.
    async fn list(&self, query: &ListQuery) -> Result<LinkPage, StoreError>;

    /// [`LinkStore::list`] for what is only shown or exported, never for what terse decides: a
    /// replica may answer. The list has every link that was acknowledged before the call; only with
    /// a text to search for may it be some seconds older.
    async fn list_to_show(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        self.list(query).await
    }

    /// The tags of an owner's links, except deleted ones, as [`TagCount::ranked`] orders them.
    /// Empty for anonymous links.
    async fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, StoreError>;

    /// Leases numbers for codes of a length that no other caller ever gets. The range may be
    /// shorter than requested, never empty. It begins exactly [`CodeLease::skip`] numbers past the
    /// store's mark, or past [`CodeLease::at_least`] if that is higher. `Exhausted` at the
    /// capacity.
    ///
    /// A store whose own mark is lower than `at_least` has lost leases, as after a restore from an
    /// older copy: in the same write it raises its incarnation and skips ahead in all ranges, as
    /// [`LinkStore::raise_incarnation`] does.
    async fn lease_ahead(&self, lease: CodeLease) -> Result<Range<u64>, StoreError>;

    /// [`LinkStore::lease_ahead`] without a distance.
    async fn lease(
        &self,
        length: u8,
        count: u64,
        capacity: u64,
        at_least: u64,
    ) -> Result<Range<u64>, StoreError> {
        self.lease_ahead(CodeLease { length, count, capacity, at_least, skip: 0 }).await
    }

    /// The incarnation number of the store. A restore from a backup raises it, because the restored
    /// store lacks every write since the backup. Caches outside of the store prefix their keys with
    /// it.
    async fn incarnation(&self) -> Result<u64, StoreError>;

    /// Raises the incarnation if it is still `seen`, and returns the current one: if several nodes
    /// notice the same restore, it is raised once. In the same write all ranges skip ahead by
    /// [`CodeLease::restore_distance`].
    async fn raise_incarnation(&self, seen: u64) -> Result<u64, StoreError>;

    /// Ends the reuse of up to `limit` links that expired by `now`, once each, stores `now` as the
    /// time of the mark, and returns their keys. For those that are `LinkStatus::Expired` at `now`,
    /// a `LinkExpired` event goes to the outbox in the same write if their owner is one of
    /// `subscribers`.
    async fn mark_expired(
        &self,
        now: Timestamp,
        limit: usize,
        subscribers: &[OwnerId],
    ) -> Result<Vec<LinkKey>, StoreError>;

    /// Deletes up to `limit` links that were deleted long enough ago, or that expired and were
    /// marked long enough ago, and returns their keys. A link that was not marked is never purged
    /// for its expiry: a wrong clock must not mark and purge at once. Blocked links stay, so that
    /// their codes are never issued again. With `quarantine_until`, the same write quarantines
    /// custom aliases until then: a printed short link must not lead to another owner's target the
    /// next day. Former owners can take their aliases back; an anonymous alias has no owner.
    async fn purge(
        &self,
        before: PurgeBefore,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError>;

    /// About how many links [`LinkStore::purge`] would delete. Erased links, whose deletion time is
    /// the epoch, do not count.
    async fn count_purgeable(&self, before: PurgeBefore) -> Result<u64, StoreError>;

    /// About how many links there are, deleted ones included. May take long.
    async fn count_links(&self) -> Result<u64, StoreError>;

    /// Releases up to `limit` aliases whose quarantine ended by `now`, and returns how many.
    async fn release(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Deletes up to `limit` request ids older than `before`.
    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Returns once what was deleted and overwritten is gone from the store's own files, also from
    /// its log. `Busy` if it must be tried again, as while a backup reads. A store whose server
    /// manages the files answers at once.
    async fn scrub(&self) -> Result<(), StoreError>;

    /// Checks whether writes are likely to succeed now.
    async fn check(&self) -> Result<(), StoreError>;
}
