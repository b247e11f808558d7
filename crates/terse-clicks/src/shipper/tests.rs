use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use terse_core::clicks::{
    Added, Batch, BatchStart, ClickKind, ClickSubject, Forgotten, JournalId, JournalSpan, LinkId,
    Opened, PendingClicks, Position, Record, UnfinishedBatch,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};

use super::*;
use crate::enrich::samples::PANICS;
use crate::written::{Written, click};

const SOON: Duration = Duration::from_secs(120);
const FAST: Pace = Pace {
    idle: Duration::from_millis(1),
    timeout: Duration::from_millis(40),
    retry_delay: Duration::from_millis(1),
    max_retry_delay: Duration::from_millis(4),
    drop_after: Duration::ZERO,
    flush: Duration::ZERO,
    batch: 37,
    batch_bytes: usize::MAX,
    keep_positions: Duration::from_secs(300),
};

/// What a call of the store does instead of what it should.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    Fails,
    CountsAndFails,
    Hangs,
    CountsAndHangs,
    CountsLate,
    /// Hangs, and the test is notified.
    Stalls,
    CountsAndStalls,
    Panics,
}

/// A store that keeps its promises of atomic steps and of epochs, and no others.
#[derive(Default)]
struct Fake {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Epoch and generation of each journal.
    journals: HashMap<JournalId, (u32, u64)>,
    positions: HashMap<(JournalId, u64), u64>,
    counted: Vec<u32>,
    kinds: Vec<ClickKind>,
    /// The id of each batch, and the times of its clicks.
    batches: Vec<([u8; 16], Vec<i64>)>,
    unfinished: Vec<UnfinishedBatch>,
    /// Faults of the next calls of `add`, and then of all others.
    faults: VecDeque<Option<Fault>>,
    always: Option<Fault>,
    away: bool,
    /// How long each batch takes.
    delay: Duration,
    stalled: Option<Sender<()>>,
    calls: usize,
    /// Tries that came too late.
    late: usize,
    forgets: usize,
}

impl State {
    fn is_fenced(&self, journal: JournalId, epoch: u32) -> bool {
        self.journals.get(&journal).is_none_or(|(current, _)| *current != epoch)
    }

    fn position(&self, span: &JournalSpan) -> u64 {
        self.positions.get(&(span.journal, span.segment)).copied().unwrap_or(0)
    }

    fn apply(&mut self, batch: &Batch) -> Added {
        let spans = &batch.spans;
        if spans.iter().any(|span| self.is_fenced(span.journal, span.epoch)) {
            return Added::Fenced;
        }
        if spans.iter().all(|span| self.position(span) >= span.to) {
            return Added::Already;
        }
        if spans.iter().any(|span| self.position(span) != span.from) {
            let position = |span: &JournalSpan| Position {
                journal: span.journal,
                segment: span.segment,
                to: self.position(span),
            };
            return Added::Gap(spans.iter().map(position).collect());
        }
        self.positions.extend(spans.iter().map(|span| ((span.journal, span.segment), span.to)));
        self.counted.extend(batch.clicks.iter().map(|click| (click.took_nanos / 1000) as u32));
        self.kinds.extend(&batch.clicks.kind);
        self.batches.push((batch.id, batch.clicks.at_ms.clone()));
        self.unfinished.retain(|begun| begun.id != batch.id);
        Added::Done
    }
}

impl Fake {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// As if an earlier process had counted a segment this far.
    fn set_position(&self, folder: &Path, segment: u64, to: u64) {
        self.state().positions.insert((journal_of(folder), segment), to);
    }

    fn has_position(&self, folder: &Path, segment: u64) -> bool {
        self.state().positions.contains_key(&(journal_of(folder), segment))
    }

    fn counted(&self) -> Vec<u32> {
        let mut counted = self.state().counted.clone();
        counted.sort_unstable();
        counted
    }
}

fn journal_of(folder: &Path) -> JournalId {
    FolderIdentity::open(folder).unwrap().journal()
}

fn away() -> StoreError {
    StoreError::Unavailable("away".into())
}

#[async_trait]
impl ClickIngest for Fake {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        let mut state = self.state();
        if state.away {
            return Err(away());
        }
        let (epoch, generation) = state.journals.entry(journal).or_default();
        *epoch += 1;
        let (epoch, generation) = (*epoch, *generation);
        let positions = state.positions.iter().filter(|((of, _), _)| *of == journal);
        let positions =
            positions.map(|(&(journal, segment), &to)| Position { journal, segment, to }).collect();
        let unfinished = state.unfinished.clone();
        Ok(Opened { epoch, generation, positions, unfinished })
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        let delay = self.state().delay;
        tokio::time::sleep(delay).await;
        let fault = {
            let mut state = self.state();
            state.calls += 1;
            let always = state.always;
            let fault = state.faults.pop_front().unwrap_or(always);
            let fault = if state.away { Some(Fault::Fails) } else { fault };
            assert_ne!(fault, Some(Fault::Panics), "as the test has asked for");
            match fault {
                None => return Ok(state.apply(batch)),
                Some(Fault::CountsAndFails | Fault::CountsAndHangs | Fault::CountsAndStalls) => {
                    let _ = state.apply(batch);
                }
                Some(Fault::CountsLate) => {
                    let (state, batch) = (Arc::clone(&self.state), Arc::clone(batch));
                    thread::spawn(move || {
                        thread::sleep(3 * FAST.timeout / 2);
                        let mut state = state.lock().unwrap();
                        state.apply(&batch);
                        state.late += 1;
                    });
                }
                Some(_) => {}
            }
            if matches!(fault, Some(Fault::Stalls | Fault::CountsAndStalls)) {
                state.stalled.as_ref().unwrap().send(()).unwrap();
            }
            fault
        };
        match fault {
            Some(Fault::Fails | Fault::CountsAndFails) => Err(away()),
            _ => pending().await,
        }
    }

    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        let mut state = self.state();
        if state.away {
            return Err(away());
        }
        if state.is_fenced(journal, epoch) {
            return Ok(Forgotten::Fenced);
        }
        state.forgets += 1;
        state.journals.insert(journal, (epoch, generation));
        state.positions.retain(|(of, id), _| *of != journal || !segments.contains(id));
        Ok(Forgotten::Done)
    }

    async fn check(&self) -> Result<(), StoreError> {
        Err(away())
    }
}

