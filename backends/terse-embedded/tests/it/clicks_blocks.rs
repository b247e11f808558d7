//! Single clicks, which a click file keeps in blocks.
#![allow(clippy::unwrap_used, reason = "a test")]

use rusqlite::Connection;
use terse_core::clicks::{
    Click, ClickIngest as _, ClickReports as _, ClickRetention as _, Interned, LinkId, RawQuery,
    Retention,
};
use terse_embedded::{EmbeddedClicks, verify_clicks};
use terse_testkit::timestamp;

use crate::clicks_file::{
    Folder, batch, click, everything, link, open_journal, put, size, sql, up_to,
};

pub(crate) async fn all_clicks(store: &EmbeddedClicks, of: &LinkId) -> Vec<Click> {
    let mut query = RawQuery { link: of.clone(), from: None, to: None, after: None, limit: 7 };
    let mut all = Vec::new();
    loop {
        let page = store.clicks(&query).await.unwrap();
        all.extend(page.clicks);
        query.after = page.next;
        if query.after.is_none() {
            return all;
        }
    }
}

pub(crate) fn raw(folder: &Folder) -> u64 {
    let report = verify_clicks(&folder.db()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    report.raw
}

pub(crate) fn blocks(folder: &Folder) -> i64 {
    let conn = Connection::open(folder.db()).unwrap();
    conn.query_row("SELECT count(*) FROM blocks", [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_blocks_are_merged_and_no_click_changes() {
    let folder = Folder::new();
    let store = folder.open();
    let (epoch, _) = open_journal(&store).await;
    for n in 0..100 {
        store.add(&batch(n, epoch)).await.unwrap();
    }
    let all: u64 = (0..100).map(size).sum();
    let mut before = Vec::new();
    for n in 0..10 {
        before.push(all_clicks(&store, &link(n)).await);
    }
    assert_eq!((blocks(&folder), raw(&folder)), (100, all));
    while store.prune(up_to(-1, -1, 100)).await.unwrap().more {}
    assert!(blocks(&folder) < 10, "{}", blocks(&folder));
    assert_eq!(raw(&folder), all);
    for n in 0..10 {
        assert_eq!(all_clicks(&store, &link(n)).await, before[n as usize]);
    }
    drop(store);
    let store = folder.open();
    let (epoch, next) = open_journal(&store).await;
    store.add(&batch(next, epoch)).await.unwrap();
    assert_eq!(raw(&folder), all + size(next));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn erased_clicks_leave_the_blocks_and_their_ids_go_to_no_other_link() {
    let folder = Folder::new();
    let store = folder.open();
    let secret = || Some(Interned::from("canary-referrer.example"));
    for n in 0..5 {
        put(&store, vec![click(n * 10 + 9), Click { referrer: secret(), ..click(n * 10 + 1) }])
            .await;
    }
    // The last subject of all is erased: its id would be the next one.
    store.erase_links(&[link(1).key, link(9).key], timestamp(0), timestamp(100_000)).await.unwrap();
    assert_eq!(all_clicks(&store, &link(1)).await, vec![]);
    drop(store);
    let store = folder.open();
    put(&store, vec![click(2), click(12)]).await;
    assert_eq!(all_clicks(&store, &link(2)).await.len(), 2);
    while store.prune(up_to(-1, -1, 100)).await.unwrap().more {}
    assert_eq!(raw(&folder), 2);
    let conn = Connection::open(folder.db()).unwrap();
    let left: i64 =
        conn.query_row("SELECT count(*) FROM erased_subjects", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
    put(&store, vec![click(3)]).await;
    assert_eq!((all_clicks(&store, &link(3)).await.len(), raw(&folder)), (1, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_block_is_reported_and_in_nobodys_way() {
    let folder = Folder::new();
    let store = folder.open();
    put(&store, vec![click(1)]).await;
    put(&store, vec![click(2)]).await;
    sql(&folder.db(), "UPDATE blocks SET data = x'01020304' WHERE id = 1");
    let query = |n| RawQuery { link: link(n), from: None, to: None, after: None, limit: 7 };
    assert!(store.clicks(&query(1)).await.is_err());
    assert_eq!(store.clicks(&query(2)).await.unwrap().clicks, [click(2)]);
    assert_eq!(verify_clicks(&folder.db()).unwrap().problems.count, 1);
    store.erase_links(&[link(2).key], timestamp(0), timestamp(0)).await.unwrap();
    while store.prune(up_to(-1, -1, 100)).await.unwrap().more {}
    assert_eq!(verify_clicks(&folder.db()).unwrap().problems.count, 1);
    // Its time is over as any other's.
    while store.prune(up_to(3_600_000, -1, 100)).await.unwrap().more {}
    assert_eq!(raw(&folder), 0);
    assert_eq!(everything(&store).await.humans, 2, "sums stay");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_too_many_single_clicks_the_oldest_blocks_go_whole() {
    let folder = Folder::new();
    let store = folder.open();
    for block in 0..6_u64 {
        let clicks =
            (0..500).map(|n| Click { at: timestamp((block * 1000 + n) as i64), ..click(n) });
        put(&store, clicks.collect()).await;
    }
    let conn = Connection::open(folder.db()).unwrap();
    let size: i64 = conn
        .query_row("SELECT sum(length(data) + length(subjects)) FROM blocks", [], |row| row.get(0))
        .unwrap();
    // A little less than half: three of six blocks are too many.
    let max_raw = Some(size.cast_unsigned() * 9 / 20);
    let retention = Retention { max_raw, ..up_to(-1000, -86_400_000, 1000) };
    let pruned = store.prune(retention).await.unwrap();
    assert_eq!(pruned.raw, 4 * 500);
    let mut times = Vec::new();
    for n in 0..10 {
        times.extend(all_clicks(&store, &link(n)).await.iter().map(|click| click.at));
    }
    assert_eq!(times.len(), 2 * 500);
    assert!(times.iter().all(|at| *at >= timestamp(4000)), "the latest stay");
    store.close();
    assert!(verify_clicks(&folder.db()).unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_with_one_late_click_is_as_old_as_its_latest_click() {
    let folder = Folder::new();
    let store = folder.open();
    let at = |ms, n| Click { at: timestamp(ms), ..click(n) };
    put(&store, vec![at(0, 1), at(5000, 1)]).await;
    put(&store, vec![at(1000, 2), at(1001, 2)]).await;
    let conn = Connection::open(folder.db()).unwrap();
    let size: i64 = conn
        .query_row("SELECT max(length(data) + length(subjects)) FROM blocks", [], |row| row.get(0))
        .unwrap();
    let retention = Retention { max_raw: Some(size as u64), ..up_to(-1000, -86_400_000, 1000) };
    assert_eq!(store.prune(retention).await.unwrap().raw, 2);
    assert_eq!(all_clicks(&store, &link(1)).await.len(), 2);
    assert_eq!(all_clicks(&store, &link(2)).await.len(), 0);
}
