//! Click files that earlier versions of terse wrote.
#![allow(clippy::unwrap_used, reason = "a test")]

use rusqlite::Connection;
use terse_core::clicks::{
    Added, BotFilter, BotKind, Click, ClickIngest as _, ClickReports as _, ClickRetention as _,
    ClickSubject, ClickTarget, Dimension, JournalId, LinkId, Period, Retention, TopQuery,
};
use terse_core::{OwnerId, Timestamp};
use terse_embedded::{inspect_clicks, verify_clicks};
use terse_testkit::{key, timestamp};

use crate::clicks_blocks::{all_clicks, raw};
use crate::clicks_file::{
    ALWAYS, Folder, batch, click, everything, holds, link, open_journal, put, size, sql, up_to,
};
use crate::clicks_runs::count;

#[tokio::test(flavor = "multi_thread")]
async fn a_salt_of_an_earlier_version_is_read_and_deleted_and_no_copy_has_it() {
    let folder = Folder::new();
    let store = folder.open();
    let wal = folder.db().with_extension("db-wal");
    // As an earlier version stored them.
    let salt = [0xa7; 16];
    Connection::open(folder.db())
        .unwrap()
        .execute("INSERT INTO salts VALUES (100, ?1)", [salt])
        .unwrap();
    assert!(holds(&folder.db(), &salt) || holds(&wal, &salt), "it is there: the search works");
    assert_eq!(store.old_salts().await.unwrap(), [(100, salt)]);
    let copy = folder.db().with_extension("copy");
    store.backup(&copy).unwrap();
    assert!(!holds(&copy, &salt));
    verify_clicks(&copy).unwrap();
    store.delete_old_salts().await.unwrap();
    for file in [folder.db(), wal] {
        assert!(!holds(&file, &salt), "{}", file.display());
    }
    assert_eq!(store.old_salts().await.unwrap(), []);
}

/// As the first version wrote it: positions without journals, and no tombstones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_from_before_journals_had_ids_counts_nothing_twice() {
    let folder = Folder::new();
    {
        let store = folder.open();
        let (epoch, _) = open_journal(&store).await;
        for n in 0..5 {
            store.add(&batch(n, epoch)).await.unwrap();
        }
    }
    sql(
        &folder.db(),
        "CREATE TABLE old (segment INTEGER PRIMARY KEY, place INTEGER NOT NULL) STRICT; \
         INSERT INTO old SELECT segment, place FROM positions; DROP TABLE positions; \
         ALTER TABLE old RENAME TO positions; DROP TABLE journals; DROP TABLE erased_links; \
         DROP TABLE erased_owners; ALTER TABLE clicks DROP COLUMN took_nanos; \
         DROP TABLE blocks; DROP TABLE erased_subjects; \
         DROP TABLE delta_blocks; DROP TABLE delta_chunks; \
         CREATE UNIQUE INDEX subjects_links ON subjects (domain, code, born) WHERE kind = 0; \
         CREATE INDEX subjects_links_of ON subjects (owner) WHERE kind = 0; \
         DROP TABLE key_runs; DROP TABLE key_chunks; \
         DROP TABLE runs; DROP TABLE run_heads; DROP TABLE run_bodies; DROP TABLE day_ranks; \
         DROP INDEX subjects_ranked; ALTER TABLE subjects DROP COLUMN rank; \
         DROP INDEX days_ranked; ALTER TABLE days DROP COLUMN rank; \
         DELETE FROM meta WHERE name IN ('folded_to', 'totals_to', 'hours_from', 'names_seed'); \
         PRAGMA user_version = 1",
    );
    inspect_clicks(&folder.db()).unwrap();
    let store = folder.open();
    let (epoch, next) = open_journal(&store).await;
    assert_eq!((epoch, next), (1, 5), "the first journal that is opened has the positions");
    assert_eq!(store.add(&batch(4, epoch)).await.unwrap(), Added::Already);
    assert_eq!(store.add(&batch(5, epoch)).await.unwrap(), Added::Done);
    assert_eq!(store.open(JournalId([4; 16])).await.unwrap().positions, []);
    assert_eq!(everything(&store).await.humans, (0..6).map(size).sum::<u64>());
    store.close();
    assert!(verify_clicks(&folder.db()).unwrap().is_clean());
}

