//! Exactly once.

use std::sync::Arc;

use terse_core::clicks::{Batch, ClickSubject, RawQuery, Recorded};

use super::{ALWAYS, Store, click, humans, in_buckets, link, moved, of_link, report};

fn batch(clicks: i64, from: u64, to: u64) -> Batch {
    Batch {
        clicks: (0..clicks).map(|n| click(&link("abc"), n)).collect(),
        moves: vec![moved(1, from, to)],
    }
}

async fn count(store: &Store) -> u64 {
    let report = report(store, &ClickSubject::Everything, ALWAYS).await;
    assert_eq!(in_buckets(&report), report.tally.clicks);
    assert_eq!(of_link(store, &link("abc"), ALWAYS).await.tally.clicks, report.tally.clicks);
    report.tally.clicks.all()
}

fn all_of(code: &str) -> RawQuery {
    RawQuery { link: link(code), from: None, to: None, after: None, limit: 1000 }
}

pub async fn a_recorded_batch_is_seen_by_all(store: Store) {
    assert_eq!(store.record(&batch(3, 0, 100)).await.unwrap(), Recorded::Done);
    assert_eq!(store.counts(&[link("abc")]).await.unwrap(), [humans(3)]);
    assert_eq!(count(&store).await, 3);
    assert_eq!(store.clicks(&all_of("abc")).await.unwrap().clicks, batch(3, 0, 0).clicks);
    assert_eq!(store.positions().await.unwrap(), [(1, 100)]);
}

pub async fn a_batch_is_counted_once_however_often_it_is_tried(store: Store) {
    for (from, to) in [(0, 100), (100, 250)] {
        assert_eq!(store.record(&batch(3, from, to)).await.unwrap(), Recorded::Done);
        for _ in 0..3 {
            assert_eq!(store.record(&batch(3, from, to)).await.unwrap(), Recorded::OutOfStep);
        }
    }
    // A gap, and a part of what was counted.
    for (from, to) in [(300, 400), (50, 400), (249, 400), (251, 400)] {
        assert_eq!(store.record(&batch(3, from, to)).await.unwrap(), Recorded::OutOfStep, "{from}");
    }
    assert_eq!(count(&store).await, 6);
    assert_eq!(store.clicks(&all_of("abc")).await.unwrap().clicks.len(), 6);
    assert_eq!(store.positions().await.unwrap(), [(1, 250)]);
}

pub async fn a_batch_of_which_one_position_has_moved_is_refused_whole(store: Store) {
    store.record(&batch(1, 0, 100)).await.unwrap();
    let mut mixed = batch(5, 100, 200);
    mixed.moves.insert(0, moved(u64::MAX, 0, 30));
    mixed.moves.push(moved(3, 10, 20));
    assert_eq!(store.record(&mixed).await.unwrap(), Recorded::OutOfStep);
    assert_eq!(count(&store).await, 1);
    assert_eq!(store.positions().await.unwrap(), [(1, 100)]);
    mixed.moves[2].from = 0;
    assert_eq!(store.record(&mixed).await.unwrap(), Recorded::Done);
    assert_eq!(count(&store).await, 6);
    let mut positions = store.positions().await.unwrap();
    positions.sort_unstable();
    assert_eq!(positions, [(1, 200), (3, 20), (u64::MAX, 30)]);
}

pub async fn of_racing_equal_batches_one_is_counted(store: Store) {
    for round in 0..5 {
        let racing: Vec<_> = (0..20)
            .map(|_| {
                let (store, batch) = (Arc::clone(&store), batch(7, round * 10, round * 10 + 10));
                tokio::spawn(async move { store.record(&batch).await.unwrap() })
            })
            .collect();
        let mut done = 0;
        for one in racing {
            done += u32::from(one.await.unwrap() == Recorded::Done);
        }
        assert_eq!(done, 1);
        assert_eq!(count(&store).await, 7 * (round + 1));
    }
}

pub async fn positions_are_kept_until_they_are_forgotten(store: Store) {
    let moves = (1..=5).map(|segment| moved(segment << 60 | segment, 0, segment * 1000)).collect();
    store.record(&Batch { clicks: vec![], moves }).await.unwrap();
    store.forget_segments(&[1 << 60 | 1, 3 << 60 | 3, 99]).await.unwrap();
    store.forget_segments(&[]).await.unwrap();
    let mut positions = store.positions().await.unwrap();
    positions.sort_unstable();
    assert_eq!(positions, [2, 4, 5].map(|segment| (segment << 60 | segment, segment * 1000)));
}

pub async fn a_batch_without_clicks_moves_positions(store: Store) {
    assert_eq!(store.record(&batch(0, 0, 64)).await.unwrap(), Recorded::Done);
    assert_eq!(store.record(&batch(0, 0, 64)).await.unwrap(), Recorded::OutOfStep);
    assert_eq!(store.record(&Batch::default()).await.unwrap(), Recorded::Done);
    assert_eq!(store.positions().await.unwrap(), [(1, 64)]);
}
