//! The clicks that were read from the journal and are not stored yet: the shipper adds them,
//! reports read them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::{
    Batch, BatchStart, ClickColumns, ClickSubject, ClickSum, ClickTarget, Count, Delta, JournalId,
    JournalSignals, JournalSpan, LinkId, PendingClicks, PendingCounts, PendingHour, PendingLinks,
    PendingSum, Period, RankedLink, SumIndex, SumSubject, Unit,
};
use terse_core::{LinkKey, OwnerId, Timestamp};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::growing_batch::{GrowingBatch, LinkHashes};
use crate::priority::PriorityBoost;

/// How long a caller waits until what is in memory is stored.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long erasures are remembered at least, by the time of later ones. Clicks that a journal
/// gives back later than this find the store's tombstone.
const KEEP_ERASED_MS: i64 = 600_000;
/// The most links of a batch whose clicks in memory a ranking counts.
const MAX_RANKED: usize = 1000;
/// How long the shipper sleeps at a time while reports wait for the lock.
const YIELD: Duration = Duration::from_micros(100);
const YIELDS: usize = 20;

/// Shared by the shipper and reports. The shipper holds the lock for some thousand clicks at a
/// time.
#[derive(Debug)]
pub(crate) struct PendingBatches {
    state: Mutex<State>,
    /// Reports that wait for the lock.
    waiting: AtomicUsize,
    /// Raises the shipper's priority while a report waits for it.
    pub(crate) boost: PriorityBoost,
    /// Batches up to this number are to be stored now.
    asked: AtomicU64,
    /// Tells the writers of the journal about erasures.
    pub(crate) signals: Arc<JournalSignals>,
    /// Wakes the shipper when a batch is to be stored.
    pub(crate) wake: Notify,
    /// Every batch below this number is stored, or will be read again.
    settled: watch::Sender<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) journal: Option<JournalId>,
    /// The batch that grows, and where it begins once it has clicks.
    pub(crate) gathering: GrowingBatch,
    pub(crate) start: Option<BatchStart>,
    on_the_way: Option<OnTheWay>,
    erased: PendingErasures,
}

impl State {
    /// How many clicks there are, and what they take in memory, about.
    pub(crate) fn size(&self) -> (u64, usize) {
        let on_the_way = self.on_the_way.as_ref();
        let (clicks, bytes) = on_the_way.map_or((0, 0), |on| (on.batch.clicks.len(), on.bytes));
        let growing = &self.gathering;
        ((growing.columns().len() + clicks) as u64, growing.bytes() + bytes)
    }
}

/// A batch that is being stored.
#[derive(Clone, Debug)]
struct OnTheWay {
    number: u64,
    start: BatchStart,
    first_ms: i64,
    batch: Arc<Batch>,
    /// About how much memory it takes.
    bytes: usize,
    index: Arc<(SumIndex, LinkHashes)>,
}

/// Clicks in memory that reports leave out, because they were erased.
#[derive(Debug, Default)]
struct PendingErasures {
    /// For each key: when links were erased, and up to which creation time. The creation time comes
    /// first.
    links: HashMap<LinkKey, Vec<(Timestamp, Timestamp)>>,
    owners: HashMap<OwnerId, Timestamp>,
}

impl PendingErasures {
    /// Whether clicks of a target in a batch that begins at this time are left out. Sums cannot be
    /// split, so clicks after the erasure in the same batch wait until it is stored.
    fn hides(&self, target: &ClickTarget, first_ms: i64) -> bool {
        let ClickTarget::Link(LinkId { key, created_at }, owner) = target else { return false };
        self.owners.contains_key(owner)
            || self.links.get(key).into_iter().flatten().any(|(created_by, erased_at)| {
                created_at <= created_by && first_ms <= erased_at.as_ms()
            })
    }

    fn is_empty(&self) -> bool {
        self.links.is_empty() && self.owners.is_empty()
    }

    /// Forgets erasures long before this time.
    fn forget_before(&mut self, at: Timestamp) {
        let before = at.as_ms().saturating_sub(KEEP_ERASED_MS);
        self.links.retain(|_, erased| {
            erased.retain(|(_, erased_at)| erased_at.as_ms() >= before);
            !erased.is_empty()
        });
        self.owners.retain(|_, erased_at| erased_at.as_ms() >= before);
    }
}

/// The clicks of one batch, to be looked up.
struct View<'a> {
    columns: &'a ClickColumns,
    deltas: &'a [Delta],
    index: &'a SumIndex,
    links: &'a LinkHashes,
    first_ms: i64,
}

