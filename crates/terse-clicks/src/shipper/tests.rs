//! The shipper against a store that fails in every way.

mod bound;
mod memory;
mod once;
mod order;
mod positions;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::pending;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use terse_core::clicks::{
    Added, Batch, BatchStart, ClickKind, ClickSubject, ClickSum, Forgotten, JournalId,
    JournalRecord, JournalSpan, LinkId, Opened, PendingClicks, Position, Sketch, UnfinishedBatch,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};
use terse_testkit::wait_until;

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
    help_after: Duration::ZERO,
    keep_positions: Duration::from_secs(300),
    late_open: Duration::from_secs(300),
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
struct FakeStore {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Epoch and generation of each journal.
    journals: HashMap<JournalId, (u32, u64)>,
    positions: HashMap<(JournalId, u64), u64>,
    counted: Vec<u32>,
    kinds: Vec<ClickKind>,
    /// By subject and hour.
    sums: BTreeMap<String, (ClickSum, u64)>,
    /// The id of each batch, and the times of its clicks.
    batches: Vec<([u8; 16], Vec<i64>)>,
    unfinished: Vec<UnfinishedBatch>,
    /// Faults of the next calls of `add`, and then of all others.
    faults: VecDeque<Option<Fault>>,
    always: Option<Fault>,
    away: bool,
    /// Calls of `open` whose answers are lost, and which arrive after the next one.
    late_opens: u32,
    arriving_opens: u32,
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
        for delta in &batch.sums {
            let name = format!("{:?} {}", batch.subject(delta.subject), delta.hour);
            let (sum, visitors) = self.sums.entry(name).or_default();
            delta.add_to(&batch.clicks, sum);
            *visitors += delta.visitors.as_ref().map_or(0, Sketch::count);
        }
        self.batches.push((batch.id, batch.clicks.at_ms.clone()));
        self.unfinished.retain(|begun| begun.id != batch.id);
        Added::Done
    }
}

impl FakeStore {
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
    let disk = Arc::new(crate::disk::FileSystem::new(folder));
    FolderIdentity::open(disk).unwrap().journal()
}

fn away() -> StoreError {
    StoreError::Unavailable("away".into())
}

#[async_trait]
impl ClickIngest for FakeStore {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        let mut state = self.state();
        if state.away {
            return Err(away());
        }
        if state.late_opens > 0 {
            state.late_opens -= 1;
            state.arriving_opens += 1;
            return Err(away());
        }
        let late = std::mem::take(&mut state.arriving_opens);
        let (current, generation) = state.journals.entry(journal).or_default();
        let (epoch, generation) = (*current + 1, *generation);
        *current = epoch + late;
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

fn start(folder: &Path, run: u64, store: &Arc<FakeStore>, pace: Pace) -> Shipper {
    start_within(folder, run, store, pace, u64::MAX)
}

fn start_within(
    folder: &Path,
    run: u64,
    store: &Arc<FakeStore>,
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
        batch_bytes: pace.batch_bytes,
        flush: pace.flush,
        clock: Clock::default(),
    };
    Shipper::start_at(parts, pace).unwrap()
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

fn assert_counted_once(store: &FakeStore, clicks: u32) {
    assert_eq!(store.counted(), (0..clicks).collect::<Vec<_>>());
    let human = |kind: &ClickKind| *kind == ClickKind::HUMAN;
    assert!(store.state().kinds.iter().all(human), "nobody is a repeat of themselves");
}

#[test]
fn clicks_are_counted_as_they_come_and_everything_in_the_end() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(FakeStore::default());
    let shipper = start(temp.path(), 1, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    let mut first = Written::new(10, 1, 1000, 64 << 10);
    (0..100).for_each(|n| first.add(n));
    first.save(temp.path());
    wait_until("counting", || store.counted().len() == 100);
    assert_eq!(files(temp.path()), 1, "it may still grow");
    (100..150).for_each(|n| first.add(n));
    first.finish();
    first.save(temp.path());
    wait_until("deleting", || files(temp.path()) == 0);
    wait_until("forgetting", || store.state().positions.is_empty());
    let mut second = Written::new(11, 1, 2000, 64 << 10);
    (150..300).for_each(|n| second.add(n));
    second.try_add_record(&JournalRecord { code: b"?", ..click(0) });
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

#[test]
fn a_geo_database_that_cannot_be_read_fails_the_start() {
    let temp = tempfile::tempdir().unwrap();
    let parts = ShipperParts {
        folder: temp.path().into(),
        run: 1,
        store: Arc::new(FakeStore::default()),
        live: Arc::default(),
        places: Some(temp.path().join("missing.mmdb")),
        keep: AddressPrecision::Network,
        limit_bytes: u64::MAX,
        batch_bytes: usize::MAX,
        flush: Duration::ZERO,
        clock: Clock::default(),
    };
    assert!(Shipper::start(parts).is_err());
}