/// Late clicks of a day whose hours are no longer kept stood in `hours`, beside the sum of the day.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn days_of_an_earlier_version_with_late_hours_stay_in_the_series() {
    let folder = Folder::new();
    {
        let store = folder.open();
        put(&store, vec![click(10), click(86_410)]).await;
        let after = timestamp(2 * 86_400_000);
        let retention = Retention {
            raw_before: timestamp(0),
            max_raw: None,
            days_before: after,
            hours_before: after,
            tombstones_before: timestamp(0),
            limit: 1000,
        };
        while store.prune(retention).await.unwrap().more {}
        store.close();
    }
    // As the version before: no progress is noted, and a late click of the first day has its hour.
    let first = timestamp(0).as_ms().div_euclid(86_400_000) + 719_528;
    sql(
        &folder.db(),
        &format!(
            "INSERT INTO hours (id, people, machines, sum) SELECT ({first} << 41) | (id << 5) | 1, \
             0, 0, x'' FROM subjects WHERE kind = 0 LIMIT 1; \
             DELETE FROM meta WHERE name IN ('folded_to', 'totals_to', 'hours_from', 'names_seed'); \
             DROP INDEX subjects_ranked; ALTER TABLE subjects DROP COLUMN rank; \
             DROP INDEX days_ranked; ALTER TABLE days DROP COLUMN rank; \
             DROP TABLE delta_blocks; DROP TABLE delta_chunks; DROP INDEX blocks_by_end; \
             CREATE UNIQUE INDEX subjects_links ON subjects (domain, code, born) WHERE kind = 0; \
             CREATE INDEX subjects_links_of ON subjects (owner) WHERE kind = 0; \
             DROP TABLE key_runs; DROP TABLE key_chunks; \
             DROP TABLE runs; DROP TABLE run_heads; DROP TABLE run_bodies; DROP TABLE day_ranks; \
             PRAGMA user_version = 4"
        ),
    );
    let store = folder.open();
    let found = store.report(&ClickSubject::Everything, Period::default(), timestamp(0)).await;
    let buckets: u64 = found.unwrap().buckets.iter().map(|bucket| bucket.clicks.all()).sum();
    assert_eq!(buckets, 2, "both days are in the series");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_clicks_that_an_earlier_version_stored_are_kept() {
    let folder = Folder::new();
    let store = folder.open();
    put(&store, vec![click(10), click(30)]).await;
    // As the version before wrote them: one that is earlier, one in between, one repeat.
    let at = timestamp(0).as_ms();
    let hour = at.div_euclid(3_600_000);
    for (ms, number, machine) in
        [(5, 900, "NULL"), (20_000, 901, "'crawler'"), (25_000, 902, "'repeat'")]
    {
        sql(
            &folder.db(),
            &format!(
                "INSERT INTO clicks (hour, subject, at, number, took, visitor, machine, referrer) \
                 SELECT {hour}, id, {}, {number}, 77, 5, {machine}, 'old.example' FROM subjects \
                 WHERE kind = 0",
                at + ms
            ),
        );
    }
    let found = all_clicks(&store, &link(0)).await;
    let times: Vec<i64> = found.iter().map(|click| click.at.as_ms() - at).collect();
    assert_eq!(times, [5, 10_000, 20_000, 25_000, 30_000]);
    assert_eq!((found[0].took_nanos, found[0].referrer.as_deref()), (77_000, Some("old.example")));
    assert_eq!((found[2].bot, found[3].bot), (Some(BotKind::Crawler), None));
    assert!(found[3].repeat && found[1] == click(10));
    assert_eq!(raw(&folder), 5);
    // Their time is over together.
    while store.prune(up_to(3_600_000, -1, 100)).await.unwrap().more {}
    assert_eq!((all_clicks(&store, &link(0)).await, raw(&folder)), (vec![], 0));
}

