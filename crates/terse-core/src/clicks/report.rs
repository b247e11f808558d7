//! Reading: reports of a store about clicks.

use async_trait::async_trait;

use super::click::{Click, ClickTarget, LinkId};
use super::ingest::{JournalId, Position};
use super::sketch::Sketch;
use super::tally::{ClickSum, Count, MAX_VALUES_TOTAL};
use super::top::{RankedLink, TopQuery};
use crate::link::OwnerId;
use crate::principal::{AccessError, Principal};
use crate::registry::Role;
use crate::store::StoreError;
use crate::time::Timestamp;

/// Which clicks are summed up.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ClickSubject {
    /// The clicks of one link.
    Link(LinkId),
    /// The clicks of all links that an owner has or had. The clicks of a link stay in this sum when
    /// the link is deleted.
    Owner(OwnerId),
    /// The clicks of all links.
    Everything,
    /// Visits that did not lead to a link.
    Orphans,
}

impl ClickSubject {
    /// Visits that did not lead to a link. Only for admins.
    pub fn orphans(principal: &Principal) -> Result<Self, AccessError> {
        principal.require(Role::Admin)?;
        Ok(Self::Orphans)
    }

    /// Whether a click that led there is one of its clicks.
    pub fn includes(&self, target: &ClickTarget) -> bool {
        match (self, target) {
            (Self::Link(subject), ClickTarget::Link(link, _)) => subject == link,
            (Self::Owner(subject), ClickTarget::Link(_, owner)) => subject == owner,
            (Self::Everything, ClickTarget::Link(..))
            | (Self::Orphans, ClickTarget::Orphan(..)) => true,
            _ => false,
        }
    }
}

/// A period of time, counted in whole hours (days where hours are no longer kept): every bucket
/// that overlaps it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Period {
    /// The start; from the beginning if `None`.
    pub from: Option<Timestamp>,
    /// The end, exclusive; to the end if `None`.
    pub to: Option<Timestamp>,
}

impl Period {
    /// Whether a bucket overlaps it.
    pub fn touches(&self, start: Timestamp, unit: Unit) -> bool {
        let (from, to) = (start.as_ms(), start.as_ms() + unit.ms());
        self.from.is_none_or(|start| to > start.as_ms())
            && self.to.is_none_or(|end| from < end.as_ms())
    }
}

/// A position among a link's raw clicks.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ClickCursor {
    /// When the click was.
    pub at_ms: i64,
    /// Distinguishes clicks of one millisecond.
    pub number: u64,
}

/// Which raw clicks to read, the earliest first.
#[derive(Clone, Debug)]
pub struct RawQuery {
    /// The link.
    pub link: LinkId,
    /// The start, inclusive.
    pub from: Option<Timestamp>,
    /// The end, exclusive.
    pub to: Option<Timestamp>,
    /// Only clicks after this position.
    pub after: Option<ClickCursor>,
    /// The largest number of clicks to return.
    pub limit: usize,
}

/// A page of raw clicks.
#[derive(Clone, Debug, Default)]
pub struct ClickPage {
    /// The clicks.
    pub clicks: Vec<Click>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<ClickCursor>,
}

/// How long a bucket is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// An hour.
    Hour,
    /// A day in UTC.
    Day,
}

impl Unit {
    /// In milliseconds.
    pub const fn ms(self) -> i64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }

    /// The start of the bucket that contains a time.
    pub fn floor(self, at: Timestamp) -> Timestamp {
        Timestamp::from_ms(at.as_ms().div_euclid(self.ms()) * self.ms())
    }
}

/// The clicks of an hour, or of a day where hours are no longer kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bucket {
    /// When it begins.
    pub start: Timestamp,
    /// How long it is.
    pub unit: Unit,
    /// How many clicks.
    pub clicks: Count,
}

/// Everything about a subject's clicks in a period.
#[derive(Clone, Debug, Default)]
pub struct ClickReport {
    /// Their sum.
    pub tally: ClickSum,
    /// The different visitors, each counted once a day.
    pub visitors: Sketch,
    /// The clicks of the current hour and the 23 before it, whatever the period.
    pub recent: Count,
    /// The buckets of the period that are not empty, the earliest first.
    pub buckets: Vec<Bucket>,
}

