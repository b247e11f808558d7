//! Sums of many links, which a click file keeps in runs.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use rusqlite::Connection;
use terse_core::OwnerId;
use terse_core::clicks::{
    BotFilter, Click, ClickReports as _, ClickRetention as _, ClickSubject, ClickTarget, Count,
    Dimension, Period, Retention, TopQuery,
};
use terse_embedded::{ClickOptions, EmbeddedClicks, RunLimits, verify_clicks};
use terse_testkit::timestamp;

use crate::clicks_file::{ALWAYS, Folder, OWNER, click, everything, link, put, sql, up_to};

/// More links than are counted one by one, and on each day more busy links of others than the
/// ranking of all links reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_links_of_others_push_none_out_of_an_owners_ranking() {
    const DAY: i64 = 86_400_000;
    let folder = Folder::new();
    let store = folder.open();
    let of = |n: u64, owner: OwnerId, day: i64| {
        Click::bare(timestamp(day * DAY), ClickTarget::Link(link(n), owner))
    };
    let mut clicks: Vec<Click> = (0..2001).map(|n| of(n, OWNER, 0)).collect();
    clicks.extend((5000..6200).flat_map(|n| [of(n, OwnerId(4), 0), of(n, OwnerId(4), 0)]));
    clicks.extend([of(7, OWNER, 0), of(8, OWNER, 59), of(5000, OwnerId(4), 59)]);
    clicks.extend([of(9, OWNER, 60), of(9, OWNER, 60)]);
    put(&store, clicks).await;
    let top = async |from: i64, to: i64| {
        let period = Period { from: Some(timestamp(from)), to: Some(timestamp(to)) };
        let bots = BotFilter::Include;
        let query = TopQuery { owner: Some(OWNER), period, bots, after: None, limit: 4 };
        let found = store.top(&query).await.unwrap();
        let found = found.iter().map(|found| (found.link.key.code.to_string(), found.clicks.all()));
        found.collect::<Vec<_>>()
    };
    let want = |wanted: [(&str, u64); 4]| wanted.map(|(code, clicks)| (code.to_owned(), clicks));
    let all = want([("link-9", 3), ("link-7", 2), ("link-8", 2), ("link-0", 1)]);
    let first_days = want([("link-7", 2), ("link-8", 2), ("link-0", 1), ("link-1", 1)]);
    assert_eq!(top(0, 61 * DAY).await, all);
    // The sums of days replace those of hours, except for the last day.
    let days = Retention { days_before: timestamp(60 * DAY), ..up_to(0, 60 * DAY, 10_000) };
    while store.prune(days).await.unwrap().more {}
    assert_eq!(top(0, 61 * DAY).await, all);
    assert_eq!(top(0, 60 * DAY).await, first_days);
    store.close();
}