fn start(folder: &Path, run: u64, store: &Arc<Fake>, pace: Pace) -> Shipper {
    start_within(folder, run, store, pace, u64::MAX)
}

fn start_within(
    folder: &Path,
    run: u64,
    store: &Arc<Fake>,
    pace: Pace,
    limit_bytes: u64,
) -> Shipper {
    let parts = ShipperParts {
        folder: folder.into(),
        run,
        store: Arc::clone(store) as Arc<dyn ClickIngest>,
        live: Arc::default(),
        places: None,
        keep: AddressPrecision::Network,
        limit_bytes,
        flush: pace.flush,
        clock: Clock::default(),
    };
    Shipper::start_at(parts, pace).unwrap()
}

/// Waits for something that is bound to happen.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..120_000 {
        if happened() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} never happened");
}

/// Segments of a run that is gone, `each` clicks in each, numbered from `first`.
fn dead(folder: &Path, ids: std::ops::Range<u64>, each: u32, first: u32) -> u32 {
    let mut number = first;
    for id in ids {
        let mut written = Written::new(id, 99, id as i64, 64 << 10);
        for _ in 0..each {
            written.add(number);
            number += 1;
        }
        written.save(folder);
    }
    number
}

/// How many segments there are.
fn files(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().contains(".clicks")).count()
}

fn assert_counted_once(store: &Fake, clicks: u32) {
    assert_eq!(store.counted(), (0..clicks).collect::<Vec<_>>());
    let human = |kind: &ClickKind| *kind == ClickKind::HUMAN;
    assert!(store.state().kinds.iter().all(human), "nobody is a repeat of themselves");
}

#[test]
fn clicks_are_counted_as_they_come_and_everything_in_the_end() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let shipper = start(temp.path(), 1, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    let mut first = Written::new(10, 1, 1000, 64 << 10);
    (0..100).for_each(|n| first.add(n));
    first.save(temp.path());
    until("counting", || store.counted().len() == 100);
    assert_eq!(files(temp.path()), 1, "it may still grow");
    (100..150).for_each(|n| first.add(n));
    first.finish();
    first.save(temp.path());
    until("deleting", || files(temp.path()) == 0);
    until("forgetting", || store.state().positions.is_empty());
    let mut second = Written::new(11, 1, 2000, 64 << 10);
    (150..300).for_each(|n| second.add(n));
    second.try_add_record(&Record { code: b"?", ..click(0) });
    second.save(temp.path());
    let counts = shipper.counts();
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, 300);
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!(
        (count(&counts.recorded), count(&counts.unreadable), count(&counts.dropped)),
        (300, 1, 0)
    );
    assert_eq!(
        (count(&counts.lag_bytes), count(&counts.lag_segments), count(&counts.store_failures)),
        (0, 0, 0)
    );
    assert!(count(&counts.batches) >= 300 / 37);
    assert_eq!(files(temp.path()), 0);
}

/// Stores nothing by age.
const SLOW: Pace = Pace { flush: Duration::from_secs(3600), batch: 1000, ..FAST };

fn in_memory(pending: &Arc<dyn PendingClicks>, subject: &ClickSubject) -> u64 {
    let sums = pending.sums(subject);
    sums.iter().flat_map(|sum| &sum.hours).map(|hour| hour.tally.clicks.all()).sum()
}

/// The link that `click` of the journal leads to.
fn clicked_link() -> (LinkId, OwnerId) {
    let record = click(0);
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    let key = LinkKey {
        domain: terse_core::Domain::from_stored(text(record.domain)),
        code: terse_core::Code::parse(text(record.code)).unwrap(),
    };
    let created_at = Timestamp::from_ms(record.created_ms);
    (LinkId { key, created_at }, OwnerId(record.owner))
}