impl View<'_> {
    /// The deltas of links, each with the place of its link. A link that changed its owner has two
    /// targets.
    fn of_links<'v>(
        &'v self,
        links: &'v [LinkId],
        erased: &'v PendingErasures,
    ) -> impl Iterator<Item = (&'v Delta, usize)> + 'v {
        let is_link = move |(target, at): &(u32, usize)| {
            let target = &self.columns.targets[*target as usize];
            matches!(target, ClickTarget::Link(of, _) if *of == links[*at])
                && (erased.is_empty() || !erased.hides(target, self.first_ms))
        };
        self.links.find(links.iter()).filter(is_link).flat_map(move |(target, at)| {
            let places = self.index.places(SumSubject::Link(target));
            places.map(move |place| (&self.deltas[place], at))
        })
    }

    fn hours(&self, subject: &ClickSubject, erased: &PendingErasures) -> Vec<PendingHour> {
        let hour = |delta: &Delta| {
            let mut tally = ClickSum::default();
            delta.add_to(self.columns, &mut tally);
            PendingHour { start: delta.start(), tally, visitors: delta.visitors.clone() }
        };
        let of = |subject| self.index.places(subject).map(|at| hour(&self.deltas[at])).collect();
        match subject {
            ClickSubject::Link(link) => {
                let link = std::slice::from_ref(link);
                self.of_links(link, erased).map(|(delta, _)| hour(delta)).collect()
            }
            ClickSubject::Owner(owner) if erased.owners.contains_key(owner) => Vec::new(),
            ClickSubject::Owner(owner) => of(SumSubject::Owner(*owner)),
            ClickSubject::Everything => of(SumSubject::Everything),
            ClickSubject::Orphans => of(SumSubject::Orphans),
        }
    }

    fn counts(&self, links: &[LinkId], erased: &PendingErasures) -> Vec<Count> {
        let mut counts = vec![Count::default(); links.len()];
        self.of_links(links, erased).for_each(|(delta, at)| counts[at].add(delta.clicks));
        counts
    }
}

impl View<'_> {
    /// The links with the most clicks in a period.
    fn links(
        &self,
        owner: Option<OwnerId>,
        period: Period,
        erased: &PendingErasures,
    ) -> Vec<RankedLink> {
        let mut sums: HashMap<u32, Count> = HashMap::new();
        for delta in self.deltas {
            if let SumSubject::Link(target) = delta.subject
                && owner.is_none_or(|owner| owner == delta.owner)
                && period.touches(delta.start(), Unit::Hour)
                && delta.clicks != Count::default()
            {
                sums.entry(target).or_default().add(delta.clicks);
            }
        }
        let mut sums: Vec<(u32, Count)> = sums.into_iter().collect();
        if sums.len() > MAX_RANKED {
            sums.select_nth_unstable_by_key(MAX_RANKED, |(_, clicks)| Reverse(clicks.all()));
            sums.truncate(MAX_RANKED);
        }
        let shown = sums.into_iter().filter_map(|(target, clicks)| {
            let target = &self.columns.targets[target as usize];
            match target {
                ClickTarget::Link(link, _) if !erased.hides(target, self.first_ms) => {
                    Some(RankedLink { link: link.clone(), clicks })
                }
                _ => None,
            }
        });
        shown.collect()
    }
}

impl Default for PendingBatches {
    fn default() -> Self {
        Self {
            signals: Arc::default(),
            state: Mutex::default(),
            waiting: AtomicUsize::new(0),
            boost: PriorityBoost::default(),
            asked: AtomicU64::new(0),
            wake: Notify::new(),
            settled: watch::Sender::new(0),
        }
    }
}

