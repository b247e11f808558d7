//! Clicks in memory: reports, bounds and when they are stored.

use super::*;

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
    let store = Arc::new(FakeStore::default());
    let shipper = start(temp.path(), 1, &store, SLOW);
    let mut written = Written::new(10, 1, 1000, 64 << 10);
    (0..20).for_each(|n| written.add(n));
    written.finish();
    written.save(temp.path());
    let pending = shipper.pending();
    let (link, owner) = clicked_link();
    wait_until("reading", || in_memory(&pending, &ClickSubject::Everything) == 20);
    assert_eq!(in_memory(&pending, &ClickSubject::Link(link.clone())), 20);
    assert_eq!(in_memory(&pending, &ClickSubject::Owner(owner)), 20);
    assert_eq!(in_memory(&pending, &ClickSubject::Orphans), 0);
    let other = LinkId { created_at: Timestamp::from_ms(77), ..link.clone() };
    let counts = &pending.counts(&[other, link.clone(), link])[0].counts;
    assert_eq!(counts.iter().map(|count| count.all()).collect::<Vec<_>>(), [0, 20, 20]);
    assert!(store.counted().is_empty());
    assert_eq!(files(temp.path()), 1, "its clicks are not stored");
    wait_until("noting", || shipper.counts().in_memory.load(Ordering::Relaxed) == 20);
    wait_until("noting the lag", || shipper.counts().lag_bytes.load(Ordering::Relaxed) > 0);
    assert_eq!(pending.journal(), Some(journal_of(temp.path())));
    let start = pending.sums(&ClickSubject::Everything)[0].start;
    assert_eq!(start, BatchStart { segment: 10, from: 0 });
    // A full batch does not wait.
    let mut more = Written::new(11, 1, 1001, 1 << 20);
    (20..1010).for_each(|n| more.add(n));
    more.save(temp.path());
    wait_until("storing", || store.counted().len() == 1000);
    wait_until("the rest", || in_memory(&pending, &ClickSubject::Everything) == 10);
    wait_until("deleting", || files(temp.path()) == 1);
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, 1010);
    assert_eq!(in_memory(&pending, &ClickSubject::Everything), 0);
}

#[test]
fn clicks_that_are_old_or_asked_for_are_stored() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(FakeStore::default());
    let soon = Pace { flush: Duration::from_millis(30), ..SLOW };
    let shipper = start(temp.path(), 1, &store, soon);
    let mut written = Written::new(10, 1, 1000, 64 << 10);
    (0..20).for_each(|n| written.add(n));
    written.save(temp.path());
    wait_until("storing what is old", || store.counted().len() == 20);
    assert!(shipper.stop(SOON, false) || store.counted().len() == 20);
    let shipper = start(temp.path(), 1, &store, SLOW);
    let pending = shipper.pending();
    (20..30).for_each(|n| written.add(n));
    written.save(temp.path());
    wait_until("reading", || in_memory(&pending, &ClickSubject::Everything) == 10);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(pending.flush());
    assert_eq!(store.counted().len(), 30);
    // Nothing is in memory: this does not wait.
    wait_until("arriving", || in_memory(&pending, &ClickSubject::Everything) == 0);
    runtime.block_on(pending.flush());
    drop(shipper);
}

#[test]
fn a_small_journal_or_little_memory_does_not_wait_for_the_flush() {
    for (limit_bytes, batch_bytes) in [(256 << 10, usize::MAX), (u64::MAX, 20_000)] {
        let temp = tempfile::tempdir().unwrap();
        let store = Arc::new(FakeStore::default());
        let pace = Pace { batch: 100_000, batch_bytes, ..SLOW };
        let shipper = start_within(temp.path(), 1, &store, pace, limit_bytes);
        let mut written = Written::new(10, 1, 1000, 1 << 20);
        (0..3000).for_each(|n| written.add(n));
        written.save(temp.path());
        wait_until("storing", || store.counted().len() > 100);
        assert!(shipper.stop(SOON, true));
        assert_counted_once(&store, 3000);
    }
}