pub(crate) fn count(path: &Path, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    Connection::open(path).unwrap().query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_in_runs_stay_there_and_those_of_erased_links_do_not() {
    let folder = Folder::new();
    let store = folder.open_with_runs();
    let path = folder.db();
    for _ in 0..3 {
        put(&store, (0..30).map(click).collect()).await;
    }
    assert_eq!((count(&path, "hours"), count(&path, "runs")), (0, 3));
    assert!(verify_clicks(&path).unwrap().is_clean());
    store.erase_links(&[link(2).key], timestamp(0), timestamp(1 << 40)).await.unwrap();
    assert!(verify_clicks(&path).unwrap().is_clean());
    let counts = store.counts(&[link(1), link(2)]).await.unwrap();
    assert_eq!(counts, [Count { humans: 9, bots: 0 }, Count::default()]);
    // The day is not over: the sums stay in runs, without those of the erased link.
    while store.prune(up_to(-1, -1, 100)).await.unwrap().more {}
    let left = ["hours", "runs", "erased_subjects"];
    assert_eq!(left.map(|table| count(&path, table)), [0, 3, 0]);
    let report = verify_clicks(&path).unwrap();
    assert_eq!((report.is_clean(), report.links, report.clicks), (true, 9, 81), "{report:?}");
    for day_is_over in [false, true] {
        if day_is_over {
            while store.prune(up_to(-1, 86_400_000, 100)).await.unwrap().more {}
            let left = ["runs", "run_heads", "run_bodies", "day_ranks", "hours", "days"];
            assert_eq!(left.map(|table| count(&path, table)), [1, 1, 1, 1, 0, 0]);
        }
        for n in [1, 2] {
            let subject = ClickSubject::Link(link(n));
            let report = store.report(&subject, ALWAYS, timestamp(0)).await.unwrap();
            let expected = if n == 2 { (0, 0) } else { (9, 1) };
            assert_eq!((report.tally.clicks.humans, report.buckets.len()), expected);
        }
        assert_eq!(everything(&store).await.humans, 90);
    }
    store.close();
    assert!(verify_clicks(&path).unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_run_is_reported_and_in_nobodys_way() {
    // How many of two clicks are counted then, and of how many the details are known.
    for (damage, clicks, details) in [
        ("UPDATE run_bodies SET data = x'0102030405060708090a' WHERE id >> 24 = 1", 2, 1),
        ("UPDATE run_heads SET data = x'0102030405060708090a' WHERE id >> 24 = 1", 1, 1),
        ("DELETE FROM run_heads WHERE id >> 24 = 1", 1, 1),
        // The list of chunks is made again from the chunks.
        ("UPDATE runs SET chunks = x'ff' WHERE id = 1", 2, 2),
        (
            "UPDATE runs SET chunks = CAST(substr(chunks, 1, 2) || x'01' || substr(chunks, 4) \
                AS BLOB) WHERE id = 1",
            2,
            2,
        ),
    ] {
        let folder = Folder::new();
        let store = folder.open_with_runs();
        put(&store, vec![click(1)]).await;
        put(&store, vec![click(1)]).await;
        sql(&folder.db(), damage);
        let subject = ClickSubject::Link(link(1));
        assert!(store.report(&subject, ALWAYS, timestamp(0)).await.is_err(), "{damage}");
        assert_eq!(verify_clicks(&folder.db()).unwrap().problems.count, 1, "{damage}");
        put(&store, vec![click(10)]).await;
        while store.prune(up_to(-1, 86_400_000, 100)).await.unwrap().more {}
        let report = store.report(&subject, ALWAYS, timestamp(0)).await.unwrap();
        assert_eq!(report.tally.clicks.humans, clicks, "{damage}");
        let buckets = report.buckets.iter().map(|bucket| bucket.clicks.humans);
        assert_eq!(buckets.sum::<u64>(), clicks, "{damage}");
        let country = report.tally.values(Dimension::Country).unwrap().sum();
        assert_eq!(country.humans, details, "{damage}");
        store.close();
        assert!(verify_clicks(&folder.db()).unwrap().is_clean(), "{damage}");
        // What is left is the run of the finished day.
        let left = ["runs", "run_heads", "run_bodies"].map(|table| count(&folder.db(), table));
        assert_eq!(left, [1; 3], "{damage}");
    }
}

/// A run of finished days with a damaged chunk, and a damaged ranking of a day.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_finished_day_is_reported_and_stops_no_other_day() {
    for damage in [
        "UPDATE run_bodies SET data = x'0102030405060708090a' WHERE id >> 24 = 2",
        "UPDATE run_heads SET data = x'0102030405060708090a' WHERE id >> 24 = 2",
    ] {
        let folder = Folder::new();
        let runs = RunLimits { from: 0, runs: 3, step: 1 };
        let open = || EmbeddedClicks::open(ClickOptions { runs, ..ClickOptions::new(folder.db()) });
        let store = open().unwrap();
        let on_day = |day: i64| Click { at: timestamp(day * 86_400_000), ..click(1) };
        for day in 0..2 {
            put(&store, vec![on_day(day)]).await;
            while store.prune(up_to(-1, (day + 1) * 86_400_000, 100)).await.unwrap().more {}
        }
        // The first day's batch and its finished run are 1 and 2.
        sql(&folder.db(), &format!("{damage}; UPDATE day_ranks SET data = x'01'"));
        let subject = ClickSubject::Link(link(1));
        let report = store.report(&subject, ALWAYS, timestamp(0)).await.unwrap();
        let countries = report.tally.values(Dimension::Country).unwrap().sum();
        assert_eq!((report.tally.clicks.humans, countries.humans), (2, 1), "{damage}");
        assert!(verify_clicks(&folder.db()).unwrap().problems.count >= 1, "{damage}");
        // Other days go on, a merge leaves the damaged chunk out, and the number of clicks stays.
        for day in 2..5 {
            put(&store, vec![on_day(day)]).await;
            while store.prune(up_to(-1, (day + 1) * 86_400_000, 100)).await.unwrap().more {}
        }
        put(&store, vec![on_day(5)]).await;
        let report = store.report(&subject, ALWAYS, timestamp(0)).await.unwrap();
        assert_eq!(report.tally.clicks.humans, 6, "{damage}");
        let countries = report.tally.values(Dimension::Country).unwrap().sum();
        assert_eq!(countries.humans, 5, "{damage}");
    }
}
