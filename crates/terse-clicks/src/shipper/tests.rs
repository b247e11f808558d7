use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use terse_core::clicks::{
    Batch, BotKind, ClickPage, ClickReport, ClickSubject, Count, LinkId, Period, Pruned, RawQuery,
    Record, Recorded, Retention, Salt,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};

use super::*;
use crate::enrich::samples::PANICS;
use crate::written::{Written, click};

const SOON: Duration = Duration::from_secs(20);
const FAST: Pace = Pace {
    idle: Duration::from_millis(1),
    patience: Duration::from_millis(40),
    first_wait: Duration::from_millis(1),
    longest_wait: Duration::from_millis(4),
    batch: 37,
    linger: Duration::from_secs(300),
    catch_up: Duration::from_millis(50),
};

/// What a call of the store does instead of what it should.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    Fails,
    CountsAndFails,
    Hangs,
    CountsAndHangs,
    CountsLate,
    /// As one that hangs, but the test is told.
    Stalls,
    CountsAndStalls,
    Panics,
}

/// A store that keeps its promise of one atomic step, and no other.
#[derive(Default)]
struct Fake {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    positions: HashMap<u64, u64>,
    counted: Vec<u32>,
    bots: Vec<Option<BotKind>>,
    /// Faults of the calls of `record` to come, and then of all others.
    faults: VecDeque<Option<Fault>>,
    always: Option<Fault>,
    away: bool,
    stalled: Option<Sender<()>>,
    calls: usize,
    /// Tries that came too late.
    late: usize,
}

impl Inside {
    fn apply(&mut self, batch: &Batch) -> Recorded {
        if batch
            .moves
            .iter()
            .any(|moved| self.positions.get(&moved.segment).copied().unwrap_or(0) != moved.from)
        {
            return Recorded::OutOfStep;
        }
        self.positions.extend(batch.moves.iter().map(|moved| (moved.segment, moved.to)));
        self.counted.extend(batch.clicks.iter().map(|click| click.took_micros));
        self.bots.extend(batch.clicks.iter().map(|click| click.machine));
        Recorded::Done
    }
}

impl Fake {
    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }

    fn counted(&self) -> Vec<u32> {
        let mut counted = self.inside().counted.clone();
        counted.sort_unstable();
        counted
    }
}

fn away() -> StoreError {
    StoreError::Unavailable("away".into())
}

#[async_trait]
impl ClickStore for Fake {
    async fn positions(&self) -> Result<Vec<(u64, u64)>, StoreError> {
        let inside = self.inside();
        if inside.away {
            Err(away())
        } else {
            Ok(inside.positions.iter().map(|(&id, &to)| (id, to)).collect())
        }
    }

    async fn record(&self, batch: &Batch) -> Result<Recorded, StoreError> {
        let fault = {
            let mut inside = self.inside();
            inside.calls += 1;
            let always = inside.always;
            let fault = inside.faults.pop_front().unwrap_or(always);
            let fault = if inside.away { Some(Fault::Fails) } else { fault };
            assert_ne!(fault, Some(Fault::Panics), "as the test has asked for");
            match fault {
                None => return Ok(inside.apply(batch)),
                Some(Fault::CountsAndFails | Fault::CountsAndHangs | Fault::CountsAndStalls) => {
                    let _ = inside.apply(batch);
                }
                Some(Fault::CountsLate) => {
                    let (inside, batch) = (Arc::clone(&self.inside), batch.clone());
                    thread::spawn(move || {
                        thread::sleep(3 * FAST.patience / 2);
                        let mut inside = inside.lock().unwrap();
                        inside.apply(&batch);
                        inside.late += 1;
                    });
                }
                Some(_) => {}
            }
            if matches!(fault, Some(Fault::Stalls | Fault::CountsAndStalls)) {
                inside.stalled.as_ref().unwrap().send(()).unwrap();
            }
            fault
        };
        match fault {
            Some(Fault::Fails | Fault::CountsAndFails) => Err(away()),
            _ => pending().await,
        }
    }

    async fn forget_segments(&self, segments: &[u64]) -> Result<(), StoreError> {
        let mut inside = self.inside();
        if inside.away {
            return Err(away());
        }
        inside.positions.retain(|id, _| !segments.contains(id));
        Ok(())
    }

    async fn counts(&self, _: &[LinkId]) -> Result<Vec<Count>, StoreError> {
        Err(away())
    }
    async fn report(
        &self,
        _: &ClickSubject,
        _: Period,
        _: Timestamp,
    ) -> Result<ClickReport, StoreError> {
        Err(away())
    }
    async fn clicks(&self, _: &RawQuery) -> Result<ClickPage, StoreError> {
        Err(away())
    }
    async fn links(&self, _: Option<&LinkId>, _: usize) -> Result<Vec<LinkId>, StoreError> {
        Err(away())
    }
    async fn forget_links(&self, _: &[LinkKey], _: Timestamp) -> Result<(), StoreError> {
        Err(away())
    }
    async fn forget_owner(&self, _: OwnerId) -> Result<(), StoreError> {
        Err(away())
    }
    async fn prune(&self, _: Retention) -> Result<Pruned, StoreError> {
        Err(away())
    }
    async fn salt(&self, _: i64) -> Result<Salt, StoreError> {
        Err(away())
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
        store: Arc::clone(store) as Arc<dyn ClickStore>,
        live: Arc::default(),
        places: None,
        keep: AddressPrecision::Network,
        limit_bytes,
        clock: Clock::default(),
    };
    Shipper::start_at(parts, pace).unwrap()
}