#[test]
fn clicks_in_memory_are_in_reports_and_their_segments_stay() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let shipper = start(temp.path(), 1, &store, SLOW);
    let mut written = Written::new(10, 1, 1000, 64 << 10);
    (0..20).for_each(|n| written.add(n));
    written.finish();
    written.save(temp.path());
    let pending = shipper.pending();
    let (link, owner) = clicked_link();
    until("reading", || in_memory(&pending, &ClickSubject::Everything) == 20);
    assert_eq!(in_memory(&pending, &ClickSubject::Link(link.clone())), 20);
    assert_eq!(in_memory(&pending, &ClickSubject::Owner(owner)), 20);
    assert_eq!(in_memory(&pending, &ClickSubject::Orphans), 0);
    let other = LinkId { created_at: Timestamp::from_ms(77), ..link.clone() };
    let counts = &pending.counts(&[other, link.clone(), link])[0].counts;
    assert_eq!(counts.iter().map(|count| count.all()).collect::<Vec<_>>(), [0, 20, 20]);
    assert!(store.counted().is_empty());
    assert_eq!(files(temp.path()), 1, "its clicks are not stored");
    until("noting", || shipper.counts().in_memory.load(Ordering::Relaxed) == 20);
    until("noting the lag", || shipper.counts().lag_bytes.load(Ordering::Relaxed) > 0);
    assert_eq!(pending.journal(), Some(journal_of(temp.path())));
    let start = pending.sums(&ClickSubject::Everything)[0].start;
    assert_eq!(start, BatchStart { segment: 10, from: 0 });
    // A full batch does not wait.
    let mut more = Written::new(11, 1, 1001, 1 << 20);
    (20..1010).for_each(|n| more.add(n));
    more.save(temp.path());
    until("storing", || store.counted().len() == 1000);
    until("the rest", || in_memory(&pending, &ClickSubject::Everything) == 10);
    until("deleting", || files(temp.path()) == 1);
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, 1010);
    assert_eq!(in_memory(&pending, &ClickSubject::Everything), 0);
}

#[test]
fn clicks_that_are_old_or_asked_for_are_stored() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let soon = Pace { flush: Duration::from_millis(30), ..SLOW };
    let shipper = start(temp.path(), 1, &store, soon);
    let mut written = Written::new(10, 1, 1000, 64 << 10);
    (0..20).for_each(|n| written.add(n));
    written.save(temp.path());
    until("storing what is old", || store.counted().len() == 20);
    assert!(shipper.stop(SOON, false) || store.counted().len() == 20);
    let shipper = start(temp.path(), 1, &store, SLOW);
    let pending = shipper.pending();
    (20..30).for_each(|n| written.add(n));
    written.save(temp.path());
    until("reading", || in_memory(&pending, &ClickSubject::Everything) == 10);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(pending.flush());
    assert_eq!(store.counted().len(), 30);
    // Nothing is in memory: this does not wait.
    until("arriving", || in_memory(&pending, &ClickSubject::Everything) == 0);
    runtime.block_on(pending.flush());
    drop(shipper);
}

#[test]
fn a_small_journal_or_little_memory_does_not_wait_for_the_flush() {
    for (limit_bytes, batch_bytes) in [(256 << 10, usize::MAX), (u64::MAX, 20_000)] {
        let temp = tempfile::tempdir().unwrap();
        let store = Arc::new(Fake::default());
        let pace = Pace { batch: 100_000, batch_bytes, ..SLOW };
        let shipper = start_within(temp.path(), 1, &store, pace, limit_bytes);
        let mut written = Written::new(10, 1, 1000, 1 << 20);
        (0..3000).for_each(|n| written.add(n));
        written.save(temp.path());
        until("storing", || store.counted().len() > 100);
        assert!(shipper.stop(SOON, true));
        assert_counted_once(&store, 3000);
    }
}

#[test]
fn while_the_store_is_away_clicks_are_read_into_a_bounded_memory() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    store.state().always = Some(Fault::Hangs);
    let clicks = dead(temp.path(), 1..11, 50, 0);
    let pace = Pace { batch: 100, ..SLOW };
    let shipper = start(temp.path(), 1, &store, pace);
    let pending = shipper.pending();
    // One batch is on its way, the other one grows, and the rest stays in the journal.
    until("reading", || in_memory(&pending, &ClickSubject::Everything) == 200);
    let calls = store.state().calls;
    until("trying again", || store.state().calls > calls + 1);
    assert_eq!(in_memory(&pending, &ClickSubject::Everything), 200);
    assert_eq!(pending.sums(&ClickSubject::Everything).len(), 2);
    assert_eq!(files(temp.path()), 10);
    store.state().always = None;
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn what_was_erased_is_not_in_memory_any_more() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let shipper = start(temp.path(), 1, &store, SLOW);
    let pending = shipper.pending();
    let mut written = Written::new(10, 1, 1000, 64 << 10);
    (0..20).for_each(|n| written.add(n));
    written.save(temp.path());
    let (link, owner) = clicked_link();
    let subject = ClickSubject::Link(link.clone());
    let first_ms = click(0).at_ms;
    let at = Timestamp::from_ms;
    until("reading", || in_memory(&pending, &subject) == 20);
    let before = at(link.created_at.as_ms() - 1);
    pending.erase_links(std::slice::from_ref(&link.key), before, at(i64::MAX));
    assert_eq!(in_memory(&pending, &subject), 20, "a later link of the same code");
    pending.erase_links(std::slice::from_ref(&link.key), link.created_at, at(first_ms));
    assert_eq!(in_memory(&pending, &subject), 0);
    assert_eq!(pending.counts(std::slice::from_ref(&link))[0].counts[0].all(), 0);
    assert_eq!(in_memory(&pending, &ClickSubject::Owner(owner)), 20, "as in the store");
    // Clicks after the erasure count, once they are in a batch without earlier ones.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(pending.flush());
    assert!(written.try_add_record(&Record { at_ms: first_ms + 60_000, ..click(20) }));
    written.save(temp.path());
    until("reading more", || in_memory(&pending, &ClickSubject::Everything) == 1);
    assert_eq!(in_memory(&pending, &subject), 1);
    pending.erase_owner(owner, at(first_ms));
    assert_eq!(in_memory(&pending, &ClickSubject::Owner(owner)), 0);
    assert_eq!(in_memory(&pending, &ClickSubject::Everything), 1);
    drop(shipper);
}

