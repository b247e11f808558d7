//! A click store in memory that keeps every promise and fails on command.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::{
    Added, Batch, Bucket, Click, ClickCursor, ClickIngest, ClickPage, ClickReport, ClickReports,
    ClickRetention, ClickSubject, ClickSum, ClickTarget, Count, Forgotten, JournalId, JournalSpan,
    LinkId, MAX_VALUES_PER_DAY, MAX_VALUES_PER_HOUR, MAX_VALUES_TOTAL, Opened, Period, Position,
    Pruned, RankedLink, RawQuery, ReportSnapshot, Retention, Sketch, TopQuery, UnfinishedBatch,
    Unit, WarningVisit,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};
use tokio::sync::watch;

/// What a raw click takes, by this store's measure.
const RAW_BYTES: u64 = 100;

/// Counts clicks only in memory. Tests can make it fail, make it slow, stop it, and lose its
/// answers.
#[derive(Debug)]
pub struct MemoryClickStore {
    state: Mutex<State>,
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
    /// An empty store.
    pub fn new() -> Self {
        Self {
            state: Mutex::default(),
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

#[async_trait]
impl ClickReports for MemoryClickStore {
    async fn counts_with(
        &self,
        links: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<Count>>, StoreError> {
        let state = self.enter().await?;
        let count = |link: &LinkId| {
            state
                .subjects
                .get(&ClickSubject::Link(link.clone()))
                .map(|kept| kept.total.tally.clicks)
        };
        let answer = links.iter().map(|link| count(link).unwrap_or_default()).collect();
        Ok(ReportSnapshot { answer, positions: state.positions_of(journal) })
    }

    async fn report_with(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<ClickReport>, StoreError> {
        let state = self.enter().await?;
        let positions = state.positions_of(journal);
        let Some(kept) = state.subjects.get(subject) else {
            return Ok(ReportSnapshot { answer: ClickReport::default(), positions });
        };
        let from = period.from.map_or(i64::MIN, Timestamp::as_ms);
        let to = period.to.map_or(i64::MAX, Timestamp::as_ms);
        let touched = kept.touching(from, to);
        let mut sum = Sum::default();
        match period == Period::default() {
            true => sum = kept.total.clone(),
            false => touched.iter().for_each(|(_, one)| sum.merge(one)),
        }
        sum.tally.trim(MAX_VALUES_TOTAL);
        let hour = Unit::Hour.floor(now).as_ms();
        let mut recent = Count::default();
        let lately = kept.touching(hour - 23 * Unit::Hour.ms(), hour + Unit::Hour.ms());
        lately.iter().for_each(|(bucket, _)| recent.add(bucket.clicks));
        let buckets = touched.into_iter().map(|(bucket, _)| bucket);
        let buckets = buckets.filter(|bucket| bucket.clicks != Count::default()).collect();
        let answer = ClickReport { tally: sum.tally, visitors: sum.visitors, recent, buckets };
        Ok(ReportSnapshot { answer, positions })
    }

    async fn top_with(
        &self,
        query: &TopQuery,
        also: &[LinkId],
        journal: Option<JournalId>,
    ) -> Result<ReportSnapshot<Vec<RankedLink>>, StoreError> {
        let state = self.enter().await?;
        let from = query.period.from.map_or(i64::MIN, Timestamp::as_ms);
        let to = query.period.to.map_or(i64::MAX, Timestamp::as_ms);
        let (mut ranked, mut others) = (Vec::new(), Vec::new());
        for (subject, kept) in &state.subjects {
            let ClickSubject::Link(link) = subject else { continue };
            let mut clicks = Count::default();
            match query.period == Period::default() {
                true => clicks = kept.total.tally.clicks,
                false => {
                    kept.touching(from, to).iter().for_each(|(of, _)| clicks.add(of.clicks));
                }
            }
            let found = RankedLink { link: link.clone(), clicks };
            if also.contains(link) && clicks != Count::default() {
                others.push(found.clone());
            }
            if query.owner.is_none() || kept.owner == query.owner {
                ranked.push(found);
            }
        }
        let mut answer = query.rank(ranked);
        others.retain(|other| !answer.contains(other));
        answer.append(&mut others);
        Ok(ReportSnapshot { answer, positions: state.positions_of(journal) })
    }

    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError> {
        let state = self.enter().await?;
        let Some(kept) = state.subjects.get(&ClickSubject::Link(query.link.clone())) else {
            return Ok(ClickPage::default());
        };
        let wanted = |place: &ClickCursor| {
            query.from.is_none_or(|from| place.at_ms >= from.as_ms())
                && query.to.is_none_or(|to| place.at_ms < to.as_ms())
                && query.after.is_none_or(|after| *place > after)
        };
        let mut found = kept.raw.iter().filter(|(place, _)| wanted(place));
        let page: Vec<_> = found.by_ref().take(query.limit).collect();
        let next = found.next().and(page.last().map(|(place, _)| **place));
        Ok(ClickPage { clicks: page.into_iter().map(|(_, click)| click.clone()).collect(), next })
    }

    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError> {
        let state = self.enter().await?;
        let links = state.subjects.keys().filter_map(|subject| match subject {
            ClickSubject::Link(link) => Some(link),
            _ => None,
        });
        Ok(links
            .filter(|link| after.is_none_or(|after| *link > after))
            .take(limit)
            .cloned()
            .collect())
    }
}

#[async_trait]
impl ClickRetention for MemoryClickStore {
    async fn erase_links(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), StoreError> {
        let erased = |link: &LinkId| link.created_at <= created_by && links.contains(&link.key);
        let mut state = self.enter().await?;
        state
            .subjects
            .retain(|subject, _| !matches!(subject, ClickSubject::Link(link) if erased(link)));
        state.erased_links.extend(links.iter().map(|key| (key.clone(), created_by, erased_at)));
        Ok(())
    }

    async fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) -> Result<(), StoreError> {
        let mut state = self.enter().await?;
        state.subjects.retain(|subject, clicks| {
            *subject != ClickSubject::Owner(owner) && clicks.owner != Some(owner)
        });
        state.erased_owners.insert(owner, erased_at);
        Ok(())
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned, StoreError> {
        let mut state = self.enter().await?;
        let mut pruned = Pruned::default();
        let mut left = retention.limit;
        let raw_before = Unit::Hour.floor(retention.raw_before);
        let hours_before = Unit::Day.floor(retention.hours_before);
        for kept in state.subjects.values_mut() {
            while kept
                .raw
                .first_key_value()
                .is_some_and(|(place, _)| place.at_ms < raw_before.as_ms())
            {
                if left == 0 {
                    pruned.more = true;
                    break;
                }
                kept.raw.pop_first();
                left -= 1;
                pruned.raw += 1;
            }
            while kept.hours.first_key_value().is_some_and(|(start, _)| *start < hours_before) {
                if left == 0 {
                    pruned.more = true;
                    break;
                }
                if let Some((start, sum)) = kept.hours.pop_first() {
                    let day = kept.days.entry(Unit::Day.floor(start)).or_default();
                    day.merge(&sum);
                    day.tally.trim(MAX_VALUES_PER_DAY);
                    left -= 1;
                    pruned.hours += 1;
                }
            }
        }
        if let Some(max_raw) = retention.max_raw {
            // The oldest of all go first.
            let raw = state.subjects.iter();
            let raw = raw.flat_map(|(of, kept)| kept.raw.keys().map(move |at| (*at, of.clone())));
            let mut all: Vec<(ClickCursor, ClickSubject)> = raw.collect();
            all.sort_unstable();
            let kept = usize::try_from(max_raw / RAW_BYTES).unwrap_or(usize::MAX);
            for (place, subject) in all.drain(..all.len().saturating_sub(kept)) {
                if let Some(kept) = state.subjects.get_mut(&subject) {
                    kept.raw.remove(&place);
                    pruned.raw += 1;
                }
            }
        }
        let mut is_over = |erased_at: Timestamp| {
            let is_over = erased_at < retention.tombstones_before;
            if is_over && left == 0 {
                pruned.more = true;
                return false;
            }
            left -= usize::from(is_over);
            pruned.tombstones += u64::from(is_over);
            is_over
        };
        state.erased_links.retain(|(.., erased_at)| !is_over(*erased_at));
        state.erased_owners.retain(|_, erased_at| !is_over(*erased_at));
        Ok(pruned)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::click_store::ClickStoreHandle;

    async fn fresh() -> Option<[ClickStoreHandle; 2]> {
        let store: ClickStoreHandle = Arc::new(MemoryClickStore::new());
        Some([Arc::clone(&store), store])
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
