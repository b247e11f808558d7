//! What a store of clicks must promise.

use async_trait::async_trait;

use super::click::{Click, LinkId};
use super::report::ClickReport;
use super::tally::Count;
use crate::link::{LinkKey, OwnerId};
use crate::store::StoreError;
use crate::time::Timestamp;

/// Whose clicks are summed up.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ClickSubject {
    /// Of one link.
    Link(LinkId),
    /// Of all links an owner has or had. What happened to a link stays in this sum when the link is
    /// deleted.
    Owner(OwnerId),
    /// Of all links.
    Everything,
    /// Visits that led nowhere.
    Orphans,
}

/// How far a segment of a journal has been counted, and how far a batch moves that on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Position {
    /// The segment's id.
    pub segment: u64,
    /// Where the batch begins; 0 for a segment of which nothing was counted.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
}

/// Clicks, and the places of journals they were read from.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The clicks.
    pub clicks: Vec<Click>,
    /// Each segment at most once.
    pub moves: Vec<Position>,
}

/// The outcome of recording a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recorded {
    /// Counted, and durable together with the new positions.
    Done,
    /// Some position is not where the batch begins: it was counted before, at least in part.
    /// Nothing was done.
    OutOfStep,
}

/// A stretch of time, counted in whole hours (days where hours are no longer kept): every bucket
/// that touches it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Period {
    /// From here on; from the beginning if `None`.
    pub from: Option<Timestamp>,
    /// To before here; to the end if `None`.
    pub to: Option<Timestamp>,
}

/// A place among a link's raw clicks.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ClickCursor {
    /// When the click was.
    pub at_ms: i64,
    /// Tells clicks of one millisecond apart.
    pub number: u64,
}

/// Which raw clicks to read, the earliest first.
#[derive(Clone, Debug)]
pub struct RawQuery {
    /// Of this link.
    pub link: LinkId,
    /// At this moment or later.
    pub from: Option<Timestamp>,
    /// Before this moment.
    pub to: Option<Timestamp>,
    /// Behind this place.
    pub after: Option<ClickCursor>,
    /// At most this many.
    pub limit: usize,
}

/// Some raw clicks.
#[derive(Clone, Debug, Default)]
pub struct ClickPage {
    /// The clicks.
    pub clicks: Vec<Click>,
    /// Where to go on; `None` at the end.
    pub next: Option<ClickCursor>,
}

/// What is no longer to be kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retention {
    /// Raw clicks of hours that ended by this moment are deleted.
    pub raw_before: Timestamp,
    /// Days that ended by this moment are no longer kept by the hour.
    pub hours_before: Timestamp,
    /// At most this many rows are touched in one go.
    pub limit: usize,
}

/// What was tidied away.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pruned {
    /// Raw clicks deleted.
    pub raw: u64,
    /// Hours that became part of a day.
    pub hours: u64,
    /// Whether there is more to do.
    pub more: bool,
}

/// A secret that makes the visitor hashes of one day; once forgotten, nobody can tell any more who
/// they were.
pub type Salt = [u8; 16];

/// Where clicks are counted. Every implementation runs `terse_testkit::click_store!`.
///
/// Sums are kept per subject and hour, capped in the number of values of each dimension: the most
/// frequent ones by name, all others as "other". Each click is counted for its link, its owner and
/// everything; an orphan for the orphans alone.
#[async_trait]
pub trait ClickStore: Send + Sync + 'static {
    /// How far each segment that is not forgotten has been counted: `(segment, to)`.
    async fn positions(&self) -> Result<Vec<(u64, u64)>, StoreError>;

    /// Counts the clicks and moves the positions in one atomic, durable step, if each position
    /// still is where the batch says it begins. So a batch is counted once, however often it is
    /// tried and whoever else tries it.
    async fn record(&self, batch: &Batch) -> Result<Recorded, StoreError>;

    /// Forgets the positions of segments that exist no longer.
    async fn forget_segments(&self, segments: &[u64]) -> Result<(), StoreError>;

    /// How many clicks each link has had, in order; zero for one that is unknown.
    async fn counts(&self, links: &[LinkId]) -> Result<Vec<Count>, StoreError>;

    /// All about a subject's clicks; empty for one that is unknown.
    async fn report(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
    ) -> Result<ClickReport, StoreError>;

    /// Raw clicks of a link, as long as they are kept.
    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError>;

    /// Up to `limit` of the links that clicks are kept of, behind `after`, in the order of their
    /// ids.
    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError>;

    /// Deletes all that is kept of the clicks of these links, as far as they were made by
    /// `born_by`. The sums of their owners stay.
    async fn forget_links(&self, links: &[LinkKey], born_by: Timestamp) -> Result<(), StoreError>;

    /// Deletes all that is kept of the clicks of an owner's links, and the owner's own sums.
    async fn forget_owner(&self, owner: OwnerId) -> Result<(), StoreError>;

    /// Deletes raw clicks and puts hours together that are old enough. Called again as long as
    /// there is more.
    async fn prune(&self, retention: Retention) -> Result<Pruned, StoreError>;

    /// The salt of a day (days since 1970): made when first asked for, the same for everyone who
    /// asks, and forgotten once a later day's has been asked for and the day is two days past.
    async fn salt(&self, day: i64) -> Result<Salt, StoreError>;

    /// Whether clicks can be expected to be counted right now.
    async fn check(&self) -> Result<(), StoreError>;
}