/// Waits for something that is bound to happen.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..20_000 {
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

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn assert_counted_once(store: &Fake, clicks: u32) {
    assert_eq!(store.counted(), (0..clicks).collect::<Vec<_>>());
    assert!(store.inside().bots.iter().all(Option::is_none), "nobody is a repeat of themselves");
}

#[test]
fn clicks_are_counted_as_they_come_and_everything_in_the_end() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let shipper = start(temp.path(), 1, &store, Pace { linger: Duration::ZERO, ..FAST });
    let mut first = Written::new(10, 1, 1000, 64 << 10);
    (0..100).for_each(|n| first.add(n));
    first.save(temp.path());
    until("counting", || store.counted().len() == 100);
    assert_eq!(files(temp.path()), 1, "it may still grow");
    (100..150).for_each(|n| first.add(n));
    first.finish();
    first.save(temp.path());
    until("deleting", || files(temp.path()) == 0);
    until("forgetting", || store.inside().positions.is_empty());
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

#[test]
fn clicks_are_made_known_once_they_are_counted() {
    let temp = tempfile::tempdir().unwrap();
    dead(temp.path(), 1..3, 20, 0);
    let store = Arc::new(Fake::default());
    let live = Arc::new(Live::default());
    let parts = ShipperParts {
        folder: temp.path().into(),
        run: 1,
        store: Arc::clone(&store) as Arc<dyn ClickStore>,
        live: Arc::clone(&live),
        places: None,
        keep: AddressPrecision::Network,
        limit_bytes: u64::MAX,
        clock: Clock::default(),
    };
    store.inside().faults = [Some(Fault::Fails), Some(Fault::CountsAndFails)].into();
    let key = LinkKey {
        domain: terse_core::Domain::primary(),
        code: terse_core::Code::parse("x7Kq2Lm").unwrap(),
    };
    let watch = live.watch(LinkId { key, born: Timestamp::from_ms(click(0).born_ms) }).unwrap();
    assert!(Shipper::start_at(parts, FAST).unwrap().stop(SOON, true));
    assert_eq!(watch.len(), 40);
}