/// As the version before runs left it: all sums are in blocks, and their clicks in the totals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_of_an_earlier_version_are_counted_once() {
    let folder = Folder::new();
    sql(&folder.db(), include_str!("../clicks_with_blocks.sql"));
    assert!(count(&folder.db(), "delta_blocks") == 3);
    let store = folder.open();
    let link =
        |n: i64| LinkId { key: key(&format!("link-{n}")), created_at: Timestamp::from_ms(5) };
    let check = async |more: u64| {
        for period in [ALWAYS, Period { from: Some(Timestamp::from_ms(0)), to: None }] {
            let subject = ClickSubject::Link(link(3));
            let now = Timestamp::from_ms(1_780_000_000_000);
            let report = store.report(&subject, period, now).await.unwrap();
            let referrers = report.tally.values(Dimension::Referrer).unwrap();
            let buckets: u64 = report.buckets.iter().map(|bucket| bucket.clicks.all()).sum();
            let found = [report.tally.clicks.humans, referrers.sum().humans, buckets];
            assert_eq!(found, [15 + more; 3], "{period:?}");
            let named = referrers.named().find(|(value, _)| &***value == "3.example");
            assert_eq!(named.unwrap().1.humans, 3 + more, "{period:?}");
        }
        assert_eq!(store.counts(&[link(3)]).await.unwrap()[0].humans, 15 + more);
        assert_eq!(everything(&store).await.humans, 120 + more);
        let query = TopQuery {
            owner: None,
            period: ALWAYS,
            bots: BotFilter::Include,
            after: None,
            limit: 100,
        };
        let top = store.top(&query).await.unwrap();
        assert_eq!(top.iter().map(|link| link.clicks.all()).sum::<u64>(), 120 + more);
        assert!(verify_clicks(&folder.db()).unwrap().is_clean());
    };
    check(0).await;
    // Beside new runs.
    store.close();
    let store = folder.open_with_runs();
    put(
        &store,
        vec![Click {
            referrer: Some("3.example".into()),
            ..Click::bare(
                Timestamp::from_ms(1_780_000_000_000),
                ClickTarget::Link(link(3), OwnerId(2)),
            )
        }],
    )
    .await;
    let check = async |more: u64| {
        let subject = ClickSubject::Link(link(3));
        let report = store.report(&subject, ALWAYS, timestamp(0)).await.unwrap();
        let referrers = report.tally.values(Dimension::Referrer).unwrap();
        assert_eq!([report.tally.clicks.humans, referrers.sum().humans], [15 + more; 2]);
        assert_eq!(store.counts(&[link(3)]).await.unwrap()[0].humans, 15 + more);
        assert!(verify_clicks(&folder.db()).unwrap().is_clean());
    };
    check(1).await;
    while store.prune(up_to(-1, -1, 1000)).await.unwrap().more {}
    assert_eq!((count(&folder.db(), "delta_blocks"), count(&folder.db(), "runs")), (0, 1));
    check(1).await;
    let over = Timestamp::from_ms(1_780_000_000_000 + 2 * 86_400_000);
    let retention = Retention { days_before: over, hours_before: over, ..up_to(-1, -1, 1000) };
    while store.prune(retention).await.unwrap().more {}
    assert_eq!((count(&folder.db(), "runs"), count(&folder.db(), "day_ranks")), (1, 1));
    check(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_an_earlier_version_is_checked_before_it_is_upgraded() {
    let folder = Folder::new();
    let store = folder.open();
    put(&store, vec![click(10), click(30)]).await;
    drop(store);
    sql(
        &folder.db(),
        "DROP TABLE key_runs; DROP TABLE key_chunks; DELETE FROM meta WHERE name = 'names_seed'; \
         CREATE UNIQUE INDEX subjects_links ON subjects (domain, code, born) WHERE kind = 0; \
         CREATE INDEX subjects_links_of ON subjects (owner) WHERE kind = 0; \
         PRAGMA user_version = 9",
    );
    let report = verify_clicks(&folder.db()).unwrap();
    assert!(report.is_clean() && report.clicks == 2, "{report:?}");
    sql(&folder.db(), "DROP TABLE day_ranks; PRAGMA user_version = 8");
    assert!(verify_clicks(&folder.db()).unwrap().is_clean());
    drop(folder.open());
    assert!(verify_clicks(&folder.db()).unwrap().is_clean());
}
