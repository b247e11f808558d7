//! A click store in memory that keeps every promise and fails on command.

mod reports;
mod retention;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::{
    Added, Batch, Bucket, Click, ClickCursor, ClickIngest, ClickSubject, ClickSum, ClickTarget,
    Count, Forgotten, JournalId, JournalSpan, LinkId, MAX_VALUES_PER_DAY, MAX_VALUES_PER_HOUR,
    MAX_VALUES_TOTAL, Opened, Position, Sketch, UnfinishedBatch, Unit, WarningVisit,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};
use tokio::sync::watch;

/// What a raw click takes, by this store's measure.
const RAW_BYTES: u64 = 100;

/// Counts clicks only in memory. Tests can make it fail, make it slow, stop it, and lose its
/// answers.
#[derive(Debug)]
pub struct MemoryClickStore {
    state: Arc<Mutex<State>>,
    failing: AtomicBool,
    losing: AtomicBool,
    interrupting: AtomicBool,
    delay_ms: AtomicU64,
    stopped: watch::Sender<bool>,
    recorded: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Epoch and generation of each journal.
    journals: BTreeMap<JournalId, (u32, u64)>,
    positions: BTreeMap<(JournalId, u64), u64>,
    /// Batches that were begun and not finished, the oldest first.
    unfinished: Vec<UnfinishedBatch>,
    subjects: BTreeMap<ClickSubject, SubjectClicks>,
    /// Tombstones: which link was erased, up to which creation time, and when.
    erased_links: Vec<(LinkKey, Timestamp, Timestamp)>,
    erased_owners: BTreeMap<OwnerId, Timestamp>,
    last_number: u64,
}

#[derive(Debug, Default)]
struct SubjectClicks {
    /// The owner, if the subject is a link.
    owner: Option<OwnerId>,
    total: Sum,
    /// By their start.
    hours: BTreeMap<Timestamp, Sum>,
    days: BTreeMap<Timestamp, Sum>,
    raw: BTreeMap<ClickCursor, Click>,
}

#[derive(Clone, Debug, Default)]
struct Sum {
    tally: ClickSum,
    visitors: Sketch,
}

impl Sum {
    fn add(&mut self, click: &Click) {
        self.tally.add(click);
        if let (Some(visitor), None) = (click.visitor, click.bot)
            && click.warning != WarningVisit::Shown
        {
            self.visitors.add(visitor);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        self.visitors.merge(&other.visitors);
    }
}

impl SubjectClicks {
    /// The buckets that overlap a period, the earliest first.
    fn touching(&self, from: i64, to: i64) -> Vec<(Bucket, &Sum)> {
        let bucket = |unit| {
            move |(&start, sum): (&Timestamp, _)| {
                (Bucket { start, unit, clicks: Count::default() }, sum)
            }
        };
        let mut found: Vec<(Bucket, &Sum)> = self.days.iter().map(bucket(Unit::Day)).collect();
        found.extend(self.hours.iter().map(bucket(Unit::Hour)));
        found.retain(|(bucket, _)| {
            bucket.start.as_ms() < to && bucket.start.as_ms() + bucket.unit.ms() > from
        });
        found.iter_mut().for_each(|(bucket, sum)| bucket.clicks = sum.tally.clicks);
        // Days were added first, and the sort is stable.
        found.sort_by_key(|(bucket, _)| bucket.start);
        found
    }
}

impl Default for MemoryClickStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryClickStore {
    /// Another handle on the same clicks, as another node has one. Each handle has its own failures
    /// and delays.
    pub fn another_handle(&self) -> Self {
        Self { state: Arc::clone(&self.state), ..Self::new() }
    }

