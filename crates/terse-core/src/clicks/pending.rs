//! Statistics with the clicks that this node has read from its journal and not stored yet.

use std::sync::Arc;

use async_trait::async_trait;

use super::click::LinkId;
use super::export::{ClickExport, ErasedLink, PeriodQuery};
use super::ingest::{Added, Batch, ClickIngest, Forgotten, JournalId, Opened, Position};
use super::live::LiveFeed;
use super::report::{
    Bucket, ClickPage, ClickReport, ClickReports, ClickSubject, Period, RawQuery, ReportSnapshot,
    Unit,
};
use super::retention::{ClickRetention, Pruned, Retention};
use super::sketch::Sketch;
use super::store::ClickStore;
use super::tally::{ClickSum, Count, MAX_VALUES_TOTAL};
use super::top::{RankedLink, TopQuery};
use crate::link::{LinkKey, OwnerId};
use crate::store::StoreError;
use crate::time::Timestamp;

/// Where a batch begins: one of its spans. The store has the batch if and only if its position in
/// the segment has passed this.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BatchStart {
    /// The segment.
    pub segment: u64,
    /// Where the span begins.
    pub from: u64,
}

impl BatchStart {
    /// Whether a store with these positions has the batch.
    fn is_in(self, positions: &[Position]) -> bool {
        let in_segment = positions.iter().find(|position| position.segment == self.segment);
        in_segment.is_some_and(|position| position.to > self.from)
    }
}

/// What a batch that may not be stored yet adds to a subject.
#[derive(Clone, Debug)]
pub struct PendingSum {
    /// Which batch.
    pub start: BatchStart,
    /// By hours. An hour may occur more than once.
    pub hours: Vec<PendingHour>,
}

/// What a batch adds to an hour of a subject.
#[derive(Clone, Debug)]
pub struct PendingHour {
    /// When the hour begins.
    pub start: Timestamp,
    /// Its clicks.
    pub tally: ClickSum,
    /// Its visitors.
    pub visitors: Option<Sketch>,
}

/// What a batch that may not be stored yet adds to the counts of links.
#[derive(Clone, Debug)]
pub struct PendingCounts {
    /// Which batch.
    pub start: BatchStart,
    /// In the order of the links.
    pub counts: Vec<Count>,
}

/// The links that a batch which may not be stored yet has clicks of.
#[derive(Clone, Debug)]
pub struct PendingLinks {
    /// Which batch.
    pub start: BatchStart,
    /// Each link once, with its clicks in the period.
    pub links: Vec<RankedLink>,
}

/// The clicks that a shipper holds in memory: at most the batch that grows and the batch that is
/// being stored.
#[async_trait]
pub trait PendingClicks: Send + Sync + 'static {
    /// The journal they are from; `None` until the shipper has opened it.
    fn journal(&self) -> Option<JournalId>;

    /// What they add to a subject, by batches.
    fn sums(&self, subject: &ClickSubject) -> Vec<PendingSum>;

    /// What they add to the counts of links, by batches.
    fn counts(&self, links: &[LinkId]) -> Vec<PendingCounts>;

    /// The links of an owner (of all owners if `None`) that they add clicks of a period to, by
    /// batches. Of a batch with very many links, those with the most clicks.
    fn links(&self, owner: Option<OwnerId>, period: Period) -> Vec<PendingLinks>;

    /// Leaves clicks made by `erased_at` out, of the links with these keys that were created by
    /// `created_by`. The store has the tombstones, and leaves them out when the clicks arrive.
    fn erase_links(&self, links: &[LinkKey], created_by: Timestamp, erased_at: Timestamp);

    /// Leaves out the clicks of an owner's links.
    fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp);

    /// Stores everything that is in memory now. Waits for that, but not for long.
    async fn flush(&self);
}

/// A click store together with the clicks that this node has in memory. Only for a single node: in
/// a fleet, answers would depend on the node that gives them.
pub struct WithPending {
    store: Arc<dyn ClickStore>,
    pending: Arc<dyn PendingClicks>,
    live: Option<Arc<LiveFeed>>,
}

impl WithPending {
    /// Adds what is pending to the answers of a store.
    pub fn new(store: Arc<dyn ClickStore>, pending: Arc<dyn PendingClicks>) -> Self {
        Self { store, pending, live: None }
    }

    /// Erasures also remove clicks from the list of the busiest links.
    #[must_use]
    pub fn with_live(self, live: Arc<LiveFeed>) -> Self {
        Self { live: Some(live), ..self }
    }
}

impl std::fmt::Debug for WithPending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithPending").finish_non_exhaustive()
    }
}