#[test]
fn while_the_store_is_away_clicks_are_read_into_a_bounded_memory() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(FakeStore::default());
    store.state().always = Some(Fault::Hangs);
    let clicks = dead(temp.path(), 1..11, 50, 0);
    let pace = Pace { batch: 100, ..SLOW };
    let shipper = start(temp.path(), 1, &store, pace);
    let pending = shipper.pending();
    // One batch is on its way, the other one grows, and the rest stays in the journal.
    wait_until("reading", || in_memory(&pending, &ClickSubject::Everything) == 200);
    let calls = store.state().calls;
    wait_until("trying again", || store.state().calls > calls + 1);
    assert_eq!(in_memory(&pending, &ClickSubject::Everything), 200);
    assert_eq!(pending.sums(&ClickSubject::Everything).len(), 2);
    assert_eq!(files(temp.path()), 10);
    store.state().always = None;
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, clicks);
}

#[test]
fn batches_in_memory_stay_within_their_bytes_while_the_store_is_away() {
    const BYTES: usize = 100_000;
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(FakeStore::default());
    store.state().always = Some(Fault::Hangs);
    // Each click has a link of its own, which takes more memory than another click on one link.
    let mut written = Written::new(10, 99, 1000, 1 << 20);
    for n in 0..3000 {
        let code = format!("code{n}");
        let record = JournalRecord { code: code.as_bytes(), ..click(n) };
        assert!(written.try_add_record(&record));
    }
    written.save(temp.path());
    let pace = Pace { batch: 100_000, batch_bytes: BYTES, ..SLOW };
    let shipper = start(temp.path(), 1, &store, pace);
    let counts = shipper.counts();
    let bytes = || counts.in_memory_bytes.load(Ordering::Relaxed) as usize;
    wait_until("filling both batches", || bytes() >= 2 * BYTES);
    let calls = store.state().calls;
    wait_until("trying again", || store.state().calls > calls + 1);
    // The last record of each may go past the bound.
    assert!(bytes() < 2 * (BYTES + 4096), "{}", bytes());
    store.state().always = None;
    assert!(shipper.stop(SOON, true));
    assert_counted_once(&store, 3000);
    assert_eq!(bytes(), 0);
}

#[test]
fn what_was_erased_is_not_in_memory_any_more() {
    let temp = tempfile::tempdir().unwrap();
    let store = Arc::new(FakeStore::default());
    let shipper = start(temp.path(), 1, &store, SLOW);
    let pending = shipper.pending();
    let mut written = Written::new(10, 1, 1000, 64 << 10);
    (0..20).for_each(|n| written.add(n));
    written.save(temp.path());
    let (link, owner) = clicked_link();
    let subject = ClickSubject::Link(link.clone());
    let first_ms = click(0).at_ms;
    let at = Timestamp::from_ms;
    wait_until("reading", || in_memory(&pending, &subject) == 20);
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
    assert!(written.try_add_record(&JournalRecord { at_ms: first_ms + 60_000, ..click(20) }));
    written.save(temp.path());
    wait_until("reading more", || in_memory(&pending, &ClickSubject::Everything) == 1);
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
    let store = Arc::new(FakeStore::default());
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
    let store = Arc::new(FakeStore::default());
    let clicks = dead(temp.path(), 1..4, 50, 0);
    for _ in 0..3 {
        let shipper = start(temp.path(), 1, &store, SLOW);
        let pending = shipper.pending();
        wait_until("reading", || in_memory(&pending, &ClickSubject::Everything) == 150);
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
fn clicks_are_made_known_once_they_are_counted() {
    let temp = tempfile::tempdir().unwrap();
    dead(temp.path(), 1..3, 20, 0);
    let store = Arc::new(FakeStore::default());
    let live = Arc::new(LiveFeed::default());
    let parts = ShipperParts {
        folder: temp.path().into(),
        run: 1,
        store: Arc::clone(&store) as Arc<dyn ClickIngest>,
        live: Arc::clone(&live),
        places: None,
        keep: AddressPrecision::Network,
        limit_bytes: u64::MAX,
        batch_bytes: usize::MAX,
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