    /// An empty store.
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            failing: AtomicBool::new(false),
            losing: AtomicBool::new(false),
            interrupting: AtomicBool::new(false),
            delay_ms: AtomicU64::new(0),
            stopped: watch::Sender::new(false),
            recorded: AtomicU64::new(0),
        }
    }

    /// Sets whether every call answers `Unavailable` and does nothing.
    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// Sets whether `add` does its work and still answers `Unavailable`.
    pub fn lose_answers(&self, losing: bool) {
        self.losing.store(losing, Ordering::SeqCst);
    }

    /// Sets whether `add` begins a batch, as a store without transactions does, and answers
    /// `Unavailable` before it has counted it.
    pub fn interrupt(&self, interrupting: bool) {
        self.interrupting.store(interrupting, Ordering::SeqCst);
    }

    /// Delays every call by at least this long.
    pub fn delay(&self, by: Duration) {
        self.delay_ms.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Makes every call wait until the store is no longer stopped.
    pub fn stop(&self, stopped: bool) {
        self.stopped.send_replace(stopped);
    }

    /// How many batches were counted.
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::SeqCst)
    }

    /// Every call runs this first; it delays or fails the call on command.
    async fn enter(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        // The sender lives in `self`, so the wait ends only when the store is started again.
        let _started = self.stopped.subscribe().wait_for(|stopped| !stopped).await.is_ok();
        let delay = self.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if self.failing.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to fail".into()));
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn is_fenced(&self, journal: JournalId, epoch: u32) -> bool {
        self.journals.get(&journal).is_none_or(|(current, _)| *current != epoch)
    }

    fn position(&self, span: &JournalSpan) -> u64 {
        self.positions.get(&(span.journal, span.segment)).copied().unwrap_or(0)
    }

    /// Why a batch cannot be counted now.
    fn refusal(&self, spans: &[JournalSpan]) -> Option<Added> {
        if spans.iter().any(|span| self.is_fenced(span.journal, span.epoch)) {
            return Some(Added::Fenced);
        }
        let id = Batch::id_of(spans);
        let in_the_way = |begun: &UnfinishedBatch| {
            let same = |span: &JournalSpan| {
                begun
                    .spans
                    .iter()
                    .any(|of| (of.journal, of.segment) == (span.journal, span.segment))
            };
            begun.id != id && spans.iter().any(same)
        };
        let blocked = self.unfinished.iter().any(in_the_way);
        if !blocked && spans.iter().all(|span| self.position(span) == span.from) {
            return None;
        }
        if spans.iter().all(|span| self.position(span) >= span.to) {
            return Some(Added::Already);
        }
        let position = |span: &JournalSpan| Position {
            journal: span.journal,
            segment: span.segment,
            to: self.position(span),
        };
        Some(Added::Gap(spans.iter().map(position).collect()))
    }

    fn positions_of(&self, journal: Option<JournalId>) -> Vec<Position> {
        let Some(journal) = journal else { return Vec::new() };
        let positions = self.positions.range((journal, 0)..=(journal, u64::MAX));
        positions.map(|(&(journal, segment), &to)| Position { journal, segment, to }).collect()
    }

    fn is_erased(&self, link: &LinkId, clicked_at: Timestamp) -> bool {
        self.erased_links.iter().any(|(key, created_by, erased_at)| {
            *key == link.key && link.created_at <= *created_by && clicked_at <= *erased_at
        })
    }

    fn count(&mut self, click: &Click) {
        let mut subjects: Vec<(ClickSubject, Option<OwnerId>)> = Vec::with_capacity(3);
        match &click.target {
            ClickTarget::Link(link, owner) => {
                if !self.erased_owners.contains_key(owner) {
                    if !self.is_erased(link, click.at) {
                        subjects.push((ClickSubject::Link(link.clone()), Some(*owner)));
                    }
                    subjects.push((ClickSubject::Owner(*owner), None));
                }
                subjects.push((ClickSubject::Everything, None));
            }
            ClickTarget::Orphan(..) => subjects.push((ClickSubject::Orphans, None)),
        }
        for (subject, owner) in subjects {
            let kept = self.subjects.entry(subject).or_default();
            kept.total.add(click);
            kept.hours.entry(Unit::Hour.floor(click.at)).or_default().add(click);
            if owner.is_some() {
                kept.owner = owner;
            }
            if owner.is_some() && click.warning != WarningVisit::Shown {
                self.last_number += 1;
                kept.raw.insert(
                    ClickCursor { at_ms: click.at.as_ms(), number: self.last_number },
                    click.clone(),
                );
            }
        }
    }

    fn trim(&mut self) {
        for kept in self.subjects.values_mut() {
            kept.total.tally.trim(MAX_VALUES_TOTAL);
            kept.hours.values_mut().for_each(|sum| sum.tally.trim(MAX_VALUES_PER_HOUR));
            kept.days.values_mut().for_each(|sum| sum.tally.trim(MAX_VALUES_PER_DAY));
        }
    }
}