#[test]
fn a_shipper_that_ends_stores_what_waits_in_few_batches() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..13, 250, 0);
    let store = Arc::new(Fake::default());
    store.state().away = true;
    let pace = Pace { batch: 2000, timeout: SOON, flush: SOON, ..FAST };
    let shipper = start(temp.path(), 9, &store, pace);
    // It gets its order before it has read anything.
    let until = Instant::now() + SOON;
    shipper.orders.send_replace(Some(Order { until, writers_gone: true }));
    store.state().away = false;
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
    assert_eq!(store.state().batches.len(), 2);
}

#[test]
fn clicks_in_memory_are_counted_by_the_next_process() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let clicks = dead(temp.path(), 1..4, 50, 0);
    for _ in 0..3 {
        let shipper = start(temp.path(), 1, &store, SLOW);
        let pending = shipper.pending();
        until("reading", || in_memory(&pending, &ClickSubject::Everything) == 150);
        // As at a kill: nothing is stored.
        store.state().away = true;
        drop(shipper);
        store.state().away = false;
    }
    assert!(store.counted().is_empty());
    let shipper = start(temp.path(), 1, &store, FAST);
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn of_clicks_on_several_threads_the_later_one_is_the_repeat() {
    let temp = tempfile::tempdir().unwrap();
    let visit = |number: u32, visitor, ms| Record { visitor, at_ms: ms, ..click(number) };
    // Three threads; the oldest segment has the latest clicks. More than one batch of each.
    for (id, threads_ms) in [(1, 7), (2, 0), (3, 3)] {
        let mut written = Written::new(id, 99, id as i64, 256 << 10);
        for n in 0..200 {
            // Every visitor clicks on every thread, once in twenty seconds.
            let at_ms = 1_763_000_000_000 + n * 20_000 + threads_ms;
            assert!(written.try_add_record(&visit(threads_ms as u32, n as u64 + 1, at_ms)));
        }
        written.save(temp.path());
    }
    let store = Arc::new(Fake::default());
    assert!(start(temp.path(), 1, &store, FAST).stop(SOON, true));
    let state = store.state();
    assert_eq!(state.counted.len(), 600);
    for (number, kind) in state.counted.iter().zip(&state.kinds) {
        let want = if *number == 0 { ClickKind::HUMAN } else { ClickKind::REPEAT };
        assert_eq!(*kind, want, "{number} ms after the first");
    }
    let times: Vec<i64> = state.batches.iter().flat_map(|(_, times)| times.clone()).collect();
    assert!(times.is_sorted(), "batches are in the order of time");
}

#[test]
fn clicks_of_busy_threads_are_read_once() {
    const THREADS: u32 = 4;
    const CLICKS: u32 = 40_000;
    let temp = tempfile::tempdir().unwrap();
    for thread in 0..THREADS {
        let mut written = Written::new(u64::from(thread) + 1, 99, thread.into(), 4 << 20);
        for number in (thread..CLICKS).step_by(THREADS as usize) {
            // A hundred in a millisecond.
            let at_ms = click(number / 100).at_ms;
            assert!(written.try_add_record(&Record { at_ms, ..click(number) }));
        }
        written.save(temp.path());
    }
    let store = Arc::new(Fake::default());
    let pace = Pace { batch: CLICKS as usize, timeout: SOON, flush: SOON, ..FAST };
    let shipper = start(temp.path(), 9, &store, pace);
    let counts = shipper.counts();
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, CLICKS);
    let times =
        store.state().batches.iter().flat_map(|(_, times)| times.clone()).collect::<Vec<_>>();
    assert!(times.is_sorted(), "in the order of time");
    let given_back = counts.given_back.load(Ordering::Relaxed);
    assert!(given_back < u64::from(CLICKS) / 5, "{given_back}");
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let temp = tempfile::tempdir().unwrap();
    for id in 1..4 {
        let mut written = Written::new(id, 99, id as i64, 256 << 10);
        for n in 0..200_u32 {
            let at_ms = [1_763_000_000_000, 5, i64::MAX / 2, 1_763_000_500_000][n as usize % 4];
            let number = id as u32 * 1000 + n;
            assert!(written.try_add_record(&Record { at_ms, ..click(number) }));
        }
        written.save(temp.path());
    }
    let store = Arc::new(Fake::default());
    assert!(start(temp.path(), 1, &store, FAST).stop(SOON, true));
    let want: Vec<u32> = (1..4).flat_map(|id| (0..200).map(move |n| id * 1000 + n)).collect();
    assert_eq!(store.counted(), want);
}

