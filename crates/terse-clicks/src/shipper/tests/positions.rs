//! Positions in the store, and folders that are copies.

use super::*;

#[test]
fn positions_are_forgotten_whatever_has_deleted_the_segment() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(FakeStore::default());
    let shipper = start(temp.path(), 1, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    let mut written = Written::new(10, 1, 1000, 64 << 10);
    (0..10).for_each(|n| written.add(n));
    let path = written.save(temp.path());
    wait_until("counting", || store.counted().len() == 10);
    assert_eq!(store.state().positions.len(), 1);
    std::fs::remove_file(path).unwrap();
    wait_until("forgetting", || store.state().positions.is_empty());
    assert!(shipper.stop(SOON, true));
}

#[test]
fn positions_of_segments_that_are_gone_are_forgotten_at_the_start() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..2, 10, 0);
    let store = Arc::new(FakeStore::default());
    store.set_position(temp.path(), 77, 4096);
    let shipper = start(temp.path(), 1, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    wait_until("forgetting", || store.state().positions.is_empty());
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn two_nodes_on_one_store_leave_each_others_positions_alone() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Arc::new(FakeStore::default());
    // The second node has counted half of a segment when the first one starts.
    let mut growing = Written::new(20, 2, 1000, 64 << 10);
    (0..50).for_each(|n| growing.add(n));
    growing.save(there.path());
    let second = start(there.path(), 2, &store, FAST);
    wait_until("counting", || store.counted().len() == 50);
    let first = start(here.path(), 1, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    let mut other = Written::new(10, 1, 1000, 64 << 10);
    (100..150).for_each(|n| other.add(n));
    other.finish();
    let path = other.save(here.path());
    wait_until("deleting", || !path.exists());
    wait_until("forgetting", || !store.has_position(here.path(), 10));
    (50..100).for_each(|n| growing.add(n));
    growing.save(there.path());
    assert!(first.stop(SOON, true));
    assert!(second.stop(SOON, true));
    assert_counted_once(&store, 150);
}

#[test]
fn a_late_call_of_the_process_itself_does_not_end_its_counting() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..3, 10, 0);
    let store = Arc::new(FakeStore::default());
    store.state().late_opens = 2;
    let shipper = start(temp.path(), 1, &store, FAST);
    let counts = shipper.counts();
    wait_until("counting", || store.counted().len() == clicks as usize);
    assert!(!counts.fenced.load(Ordering::Relaxed));
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn a_process_whose_calls_were_lost_long_ago_stops_when_another_one_opens_the_journal() {
    let temp = tempfile::tempdir().unwrap();
    let clicks = dead(temp.path(), 1..3, 10, 0);
    let store = Arc::new(FakeStore::default());
    store.state().away = true;
    let pace = Pace { late_open: Duration::from_millis(20), ..FAST };
    let shipper = start(temp.path(), 1, &store, pace);
    let counts = shipper.counts();
    wait_until("failing", || counts.store_failures.load(Ordering::Relaxed) > 3);
    store.state().away = false;
    wait_until("counting", || store.counted().len() == clicks as usize);
    thread::sleep(2 * pace.late_open);
    let clicks = dead(temp.path(), 3..4, 10, clicks);
    wait_until("counting more", || store.counted().len() == clicks as usize);
    wait_until("noting it", || counts.recorded.load(Ordering::Relaxed) == u64::from(clicks));
    store.state().journals.values_mut().for_each(|(epoch, _)| *epoch += 1);
    dead(temp.path(), 4..5, 10, clicks);
    wait_until("fencing", || counts.fenced.load(Ordering::Relaxed));
    assert!(!shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
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
    let store = Arc::new(FakeStore::default());
    assert!(start(temp.path(), 1, &store, FAST).stop(SOON, true));
    let clicks = dead(temp.path(), 1..4, 20, 0);
    copy_folder(temp.path(), copy.path());
    let shipper = start(temp.path(), 2, &store, Pace { keep_positions: Duration::ZERO, ..FAST });
    wait_until("forgetting", || {
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
    wait_until("forgetting", || store.state().positions.is_empty());
    assert!(shipper.stop(SOON, true));
    assert!(start(temp.path(), 5, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks + 2);
}

#[test]
fn of_two_processes_on_copies_of_a_folder_the_first_stops_and_deletes_nothing() {
    let (temp, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Arc::new(FakeStore::default());
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
    wait_until("forgetting", || {
        store.counted().len() == clicks as usize && store.state().positions.is_empty()
    });
    let counts = first.counts();
    wait_until("fencing", || counts.fenced.load(Ordering::Relaxed));
    wait_until("the end", || !counts.alive.load(Ordering::Relaxed));
    assert_eq!(counts.in_memory.load(Ordering::Relaxed), 0);
    assert_eq!(counts.in_memory_bytes.load(Ordering::Relaxed), 0);
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
    let store = Arc::new(FakeStore::default());
    assert!(!temp.path().join("journal.id").exists());
    assert!(start(temp.path(), 1, &store, FAST).stop(SOON, true));
    assert_counted_once(&store, clicks);
    let journal = journal_of(temp.path());
    assert!(store.state().positions.keys().all(|(of, _)| *of == journal));
}