#[async_trait]
impl ClickIngest for MemoryClickStore {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        let mut state = self.enter().await?;
        let (epoch, generation) = state.journals.entry(journal).or_default();
        *epoch += 1;
        let (epoch, generation) = (*epoch, *generation);
        let positions = state.positions_of(Some(journal));
        let of_journal =
            |batch: &&UnfinishedBatch| batch.spans.iter().any(|span| span.journal == journal);
        let unfinished = state.unfinished.iter().filter(of_journal).cloned().collect();
        Ok(Opened { epoch, generation, positions, unfinished })
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        let mut state = self.enter().await?;
        if let Some(refusal) = state.refusal(&batch.spans) {
            return Ok(refusal);
        }
        let begun = state.unfinished.iter().position(|begun| begun.id == batch.id);
        if self.interrupting.load(Ordering::SeqCst) {
            if begun.is_none() {
                let (id, spans) = (batch.id, batch.spans.clone());
                state.unfinished.push(UnfinishedBatch { id, spans });
            }
            return Err(StoreError::Unavailable("told to stop half-way".into()));
        }
        begun.map(|at| state.unfinished.remove(at));
        // Counts from the clicks; the embedded store counts from the sums.
        batch.clicks.iter().for_each(|click| state.count(&click));
        let spans = batch.spans.iter();
        state.positions.extend(spans.map(|span| ((span.journal, span.segment), span.to)));
        state.trim();
        self.recorded.fetch_add(1, Ordering::SeqCst);
        if self.losing.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to lose the answer".into()));
        }
        Ok(Added::Done)
    }

    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        let mut state = self.enter().await?;
        if state.is_fenced(journal, epoch) {
            return Ok(Forgotten::Fenced);
        }
        if let Some((_, highest)) = state.journals.get_mut(&journal) {
            *highest = generation.max(*highest);
        }
        state.positions.retain(|(of, segment), _| *of != journal || !segments.contains(segment));
        Ok(Forgotten::Done)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.enter().await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::click_store::ClickStoreHandle;

    async fn fresh() -> Option<[ClickStoreHandle; 2]> {
        let store = MemoryClickStore::new();
        let other = store.another_handle();
        Some([Arc::new(store), Arc::new(other)])
    }
    crate::click_store!(fresh);

    #[tokio::test]
    async fn a_batch_that_was_begun_is_named_until_it_is_finished() {
        let store = MemoryClickStore::new();
        let journal = JournalId([1; 16]);
        let epoch = store.open(journal).await.unwrap().epoch;
        let span = |epoch, to| JournalSpan { journal, epoch, segment: 1, from: 0, to };
        let batch = |epoch, to| Arc::new(Batch::of(vec![span(epoch, to)], []));
        store.interrupt(true);
        assert!(store.add(&batch(epoch, 9)).await.is_err());
        assert!(store.add(&batch(epoch, 9)).await.is_err());
        store.interrupt(false);
        let opened = store.open(journal).await.unwrap();
        let spans = vec![span(epoch, 9)];
        let begun = UnfinishedBatch { id: Batch::id_of(&spans), spans };
        assert_eq!((opened.positions, opened.unfinished), (vec![], vec![begun]));
        // Nothing else of these segments comes before it.
        let other = store.add(&batch(opened.epoch, 20)).await.unwrap();
        assert!(matches!(other, Added::Gap(_)), "{other:?}");
        assert_eq!(store.add(&batch(opened.epoch, 9)).await.unwrap(), Added::Done);
        assert_eq!(store.add(&batch(opened.epoch, 9)).await.unwrap(), Added::Already);
        assert_eq!(store.open(journal).await.unwrap().unfinished, vec![]);
    }

    #[tokio::test]
    async fn it_breaks_on_command() {
        let store = Arc::new(MemoryClickStore::new());
        let batch = Arc::new(Batch::default());
        store.fail(true);
        assert!(store.add(&batch).await.is_err() && store.check().await.is_err());
        assert_eq!(store.recorded(), 0);
        store.fail(false);
        store.lose_answers(true);
        assert!(store.add(&batch).await.is_err());
        assert_eq!(store.recorded(), 1);
        store.lose_answers(false);
        store.stop(true);
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.add(&Arc::default()).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        store.stop(false);
        assert_eq!(waiting.await.unwrap().unwrap(), Added::Done);
    }
}