#[test]
fn what_the_store_has_begun_is_finished_first() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..4, 30, 0);
    let store = Arc::new(Fake::default());
    // A part of two segments, as another process cut it; the order of the spans makes the id.
    let behind = |n: u32| {
        let mut written = Written::new(9, 99, 9, 64 << 10);
        (0..n).for_each(|n| written.add(n));
        written.at as u64
    };
    let journal = journal_of(temp.path());
    let span = |segment, to| JournalSpan { journal, epoch: 77, segment, from: 0, to };
    let spans = vec![span(3, behind(20)), span(1, behind(5))];
    let begun = UnfinishedBatch { id: Batch::id_of(&spans), spans };
    // One more, whose segment is gone: nothing can be done about it.
    let gone = vec![span(1234, 100)];
    let gone = UnfinishedBatch { id: Batch::id_of(&gone), spans: gone };
    store.state().unfinished = vec![gone, begun.clone()];
    store.state().faults = [Some(Fault::Fails), Some(Fault::CountsAndFails)].into();
    assert!(start(temp.path(), 1, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks);
    assert_eq!(store.state().batches[0].0, begun.id);
    assert_eq!(store.state().batches[0].1.len(), 25);
}

#[test]
fn clicks_are_made_known_once_they_are_counted() {
    let temp = tempfile::tempdir().unwrap();
    dead(temp.path(), 1..3, 20, 0);
    let store = Arc::new(Fake::default());
    let live = Arc::new(Live::default());
    let parts = ShipperParts {
        folder: temp.path().into(),
        run: 1,
        store: Arc::clone(&store) as Arc<dyn ClickIngest>,
        live: Arc::clone(&live),
        places: None,
        keep: AddressPrecision::Network,
        limit_bytes: u64::MAX,
        flush: Duration::ZERO,
        clock: Clock::default(),
    };
    store.state().faults = [Some(Fault::Fails), Some(Fault::CountsAndFails)].into();
    let key = LinkKey {
        domain: terse_core::Domain::primary(),
        code: terse_core::Code::parse("x7Kq2Lm").unwrap(),
    };
    let watch =
        live.watch(LinkId { key, created_at: Timestamp::from_ms(click(0).created_ms) }).unwrap();
    assert!(Shipper::start_at(parts, FAST).unwrap().stop(SOON, true));
    assert_eq!(watch.len(), 40);
}

#[test]
fn a_geo_database_that_cannot_be_read_fails_the_start() {
    let temp = tempfile::tempdir().unwrap();
    let parts = ShipperParts {
        folder: temp.path().into(),
        run: 1,
        store: Arc::new(Fake::default()),
        live: Arc::default(),
        places: Some(temp.path().join("missing.mmdb")),
        keep: AddressPrecision::Network,
        limit_bytes: u64::MAX,
        flush: Duration::ZERO,
        clock: Clock::default(),
    };
    assert!(Shipper::start(parts).is_err());
}