impl ClickReport {
    /// Adds the report about another subject in the same period.
    pub fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        self.tally.trim(MAX_VALUES_TOTAL);
        self.visitors.merge(&other.visitors);
        self.recent.add(other.recent);
        for bucket in &other.buckets {
            let same = |have: &Bucket| (have.start, have.unit == Unit::Hour);
            match self.buckets.binary_search_by_key(&same(bucket), same) {
                Ok(at) => self.buckets[at].clicks.add(bucket.clicks),
                Err(at) => self.buckets.insert(at, *bucket),
            }
        }
    }
}

/// An answer from one snapshot of the store, with the positions of a journal in the same snapshot.
///
/// A batch is in the answer if and only if the positions have passed its spans. So the journal's
/// holder can add what it has not shipped yet, each click once.
#[derive(Clone, Debug, Default)]
pub struct ReportSnapshot<T> {
    /// The answer.
    pub answer: T,
    /// How far each segment of the requested journal is in the answer. A segment that is missing
    /// here is not in it, or its position was forgotten.
    pub positions: Vec<Position>,
}

/// Whether to show clicks of bots.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BotFilter {
    /// Clicks of humans and of bots.
    #[default]
    Include,
    /// Clicks of humans only.
    Exclude,
    /// Clicks of bots only.
    Only,
}

impl BotFilter {
    /// The part of a count to show.
    pub fn of(self, count: Count) -> u64 {
        match self {
            Self::Include => count.all(),
            Self::Exclude => count.humans,
            Self::Only => count.bots,
        }
    }

    /// Whether to show this click.
    pub fn includes(self, click: &Click) -> bool {
        match self {
            Self::Include => true,
            Self::Exclude => click.bot.is_none(),
            Self::Only => click.bot.is_some(),
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "include" | "true" => Some(Self::Include),
            "exclude" | "false" => Some(Self::Exclude),
            "only" => Some(Self::Only),
            _ => None,
        }
    }
}

/// Reads clicks and their sums.
///
/// Sums are kept per subject and hour, capped in the number of values of each dimension: the most
/// frequent ones by name, all others as "other". Each click is counted for its link, its owner and
/// everything; an orphan for the orphans alone. Each answer comes from one snapshot: it contains
/// a batch completely or not at all.
///
/// Each promise has a test in `terse_testkit::click_store!`.
#[async_trait]
pub trait ClickReports: Send + Sync + 'static {
    /// How many clicks each link has had, in order; zero for an unknown link.
    async fn counts_with(
        &self,
        links: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<Count>>, StoreError>;

    /// The report about a subject's clicks; empty for an unknown subject.
    async fn report_with(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<ClickReport>, StoreError>;

    /// The links with the most clicks in a period, in the order of their [`Rank`](super::Rank), and
    /// besides them, whatever their place and owner, those of `also` that have clicks in the period
    /// (the caller ranks again). Links without a click that counts are left out. The owner of a
    /// link is that of its latest clicks.
    ///
    /// A store may leave out links of long periods that were never among the thousand busiest of
    /// a day.
    async fn top_with(
        &self,
        query: &TopQuery,
        also: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<RankedLink>>, StoreError>;

    /// [`top_with`](Self::top_with) without other links and the positions of a journal.
    async fn top(&self, query: &TopQuery) -> Result<Vec<RankedLink>, StoreError> {
        Ok(self.top_with(query, &[], None).await?.answer)
    }

    /// [`counts_with`](Self::counts_with) without the positions of a journal.
    async fn counts(&self, links: &[LinkId]) -> Result<Vec<Count>, StoreError> {
        Ok(self.counts_with(links, None).await?.answer)
    }

    /// [`report_with`](Self::report_with) without the positions of a journal.
    async fn report(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
    ) -> Result<ClickReport, StoreError> {
        Ok(self.report_with(subject, period, now, None).await?.answer)
    }

    /// Raw clicks of a link, within their retention time.
    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError>;

    /// Up to `limit` of the links that have clicks, after `after`, in an order of the store's own
    /// that does not change. `after` is a link of an earlier answer, and may be erased since.
    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError>;
}
