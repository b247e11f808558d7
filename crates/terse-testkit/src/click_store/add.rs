//! Clicks are counted exactly once.

use std::sync::Arc;

use terse_core::clicks::{Added, Batch, ClickSubject, JournalSpan, Position, RawQuery};

use super::{
    ALWAYS, ClickStoreHandle, JOURNAL, OpenJournal, click, humans, in_buckets, link, of_link,
    positions, report,
};

fn batch(journal: &OpenJournal, clicks: i64, from: u64, to: u64) -> Arc<Batch> {
    spanning(vec![journal.span(1, from, to)], clicks)
}

fn spanning(spans: Vec<JournalSpan>, clicks: i64) -> Arc<Batch> {
    Arc::new(Batch::of(spans, (0..clicks).map(|n| click(&link("abc"), n))))
}

async fn count(store: &ClickStoreHandle) -> u64 {
    let report = report(store, &ClickSubject::Everything, ALWAYS).await;
    assert_eq!(in_buckets(&report), report.tally.clicks);
    assert_eq!(of_link(store, &link("abc"), ALWAYS).await.tally.clicks, report.tally.clicks);
    report.tally.clicks.all()
}

fn all_of(code: &str) -> RawQuery {
    RawQuery { link: link(code), from: None, to: None, after: None, limit: 1000 }
}

fn gap(segments: &[(u64, u64)]) -> Added {
    let position = |&(segment, to): &(u64, u64)| Position { journal: JOURNAL, segment, to };
    Added::Gap(segments.iter().map(position).collect())
}

pub async fn a_counted_batch_is_in_every_report(store: ClickStoreHandle) {
    let journal = OpenJournal::open(&store, JOURNAL).await;
    let batch = batch(&journal, 3, 0, 100);
    assert_eq!(store.add(&batch).await.unwrap(), Added::Done);
    assert_eq!(store.counts(&[link("abc")]).await.unwrap(), [humans(3)]);
    assert_eq!(count(&store).await, 3);
    let clicks: Vec<_> = batch.clicks.iter().collect();
    assert_eq!(store.clicks(&all_of("abc")).await.unwrap().clicks, clicks);
    assert_eq!(positions(&store, JOURNAL).await, [(1, 100)]);
}

pub async fn a_batch_is_counted_once_however_often_it_is_tried(store: ClickStoreHandle) {
    let journal = OpenJournal::open(&store, JOURNAL).await;
    for (from, to) in [(0, 100), (100, 250)] {
        let batch = batch(&journal, 3, from, to);
        assert_eq!(store.add(&batch).await.unwrap(), Added::Done);
        for _ in 0..3 {
            assert_eq!(store.add(&batch).await.unwrap(), Added::Already);
        }
    }
    let earlier = batch(&journal, 3, 0, 100);
    assert_eq!(store.add(&earlier).await.unwrap(), Added::Already);
    // Positions are missing before the batch, or a part of it was counted.
    for (from, to) in [(300, 400), (50, 400), (249, 400), (251, 400)] {
        let batch = batch(&journal, 3, from, to);
        assert_eq!(store.add(&batch).await.unwrap(), gap(&[(1, 250)]), "{from}");
    }
    assert_eq!(count(&store).await, 6);
    assert_eq!(store.clicks(&all_of("abc")).await.unwrap().clicks.len(), 6);
    assert_eq!(positions(&store, JOURNAL).await, [(1, 250)]);
}

pub async fn a_batch_of_which_one_position_has_moved_is_refused_whole(store: ClickStoreHandle) {
    let journal = OpenJournal::open(&store, JOURNAL).await;
    store.add(&batch(&journal, 1, 0, 100)).await.unwrap();
    let first = journal.span(u64::MAX, 0, 30);
    let mixed = |second, third| spanning(vec![first, second, third], 5);
    let ahead = mixed(journal.span(1, 100, 200), journal.span(3, 10, 20));
    assert_eq!(store.add(&ahead).await.unwrap(), gap(&[(u64::MAX, 0), (1, 100), (3, 0)]));
    // One span is counted and the others are not.
    let partly = mixed(journal.span(1, 0, 100), journal.span(3, 0, 20));
    assert_eq!(store.add(&partly).await.unwrap(), gap(&[(u64::MAX, 0), (1, 100), (3, 0)]));
    assert_eq!(count(&store).await, 1);
    let next = mixed(journal.span(1, 100, 200), journal.span(3, 0, 20));
    assert_eq!(store.add(&next).await.unwrap(), Added::Done);
    assert_eq!(count(&store).await, 6);
    assert_eq!(positions(&store, JOURNAL).await, [(1, 200), (3, 20), (u64::MAX, 30)]);
}

pub async fn of_racing_equal_batches_one_is_counted(store: ClickStoreHandle) {
    let journal = OpenJournal::open(&store, JOURNAL).await;
    for round in 0..5 {
        let racing: Vec<_> = (0..20)
            .map(|_| {
                let batch = batch(&journal, 7, round * 10, round * 10 + 10);
                let store = Arc::clone(&store);
                tokio::spawn(async move { store.add(&batch).await.unwrap() })
            })
            .collect();
        let mut done = 0;
        for one in racing {
            done += u32::from(one.await.unwrap() == Added::Done);
        }
        assert_eq!(done, 1);
        assert_eq!(count(&store).await, 7 * (round + 1));
    }
}

pub async fn positions_are_kept_until_they_are_forgotten(store: ClickStoreHandle) {
    let journal = OpenJournal::open(&store, JOURNAL).await;
    let segment = |n: u64| n << 60 | n;
    let spans = (1..=5).map(|n| journal.span(segment(n), 0, n * 1000)).collect();
    store.add(&spanning(spans, 0)).await.unwrap();
    for segments in [&[segment(1), segment(3), 99][..], &[]] {
        store.forget(JOURNAL, journal.epoch, 1, segments).await.unwrap();
    }
    assert_eq!(positions(&store, JOURNAL).await, [2, 4, 5].map(|n| (segment(n), n * 1000)));
}

pub async fn a_batch_without_clicks_moves_positions(store: ClickStoreHandle) {
    let journal = OpenJournal::open(&store, JOURNAL).await;
    assert_eq!(store.add(&batch(&journal, 0, 0, 64)).await.unwrap(), Added::Done);
    assert_eq!(store.add(&batch(&journal, 0, 0, 64)).await.unwrap(), Added::Already);
    assert_eq!(positions(&store, JOURNAL).await, [(1, 64)]);
}

pub async fn a_journal_that_was_not_opened_is_fenced(store: ClickStoreHandle) {
    for epoch in [0, 1] {
        let journal = OpenJournal { journal: JOURNAL, epoch };
        assert_eq!(store.add(&batch(&journal, 1, 0, 64)).await.unwrap(), Added::Fenced);
    }
    assert_eq!(count(&store).await, 0);
}