#[test]
fn whatever_the_store_does_each_click_is_counted_once() {
    let all = [
        Fault::Fails,
        Fault::CountsAndFails,
        Fault::Hangs,
        Fault::CountsAndHangs,
        Fault::CountsLate,
    ];
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..6, 100, 0);
    let store = Arc::new(Fake::default());
    // Every fault behind every other.
    for one in all {
        for other in all {
            store.state().faults.extend([Some(one), Some(other), None]);
        }
    }
    let shipper = start(temp.path(), 1, &store, FAST);
    let counts = shipper.counts();
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
    assert_eq!(counts.recorded.load(Ordering::Relaxed), u64::from(clicks));
    assert!(counts.store_failures.load(Ordering::Relaxed) > 5);
    assert!(counts.last_error_ms.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_try_that_arrives_when_all_is_over_is_not_counted() {
    let temp = tempfile::tempdir().unwrap();
    // Each segment is counted in one go, from its beginning to its end.
    let clicks = dead(temp.path(), 1..4, 10, 0);
    let store = Arc::new(Fake::default());
    store.state().faults = [Some(Fault::CountsLate), None].into();
    let shipper = start(temp.path(), 1, &store, FAST);
    until("deleting", || files(temp.path()) == 0);
    until("the late try", || store.state().late == 1);
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
    assert_eq!(store.state().positions.len(), 3, "kept for a while");
}

#[test]
fn wherever_the_process_ends_each_click_is_counted_once() {
    for fault in [Fault::Stalls, Fault::CountsAndStalls] {
        let temp = tempfile::tempdir().unwrap();
        // Enough for all the batches below.
        let clicks = dead(temp.path(), 1..18, 50, 0);
        let store = Arc::new(Fake::default());
        let (stalled, stalls) = channel();
        store.state().stalled = Some(stalled);
        let mut run = 100;
        // At the first batch of a process, at the second, and so on.
        for good in 0..6 {
            run += 1;
            store.state().faults = std::iter::repeat_n(None, good).chain([Some(fault)]).collect();
            let shipper = start(temp.path(), run, &store, Pace { timeout: SOON, ..FAST });
            stalls.recv_timeout(SOON).unwrap();
            drop(shipper);
        }
        store.state().faults.clear();
        assert!(start(temp.path(), 1, &store, FAST).stop(SOON, true));
        assert_counted_once(&store, clicks);
        assert_eq!(files(temp.path()), 0);
    }
}

#[test]
fn processes_that_come_and_go_count_each_click_once() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let mut random = 12345u64;
    let mut next = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut clicks = 0;
    for run in 1..=40 {
        let faults = [
            None,
            None,
            None,
            Some(Fault::Fails),
            Some(Fault::CountsAndFails),
            Some(Fault::CountsAndHangs),
        ];
        store.state().faults = (0..200).map(|_| faults[next(6) as usize]).collect();
        let shipper = start(temp.path(), run, &store, FAST);
        let mut written: Vec<Written> = (0..2)
            .map(|thread| Written::new(run * 10 + thread, run, run as i64, 256 << 10))
            .collect();
        for _ in 0..next(6) {
            for segment in &mut written {
                for _ in 0..next(60) {
                    segment.add(clicks);
                    clicks += 1;
                }
                segment.save(temp.path());
            }
            thread::sleep(Duration::from_micros(next(3000)));
        }
        if next(2) == 0 {
            written[0].finish();
            written[0].save(temp.path());
        }
        drop(shipper);
    }
    store.state().faults.clear();
    assert!(start(temp.path(), 1000, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks);
    assert_eq!(files(temp.path()), 0);
}

#[test]
fn where_the_store_has_counted_a_part_already_the_shipper_reads_on_from_there() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..3, 30, 0);
    let store = Arc::new(Fake::default());
    let (stalled, stalls) = channel();
    store.state().stalled = Some(stalled);
    store.state().faults = [Some(Fault::Stalls)].into();
    let shipper =
        start(temp.path(), 1, &store, Pace { timeout: Duration::from_millis(200), ..FAST });
    stalls.recv_timeout(SOON).unwrap();
    // The store has a part of the batch already, as after a restore.
    let mut other = Written::new(1, 99, 1, 64 << 10);
    (0..10).for_each(|n| other.add(n));
    {
        let mut state = store.state();
        state.positions.insert((journal_of(temp.path()), 1), other.at as u64);
        state.counted.extend(0..10);
    }
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn over_the_bound_the_oldest_are_dropped_and_none_goes_uncounted() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    store.state().away = true;
    // One that is still written, older than all others.
    let mut alive = Written::new(1000, 1, 0, 64 << 10);
    (0..5).for_each(|n| alive.add(n));
    alive.save(temp.path());
    let clicks = dead(temp.path(), 1..9, 20, 5);
    let shipper = start_within(temp.path(), 1, &store, FAST, 4 * (64 << 10));
    let counts = shipper.counts();
    until("dropping", || counts.dropped.load(Ordering::Relaxed) == 4 * 20);
    assert_eq!(files(temp.path()), 5);
    store.state().away = false;
    store.state().always = Some(Fault::Fails);
    until("reading", || store.state().calls > 3);
    // Now a batch is on its way, with all of the first segments in it.
    let clicks = dead(temp.path(), 11..16, 20, clicks);
    until("dropping again", || files(temp.path()) == 5);
    store.state().always = None;
    assert!(shipper.stop(SOON, true));
    let counted = store.counted();
    let dropped = counts.dropped.load(Ordering::Relaxed);
    assert_eq!(counted.len() as u64 + dropped, u64::from(clicks));
    assert_eq!(counts.recorded.load(Ordering::Relaxed), counted.len() as u64);
    let mut once = counted.clone();
    once.dedup();
    assert_eq!(once, counted);
    // The living one was never dropped, nor what was on its way, nor the youngest.
    assert!(
        (0..5).chain(85..117).chain(clicks - 80..clicks).all(|n| counted.contains(&n)),
        "{counted:?}"
    );
    assert_eq!(files(temp.path()), 0);
}

#[test]
fn a_small_bound_loses_nothing_while_the_store_is_well() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    // Four threads, as the smallest journal may have: what they write to and their spares are over
    // the bound by themselves.
    let size = 64 << 10;
    for id in 0..11 {
        Written::new(100 + id, 1, 10 + id as i64, size).save(temp.path());
    }
    let shipper = start_within(temp.path(), 1, &store, FAST, 8 * size as u64);
    let counts = shipper.counts();
    let mut clicks = 0;
    for n in 0..20 {
        // One thread fills a segment and goes on.
        let mut written = Written::new(1000 + n, 1, 1000 + n as i64, size);
        (0..50).for_each(|more| written.add(clicks + more));
        clicks += 50;
        written.finish();
        let path = written.save(temp.path());
        until("deleting", || !path.exists());
    }
    assert!(shipper.stop(SOON, true));
    assert_eq!(counts.dropped.load(Ordering::Relaxed), 0);
    assert_counted_once(&store, clicks);
}