#[test]
fn a_file_of_places_that_cannot_be_read_is_told_at_the_start() {
    let temp = tempfile::tempdir().unwrap();
    let parts = ShipperParts {
        folder: temp.path().into(),
        run: 1,
        store: Arc::new(Fake::default()),
        live: Arc::default(),
        places: Some(temp.path().join("missing.mmdb")),
        keep: AddressPrecision::Network,
        limit_bytes: u64::MAX,
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
            store.inside().faults.extend([Some(one), Some(other), None]);
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
    store.inside().faults = [Some(Fault::CountsLate), None].into();
    let shipper = start(temp.path(), 1, &store, FAST);
    until("deleting", || files(temp.path()) == 0);
    until("the late try", || store.inside().late == 1);
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
    assert_eq!(store.inside().positions.len(), 3, "kept for a while");
}

#[test]
fn wherever_the_process_ends_each_click_is_counted_once() {
    for fault in [Fault::Stalls, Fault::CountsAndStalls] {
        let temp = tempfile::tempdir().unwrap();
        // Enough for all the batches below.
        let clicks = dead(temp.path(), 1..18, 50, 0);
        let store = Arc::new(Fake::default());
        let (stalled, told) = channel();
        store.inside().stalled = Some(stalled);
        let mut run = 100;
        // At the first batch of a process, at the second, and so on.
        for good in 0..6 {
            run += 1;
            store.inside().faults = std::iter::repeat_n(None, good).chain([Some(fault)]).collect();
            let shipper = start(temp.path(), run, &store, Pace { patience: SOON, ..FAST });
            told.recv_timeout(SOON).unwrap();
            drop(shipper);
        }
        store.inside().faults.clear();
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
        store.inside().faults = (0..200).map(|_| faults[next(6) as usize]).collect();
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
    store.inside().faults.clear();
    assert!(start(temp.path(), 1000, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks);
    assert_eq!(files(temp.path()), 0);
}

#[test]
fn when_somebody_else_counts_too_nothing_is_counted_twice() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..3, 30, 0);
    let store = Arc::new(Fake::default());
    let (stalled, told) = channel();
    store.inside().stalled = Some(stalled);
    store.inside().faults = [Some(Fault::Stalls)].into();
    let shipper =
        start(temp.path(), 1, &store, Pace { patience: Duration::from_millis(200), ..FAST });
    told.recv_timeout(SOON).unwrap();
    // A part of what the batch holds is counted by another one.
    let mut other = Written::new(1, 99, 1, 64 << 10);
    (0..10).for_each(|n| other.add(n));
    {
        let mut inside = store.inside();
        inside.positions.insert(1, other.at as u64);
        inside.counted.extend(0..10);
    }
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn over_the_bound_the_oldest_are_dropped_and_none_goes_uncounted() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    store.inside().away = true;
    // One that is still written, older than all others.
    let mut alive = Written::new(1000, 1, 0, 64 << 10);
    (0..5).for_each(|n| alive.add(n));
    alive.save(temp.path());
    let clicks = dead(temp.path(), 1..9, 20, 5);
    let shipper = start_within(temp.path(), 1, &store, FAST, 4 * (64 << 10));
    let counts = shipper.counts();
    until("dropping", || counts.dropped.load(Ordering::Relaxed) == 4 * 20);
    assert_eq!(files(temp.path()), 5);
    store.inside().away = false;
    store.inside().always = Some(Fault::Fails);
    until("reading", || store.inside().calls > 3);
    // Now a batch is on its way, with all of the first segments in it.
    let clicks = dead(temp.path(), 11..16, 20, clicks);
    until("dropping again", || files(temp.path()) == 5);
    store.inside().always = None;
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
    dead(temp.path(), 1..2, 20, 0);
    // An earlier process has counted half of it.
    let mut half = Written::new(1, 99, 1, 64 << 10);
    (0..10).for_each(|n| half.add(n));
    let (stalled, told) = channel();
    {
        let mut inside = store.inside();
        inside.positions.insert(1, half.at as u64);
        inside.counted.extend(0..10);
        inside.stalled = Some(stalled);
        inside.always = Some(Fault::Stalls);
    }
    // A batch of another segment is on its way when the bound is reached.
    let mut other = Written::new(7, 99, 0, 64 << 10);
    (20..57).for_each(|n| other.add(n));
    other.save(temp.path());
    let shipper = start_within(temp.path(), 1, &store, FAST, 1000);
    let counts = shipper.counts();
    told.recv_timeout(SOON).unwrap();
    until("dropping", || files(temp.path()) == 0);
    store.inside().always = None;
    assert!(shipper.stop(SOON, true));
    assert_eq!(counts.dropped.load(Ordering::Relaxed), 10);
    assert_eq!(store.counted(), (0..10).chain(20..57).collect::<Vec<_>>());
}

#[test]
fn positions_are_forgotten_whoever_has_deleted_the_segment() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let shipper = start(temp.path(), 1, &store, Pace { linger: Duration::ZERO, ..FAST });
    let mut written = Written::new(10, 1, 1000, 64 << 10);
    (0..10).for_each(|n| written.add(n));
    let path = written.save(temp.path());
    until("counting", || store.counted().len() == 10);
    assert_eq!(store.inside().positions.len(), 1);
    std::fs::remove_file(path).unwrap();
    until("forgetting", || store.inside().positions.is_empty());
    assert!(shipper.stop(SOON, true));
}

#[test]
fn positions_of_segments_that_are_gone_are_forgotten_at_the_start() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..2, 10, 0);
    let store = Arc::new(Fake::default());
    store.inside().positions.insert(77, 4096);
    let shipper = start(temp.path(), 1, &store, Pace { linger: Duration::ZERO, ..FAST });
    until("forgetting", || store.inside().positions.is_empty());
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
fn a_record_that_nobody_can_cope_with_does_not_end_the_counting_of_others() {
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
    assert!(counts.alive.load(Ordering::Relaxed), "it ended because it was told to");
}

#[test]
fn a_thread_that_ended_by_itself_is_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(Fake::default());
    let shipper = start(temp.path(), 1, &store, FAST);
    let counts = shipper.counts();
    assert!(counts.alive.load(Ordering::Relaxed));
    let clicks = dead(temp.path(), 1..3, 10, 0);
    until("counting", || store.counted().len() == 20);
    assert!(counts.alive.load(Ordering::Relaxed));
    store.inside().always = Some(Fault::Panics);
    let clicks = dead(temp.path(), 3..4, 10, clicks);
    until("the end", || !counts.alive.load(Ordering::Relaxed));
    assert!(!shipper.stop(SOON, true));
    let rest = Arc::new(Fake::default());
    rest.inside().positions =
        std::mem::take(&mut store.inside.lock().unwrap_or_else(PoisonError::into_inner).positions);
    assert!(start(temp.path(), 2, &rest, FAST).stop(SOON, true));
    assert_eq!(rest.counted(), (20..clicks).collect::<Vec<_>>());
}

#[test]
fn a_store_that_never_answers_is_left_after_the_patience() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..3, 10, 0);
    let store = Arc::new(Fake::default());
    store.inside().always = Some(Fault::Hangs);
    let shipper = start(temp.path(), 1, &store, Pace { patience: SOON, ..FAST });
    assert!(!shipper.stop(Duration::from_millis(20), true));
    assert_eq!(files(temp.path()), 2);
    store.inside().always = None;
    assert!(start(temp.path(), 2, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks);
}
