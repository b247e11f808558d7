//! The order in which clicks are counted.

use super::*;

#[test]
fn of_clicks_on_several_threads_the_later_one_is_the_repeat() {
    // Also if a batch is filled up by several reads, the last of which has room for one click.
    let alone = Pace { help_after: Duration::MAX, ..FAST };
    for pace in [alone, FAST, Pace { flush: SOON, ..alone }, Pace { flush: SOON, ..FAST }] {
        let temp = tempfile::tempdir().unwrap();
        // Three threads; the oldest segment has the latest clicks. More than one batch of each.
        for (id, threads_ms) in [(1, 7), (2, 0), (3, 3)] {
            let mut written = Written::new(id, 99, id as i64, 256 << 10);
            for n in 0..200 {
                // Every visitor clicks on every thread, once in twenty seconds.
                let at_ms = 1_763_000_000_000 + n * 20_000 + threads_ms;
                let visitor = n as u64 + 1;
                let record = JournalRecord { visitor, at_ms, ..click(threads_ms as u32) };
                assert!(written.try_add_record(&record));
            }
            written.save(temp.path());
        }
        let store = Arc::new(FakeStore::default());
        assert!(start(temp.path(), 1, &store, pace).stop(SOON, true));
        let state = store.state();
        assert_eq!(state.counted.len(), 600);
        for (number, kind) in state.counted.iter().zip(&state.kinds) {
            let want = if *number == 0 { ClickKind::HUMAN } else { ClickKind::REPEAT };
            assert_eq!(*kind, want, "{number} ms after the first, {pace:?}");
        }
        let times: Vec<i64> = state.batches.iter().flat_map(|(_, times)| times.clone()).collect();
        assert!(times.is_sorted(), "batches are in the order of time");
    }
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
fn with_a_helping_thread_clicks_are_counted_as_without_one() {
    const CLICKS: u32 = 40_000;
    let agents: [&[u8]; 2] = [b"Mozilla/5.0 (Windows NT 10.0) Firefox/120.0", b"curl/8.0"];
    let count = |help_after: Duration| {
        let temp = tempfile::tempdir().unwrap();
        for thread in 0..3 {
            let mut written = Written::new(u64::from(thread) + 1, 99, thread.into(), 8 << 20);
            for number in (thread..CLICKS).step_by(3) {
                // Visitors click again after some seconds, most of them on another thread.
                let code = format!("code{}", number % 700 / 2);
                let record = JournalRecord {
                    at_ms: 1_763_000_000_000 + i64::from(number) * 7,
                    visitor: u64::from(number % 700) + 1,
                    owner: u64::from(number % 5),
                    code: code.as_bytes(),
                    agent: agents[usize::from(number % 11 == 0)],
                    ..click(number)
                };
                assert!(written.try_add_record(&record));
            }
            written.save(temp.path());
        }
        let store = Arc::new(FakeStore::default());
        let pace = Pace { help_after, batch: 2 * CLICKS as usize, timeout: SOON, ..FAST };
        let shipper = start(temp.path(), 9, &store, Pace { flush: SOON, ..pace });
        let counts = shipper.counts();
        assert!(shipper.stop(SOON, true));
        let mut state = store.state();
        assert_eq!(state.batches.len(), 1);
        let State { counted, kinds, sums, .. } = std::mem::take(&mut *state);
        (counts.helped.load(Ordering::Relaxed), counted, kinds, sums)
    };
    let alone = count(Duration::MAX);
    let helped = count(Duration::ZERO);
    assert_eq!(alone.0, 0);
    assert!(helped.0 > 0, "no thread helped");
    assert_eq!(alone.1.len(), CLICKS as usize);
    assert!(alone.2.contains(&ClickKind::REPEAT));
    assert!(helped.1 == alone.1, "other clicks, or in another order");
    assert!(helped.2 == alone.2, "other repeats");
    assert_eq!(helped.3, alone.3);
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
