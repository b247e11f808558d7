//! The bound of the journal.

use super::*;

#[test]
fn over_the_bound_the_oldest_are_dropped_and_none_goes_uncounted() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(FakeStore::default());
    store.state().away = true;
    // One that is still written, older than all others.
    let mut alive = Written::new(1000, 1, 0, 64 << 10);
    (0..5).for_each(|n| alive.add(n));
    alive.save(temp.path());
    let clicks = dead(temp.path(), 1..9, 20, 5);
    let shipper = start_within(temp.path(), 1, &store, FAST, 4 * (64 << 10));
    let counts = shipper.counts();
    wait_until("dropping", || counts.dropped.load(Ordering::Relaxed) == 4 * 20);
    assert_eq!(files(temp.path()), 5);
    store.state().away = false;
    store.state().always = Some(Fault::Fails);
    wait_until("reading", || store.state().calls > 3);
    // Now a batch is on its way, with all of the first segments in it.
    let clicks = dead(temp.path(), 11..16, 20, clicks);
    wait_until("dropping again", || files(temp.path()) == 5);
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
    let store = Arc::new(FakeStore::default());
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
        wait_until("deleting", || !path.exists());
    }
    assert!(shipper.stop(SOON, true));
    assert_eq!(counts.dropped.load(Ordering::Relaxed), 0);
    assert_counted_once(&store, clicks);
}

#[test]
fn a_slow_store_that_counts_loses_nothing_however_small_the_bound() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(FakeStore::default());
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
    let store = Arc::new(FakeStore::default());
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
    let store = Arc::new(FakeStore::default());
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
    wait_until("dropping", || files(temp.path()) == 0);
    store.state().always = None;
    assert!(shipper.stop(SOON, true));
    assert_eq!(counts.dropped.load(Ordering::Relaxed), 10);
    assert_eq!(store.counted(), (0..84).collect::<Vec<_>>());
}