#[test]
fn a_slow_store_that_counts_loses_nothing_however_small_the_bound() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    store.state().delay = Duration::from_millis(20);
    let size = 16 << 10;
    let patient = Pace { timeout: SOON, ..FAST };
    let shipper = start_within(temp.path(), 1, &store, patient, 2 * size as u64);
    let counts = shipper.counts();
    // Segments come faster than they are counted: the journal is over its bound all the time, and
    // more and more waits.
    let mut clicks = 0;
    for n in 0..40 {
        let mut written = Written::new(1000 + n, 1, 1000 + n as i64, size);
        (0..50).for_each(|more| written.add(clicks + more));
        clicks += 50;
        written.finish();
        written.save(temp.path());
        thread::sleep(Duration::from_millis(5));
    }
    assert!(files(temp.path()) > 2, "the store is slow");
    assert!(shipper.stop(SOON, true));
    assert_eq!(counts.dropped.load(Ordering::Relaxed), 0);
    assert_counted_once(&store, clicks);
}

#[test]
fn what_waits_at_the_start_is_counted_and_not_dropped_however_much_it_is() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let clicks = dead(temp.path(), 1..30, 50, 0);
    let shipper = start_within(temp.path(), 1, &store, FAST, 2 * (64 << 10));
    let counts = shipper.counts();
    assert!(shipper.stop(SOON, true));
    assert_eq!(counts.dropped.load(Ordering::Relaxed), 0);
    assert_counted_once(&store, clicks);
}

#[test]
fn what_was_counted_before_is_not_counted_as_dropped() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    dead(temp.path(), 1..2, 20, 74);
    // An earlier process has counted half of it.
    let mut half = Written::new(1, 99, 1, 64 << 10);
    (74..84).for_each(|n| half.add(n));
    let (stalled, stalls) = channel();
    {
        let mut state = store.state();
        state.positions.insert((journal_of(temp.path()), 1), half.at as u64);
        state.counted.extend(74..84);
        state.stalled = Some(stalled);
        state.always = Some(Fault::Stalls);
    }
    // Batches of other segments, whose clicks are earlier, are on their way and in memory when the
    // bound is reached.
    for (id, first) in [(7, 0), (8, 37)] {
        let mut other = Written::new(id, 99, 0, 64 << 10);
        (first..first + 37).for_each(|n| other.add(n));
        other.save(temp.path());
    }
    let shipper = start_within(temp.path(), 1, &store, FAST, 1000);
    let counts = shipper.counts();
    stalls.recv_timeout(SOON).unwrap();
    until("dropping", || files(temp.path()) == 0);
    store.state().always = None;
    assert!(shipper.stop(SOON, true));
    assert_eq!(counts.dropped.load(Ordering::Relaxed), 10);
    assert_eq!(store.counted(), (0..84).collect::<Vec<_>>());
}

#[test]
fn positions_are_forgotten_whatever_has_deleted_the_segment() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let shipper = start(temp.path(), 1, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    let mut written = Written::new(10, 1, 1000, 64 << 10);
    (0..10).for_each(|n| written.add(n));
    let path = written.save(temp.path());
    until("counting", || store.counted().len() == 10);
    assert_eq!(store.state().positions.len(), 1);
    std::fs::remove_file(path).unwrap();
    until("forgetting", || store.state().positions.is_empty());
    assert!(shipper.stop(SOON, true));
}

#[test]
fn positions_of_segments_that_are_gone_are_forgotten_at_the_start() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..2, 10, 0);
    let store = Arc::new(Fake::default());
    store.set_position(temp.path(), 77, 4096);
    let shipper = start(temp.path(), 1, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    until("forgetting", || store.state().positions.is_empty());
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn what_is_written_after_the_end_is_counted_at_the_next_start() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let shipper = start(temp.path(), 1, &store, FAST);
    // Two threads of this process, one of which is still busy, and one of a process that is gone.
    let mut busy = Written::new(10, 1, 1000, 64 << 10);
    (0..100).for_each(|n| busy.add(n));
    busy.save(temp.path());
    let mut ended = Written::new(11, 1, 1001, 64 << 10);
    (100..150).for_each(|n| ended.add(n));
    ended.finish();
    ended.save(temp.path());
    dead(temp.path(), 1..4, 10, 150);
    assert!(!shipper.stop(SOON, false));
    assert_eq!(store.counted().len(), 180, "what was there is counted");
    assert_eq!(files(temp.path()), 1, "it may still grow");
    (180..200).for_each(|n| busy.add(n));
    busy.save(temp.path());
    assert!(start(temp.path(), 2, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, 200);
    assert_eq!(files(temp.path()), 0);
}

#[test]
fn a_record_that_panics_does_not_end_the_counting_of_others() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let mut written = Written::new(1, 99, 1, 64 << 10);
    for number in 0..100 {
        written.add(number);
        if number % 40 == 0 {
            written.add_with(1000, PANICS);
        }
    }
    written.save(temp.path());
    let shipper = start(temp.path(), 1, &store, FAST);
    let counts = shipper.counts();
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, 100);
    assert_eq!(counts.unreadable.load(Ordering::Relaxed), 3);
    assert!(counts.alive.load(Ordering::Relaxed), "it ended because of the order");
}

