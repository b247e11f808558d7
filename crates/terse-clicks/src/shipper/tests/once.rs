//! Each click is counted once, whatever fails.

use super::*;

#[test]
fn what_the_store_has_begun_is_finished_first() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..4, 30, 0);
    let store = Arc::new(FakeStore::default());
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
    let store = Arc::new(FakeStore::default());
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
    let store = Arc::new(FakeStore::default());
    store.state().faults = [Some(Fault::CountsLate), None].into();
    let shipper = start(temp.path(), 1, &store, FAST);
    wait_until("deleting", || files(temp.path()) == 0);
    wait_until("the late try", || store.state().late == 1);
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
        let store = Arc::new(FakeStore::default());
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
    let store = Arc::new(FakeStore::default());
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
    let store = Arc::new(FakeStore::default());
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
fn what_is_written_after_the_end_is_counted_at_the_next_start() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(FakeStore::default());
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
    let store = Arc::new(FakeStore::default());
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
    let store = Arc::new(FakeStore::default());
    let shipper = start(temp.path(), 1, &store, FAST);
    let counts = shipper.counts();
    assert!(counts.alive.load(Ordering::Relaxed));
    let clicks = dead(temp.path(), 1..3, 10, 0);
    wait_until("counting", || store.counted().len() == 20);
    assert!(counts.alive.load(Ordering::Relaxed));
    store.state().always = Some(Fault::Panics);
    let clicks = dead(temp.path(), 3..4, 10, clicks);
    wait_until("the end", || !counts.alive.load(Ordering::Relaxed));
    assert!(!shipper.stop(SOON, true));
    let rest = Arc::new(FakeStore::default());
    rest.state().positions =
        std::mem::take(&mut store.state.lock().unwrap_or_else(PoisonError::into_inner).positions);
    assert!(start(temp.path(), 2, &rest, FAST).stop(SOON, true));
    assert_eq!(rest.counted(), (20..clicks).collect::<Vec<_>>());
}

#[test]
fn a_store_that_never_answers_is_left_after_the_timeout() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..3, 10, 0);
    let store = Arc::new(FakeStore::default());
    store.state().always = Some(Fault::Hangs);
    let shipper = start(temp.path(), 1, &store, Pace { timeout: SOON, ..FAST });
    assert!(!shipper.stop(Duration::from_millis(20), true));
    assert_eq!(files(temp.path()), 2);
    store.state().always = None;
    assert!(start(temp.path(), 2, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks);
}