impl PendingBatches {
    /// For the shipper. Lets reports that wait go first.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        for _ in 0..YIELDS {
            if self.waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
            thread::sleep(YIELD);
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether reports wait for the lock.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// For reports and erasures.
    fn read(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => return state,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.boost.raise();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Whether a caller waits until the growing batch is stored.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) > self.lock().gathering.number()
    }

    /// Takes the batch that grows: it is on its way from now on. Returns it with the number of its
    /// unreadable records.
    pub(crate) fn send(&self, spans: Vec<JournalSpan>) -> (Arc<Batch>, u64) {
        let mut state = self.lock();
        let start = spans.first().map(|span| BatchStart { segment: span.segment, from: span.from });
        let (number, unreadable) = (state.gathering.number(), state.gathering.unreadable());
        let (first_ms, bytes) = (state.gathering.first_ms(), state.gathering.bytes());
        let (batch, index) = state.gathering.finish_with_index(spans);
        let (batch, index) = (Arc::new(batch), Arc::new(index));
        state.start = None;
        state.on_the_way = start.map(|start| OnTheWay {
            number,
            start,
            first_ms,
            batch: Arc::clone(&batch),
            bytes,
            index,
        });
        (batch, unreadable)
    }

    /// Notes that the batch on its way is stored, or will be read again. Returns how many clicks
    /// are left in memory, and what they take.
    pub(crate) fn arrived(&self) -> (u64, usize) {
        let mut state = self.lock();
        let arrived = state.on_the_way.take();
        let left = state.size();
        drop(state);
        if let Some(OnTheWay { number, .. }) = arrived {
            self.settled.send_replace(number + 1);
        }
        left
    }

    /// Drops everything: it will be read again, by this process or another.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        let number = state.gathering.number();
        state.gathering = GrowingBatch::default();
        (state.start, state.on_the_way) = (None, None);
        drop(state);
        self.settled.send_replace(number + 1);
    }

    /// The shipper has ended: it stores nothing more, and callers stop waiting for it.
    pub(crate) fn end(&self) {
        self.settled.send_replace(u64::MAX);
    }

    /// What `read` finds in each batch that is in memory.
    fn each<T>(&self, read: impl Fn(BatchStart, &View<'_>, &PendingErasures) -> T) -> Vec<T> {
        Self::each_of(&self.read(), read)
    }

    fn each_of<T>(
        state: &State,
        read: impl Fn(BatchStart, &View<'_>, &PendingErasures) -> T,
    ) -> Vec<T> {
        let mut found = Vec::new();
        if let Some(start) = state.start {
            let gathering = &state.gathering;
            let view = View {
                columns: gathering.columns(),
                deltas: gathering.sums().deltas(),
                index: gathering.sums().index(),
                links: gathering.links(),
                first_ms: gathering.first_ms(),
            };
            found.push(read(start, &view, &state.erased));
        }
        if let Some(OnTheWay { start, first_ms, batch, index, .. }) = &state.on_the_way {
            let view = View {
                columns: &batch.clicks,
                deltas: &batch.sums,
                index: &index.0,
                links: &index.1,
                first_ms: *first_ms,
            };
            found.push(read(*start, &view, &state.erased));
        }
        found
    }
}

#[async_trait]
impl PendingClicks for PendingBatches {
    fn journal(&self) -> Option<JournalId> {
        self.read().journal
    }

    fn sums(&self, subject: &ClickSubject) -> Vec<PendingSum> {
        let mut state = self.read();
        if matches!(subject, ClickSubject::Owner(_) | ClickSubject::Everything) {
            state.gathering.sum_owners();
        }
        Self::each_of(&state, |start, view, erased| PendingSum {
            start,
            hours: view.hours(subject, erased),
        })
    }

    fn counts(&self, links: &[LinkId]) -> Vec<PendingCounts> {
        self.each(|start, view, erased| PendingCounts { start, counts: view.counts(links, erased) })
    }

    fn links(&self, owner: Option<OwnerId>, period: Period) -> Vec<PendingLinks> {
        self.each(|start, view, erased| PendingLinks {
            start,
            links: view.links(owner, period, erased),
        })
    }

    fn erase_links(&self, links: &[LinkKey], created_by: Timestamp, erased_at: Timestamp) {
        let mut state = self.read();
        state.erased.forget_before(erased_at);
        for key in links {
            let erased = state.erased.links.entry(key.clone()).or_default();
            erased.push((created_by, erased_at));
        }
        drop(state);
        self.signals.erased();
    }

    fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) {
        let mut state = self.read();
        state.erased.forget_before(erased_at);
        state.erased.owners.insert(owner, erased_at);
        drop(state);
        self.signals.erased();
    }

    async fn flush(&self) {
        let number = {
            let state = self.read();
            match (&state.start, &state.on_the_way) {
                (Some(_), _) => state.gathering.number(),
                (None, Some(on_the_way)) => on_the_way.number,
                (None, None) => return,
            }
        };
        let mut settled = self.settled.subscribe();
        self.asked.fetch_max(number + 1, Ordering::Relaxed);
        self.wake.notify_one();
        let _stored_or_not = timeout(FLUSH_TIMEOUT, settled.wait_for(|next| *next > number)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_caller_does_not_wait_for_a_shipper_that_has_ended() {
        let pending = PendingBatches::default();
        pending.lock().start = Some(BatchStart { segment: 1, from: 0 });
        let is_done = || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            pending.flush().as_mut().poll(&mut context).is_ready()
        };
        assert!(!is_done(), "the shipper may store the batch");
        pending.end();
        assert!(is_done() && is_done());
    }
}