#[async_trait]
impl ClickReports for WithPending {
    async fn counts_with(
        &self,
        links: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<Count>>, StoreError> {
        // Memory first: a batch that is stored in between is in both, and the positions say so.
        let own = self.pending.journal();
        let pending = self.pending.counts(links);
        let mut found = self.store.counts_with(links, own.or(journal)).await?;
        for batch in pending.iter().filter(|batch| !batch.start.is_in(&found.positions)) {
            for (count, more) in found.answer.iter_mut().zip(&batch.counts) {
                count.add(*more);
            }
        }
        found.positions.retain(|position| Some(position.journal) == journal);
        Ok(found)
    }

    async fn report_with(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<ClickReport>, StoreError> {
        let own = self.pending.journal();
        let pending = self.pending.sums(subject);
        let mut found = self.store.report_with(subject, period, now, own.or(journal)).await?;
        for batch in pending.iter().filter(|batch| !batch.start.is_in(&found.positions)) {
            batch.hours.iter().for_each(|hour| add_hour(&mut found.answer, hour, period, now));
        }
        found.answer.tally.trim(MAX_VALUES_TOTAL);
        found.positions.retain(|position| Some(position.journal) == journal);
        Ok(found)
    }

    async fn top_with(
        &self,
        query: &TopQuery,
        also: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<RankedLink>>, StoreError> {
        let own = self.pending.journal();
        let pending = self.pending.links(query.owner, query.period);
        // A link with clicks in memory may rise in the ranking. So the store counts each of them,
        // and returns as many more links as may lose their place.
        let in_memory = pending.iter().flat_map(|batch| &batch.links).map(|found| &found.link);
        let mut wanted: Vec<LinkId> = in_memory.chain(also).cloned().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let more = TopQuery { limit: query.limit + wanted.len(), ..query.clone() };
        let mut found = self.store.top_with(&more, &wanted, own.or(journal)).await?;
        for batch in pending {
            if !batch.start.is_in(&found.positions) {
                found.answer.extend(batch.links);
            }
        }
        let everything = TopQuery { after: None, limit: usize::MAX, ..query.clone() };
        let others = everything.rank(found.answer.iter().cloned());
        found.answer = query.rank(found.answer);
        let is_new = |other: &RankedLink| {
            also.contains(&other.link) && !found.answer.iter().any(|in_it| in_it.link == other.link)
        };
        let others: Vec<RankedLink> = others.into_iter().filter(is_new).collect();
        found.answer.extend(others);
        found.positions.retain(|position| Some(position.journal) == journal);
        Ok(found)
    }

    /// Single clicks have their numbers from the store, so it gets them first.
    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError> {
        if query.after.is_none() {
            self.pending.flush().await;
        }
        self.store.clicks(query).await
    }

    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError> {
        self.store.links(after, limit).await
    }
}

fn add_hour(report: &mut ClickReport, hour: &PendingHour, period: Period, now: Timestamp) {
    let from = hour.start.as_ms();
    let clicks = hour.tally.clicks;
    let this_hour = Unit::Hour.floor(now).as_ms();
    if (this_hour - 23 * Unit::Hour.ms()..=this_hour).contains(&from) {
        report.recent.add(clicks);
    }
    if !period.touches(hour.start, Unit::Hour) {
        return;
    }
    report.tally.merge(&hour.tally);
    hour.visitors.iter().for_each(|visitors| report.visitors.merge(visitors));
    if clicks == Count::default() {
        return;
    }
    let same = |bucket: &&mut Bucket| bucket.unit == Unit::Hour && bucket.start == hour.start;
    match report.buckets.iter_mut().rev().find(same) {
        Some(bucket) => bucket.clicks.add(clicks),
        None => {
            let at = report.buckets.partition_point(|bucket| bucket.start <= hour.start);
            report.buckets.insert(at, Bucket { start: hour.start, unit: Unit::Hour, clicks });
        }
    }
}

#[async_trait]
impl ClickIngest for WithPending {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        self.store.open(journal).await
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        self.store.add(batch).await
    }

    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        self.store.forget(journal, epoch, generation, segments).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.store.check().await
    }
}

#[async_trait]
impl ClickExport for WithPending {
    async fn clicks_between(&self, query: &PeriodQuery) -> Result<ClickPage, StoreError> {
        self.store.clicks_between(query).await
    }

    async fn erased_links(
        &self,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, StoreError> {
        self.store.erased_links(since, after, limit).await
    }

    async fn erased_owners(&self, since: Timestamp) -> Result<Vec<OwnerId>, StoreError> {
        self.store.erased_owners(since).await
    }
}

/// The store first: a batch that arrives in between finds the tombstone there.
#[async_trait]
impl ClickRetention for WithPending {
    async fn erase_links(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), StoreError> {
        self.store.erase_links(links, created_by, erased_at).await?;
        self.pending.erase_links(links, created_by, erased_at);
        self.live.iter().for_each(|live| live.erase_links(links, created_by));
        Ok(())
    }

    async fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) -> Result<(), StoreError> {
        self.store.erase_owner(owner, erased_at).await?;
        self.pending.erase_owner(owner, erased_at);
        self.live.iter().for_each(|live| live.erase_owner(owner));
        Ok(())
    }

    async fn scrub(&self) -> Result<(), StoreError> {
        // Nothing of what was erased stays in memory either.
        self.pending.flush().await;
        self.store.scrub().await
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned, StoreError> {
        self.store.prune(retention).await
    }

    async fn forget_logs(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.store.forget_logs(before).await
    }
}