#[test]
fn a_thread_that_ends_unexpectedly_is_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let shipper = start(temp.path(), 1, &store, FAST);
    let counts = shipper.counts();
    assert!(counts.alive.load(Ordering::Relaxed));
    let clicks = dead(temp.path(), 1..3, 10, 0);
    until("counting", || store.counted().len() == 20);
    assert!(counts.alive.load(Ordering::Relaxed));
    store.state().always = Some(Fault::Panics);
    let clicks = dead(temp.path(), 3..4, 10, clicks);
    until("the end", || !counts.alive.load(Ordering::Relaxed));
    assert!(!shipper.stop(SOON, true));
    let rest = Arc::new(Fake::default());
    rest.state().positions =
        std::mem::take(&mut store.state.lock().unwrap_or_else(PoisonError::into_inner).positions);
    assert!(start(temp.path(), 2, &rest, FAST).stop(SOON, true));
    assert_eq!(rest.counted(), (20..clicks).collect::<Vec<_>>());
}

#[test]
fn a_store_that_never_answers_is_left_after_the_timeout() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..3, 10, 0);
    let store = Arc::new(Fake::default());
    store.state().always = Some(Fault::Hangs);
    let shipper = start(temp.path(), 1, &store, Pace { timeout: SOON, ..FAST });
    assert!(!shipper.stop(Duration::from_millis(20), true));
    assert_eq!(files(temp.path()), 2);
    store.state().always = None;
    assert!(start(temp.path(), 2, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn two_nodes_on_one_store_leave_each_others_positions_alone() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Arc::new(Fake::default());
    // The second node has counted half of a segment when the first one starts.
    let mut growing = Written::new(20, 2, 1000, 64 << 10);
    (0..50).for_each(|n| growing.add(n));
    growing.save(there.path());
    let second = start(there.path(), 2, &store, FAST);
    until("counting", || store.counted().len() == 50);
    let first = start(here.path(), 1, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    let mut other = Written::new(10, 1, 1000, 64 << 10);
    (100..150).for_each(|n| other.add(n));
    other.finish();
    let path = other.save(here.path());
    until("deleting", || !path.exists());
    until("forgetting", || !store.has_position(here.path(), 10));
    (50..100).for_each(|n| growing.add(n));
    growing.save(there.path());
    assert!(first.stop(SOON, true));
    assert!(second.stop(SOON, true));
    assert_counted_once(&store, 150);
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn an_old_copy_of_a_folder_is_not_counted_again() {
    let (temp, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Arc::new(Fake::default());
    assert!(start(temp.path(), 1, &store, FAST).stop(SOON, true));
    let clicks = dead(temp.path(), 1..4, 20, 0);
    copy_folder(temp.path(), copy.path());
    let shipper = start(temp.path(), 2, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    until("forgetting", || {
        store.counted().len() == clicks as usize && store.state().positions.is_empty()
    });
    assert!(shipper.stop(SOON, true));
    // Two more, of the process that runs on the copy: these are new.
    let shipper = start(copy.path(), 3, &store, FAST);
    let mut new = Written::new(9, 3, 9, 64 << 10);
    (clicks..clicks + 2).for_each(|n| new.add(n));
    new.save(copy.path());
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks + 2);
    assert_eq!(files(&copy.path().join("outdated")), 3, "they are kept");
    // From now on it is the folder that counts, and the first one is the old copy.
    dead(temp.path(), 11..12, 20, 1000);
    let shipper = start(copy.path(), 4, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    until("forgetting", || store.state().positions.is_empty());
    assert!(shipper.stop(SOON, true));
    assert!(start(temp.path(), 5, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks + 2);
}

#[test]
fn of_two_processes_on_copies_of_a_folder_the_first_stops_and_deletes_nothing() {
    let (temp, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Arc::new(Fake::default());
    let clicks = dead(temp.path(), 1..4, 20, 0);
    journal_of(temp.path());
    copy_folder(temp.path(), copy.path());
    let (stalled, stalls) = channel();
    store.state().stalled = Some(stalled);
    store.state().faults = [Some(Fault::Stalls)].into();
    // The first one is paused in the middle of a batch.
    let pace = Pace { keep_positions: Duration::ZERO, ..FAST };
    let first = start(temp.path(), 1, &store, Pace { timeout: Duration::from_secs(1), ..pace });
    stalls.recv_timeout(SOON).unwrap();
    let second = start(copy.path(), 2, &store, pace);
    until("forgetting", || {
        store.counted().len() == clicks as usize && store.state().positions.is_empty()
    });
    let counts = first.counts();
    until("fencing", || counts.fenced.load(Ordering::Relaxed));
    until("the end", || !counts.alive.load(Ordering::Relaxed));
    let forgets = store.state().forgets;
    assert!(!first.stop(SOON, true));
    assert_eq!(files(temp.path()), 3);
    assert_eq!(store.state().forgets, forgets);
    assert!(second.stop(SOON, true));
    assert_counted_once(&store, clicks);
    // Restarted, the first one knows that it has an old copy.
    assert!(start(temp.path(), 3, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn a_folder_from_before_there_were_ids_gets_one_and_keeps_its_positions() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..3, 20, 0);
    let store = Arc::new(Fake::default());
    assert!(!temp.path().join("journal.id").exists());
    assert!(start(temp.path(), 1, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks);
    let journal = journal_of(temp.path());
    assert!(store.state().positions.keys().all(|(of, _)| *of == journal));
}
