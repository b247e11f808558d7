//! The order in which clicks are counted.

use super::*;

#[test]
fn of_clicks_on_several_threads_the_later_one_is_the_repeat() {
    let temp = tempfile::tempdir().unwrap();
    let visit = |number: u32, visitor, ms| JournalRecord { visitor, at_ms: ms, ..click(number) };
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
    let store = Arc::new(FakeStore::default());
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
            assert!(written.try_add_record(&JournalRecord { at_ms, ..click(number) }));
        }
        written.save(temp.path());
    }
    let store = Arc::new(FakeStore::default());
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
            assert!(written.try_add_record(&JournalRecord { at_ms, ..click(number) }));
        }
        written.save(temp.path());
    }
    let store = Arc::new(FakeStore::default());
    assert!(start(temp.path(), 1, &store, FAST).stop(SOON, true));
    let want: Vec<u32> = (1..4).flat_map(|id| (0..200).map(move |n| id * 1000 + n)).collect();
    assert_eq!(store.counted(), want);
}
