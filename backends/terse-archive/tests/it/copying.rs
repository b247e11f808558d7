//! How hours of clicks become files, whatever is repeated or interrupted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_archive::ArchiveQuery;
use terse_core::Timestamp;
use terse_core::clicks::{Click, Period, Retention};
use terse_core::job::Job as _;
use terse_core::registry::JobProgress as _;
use terse_embedded::{ClickOptions, EmbeddedClicks};
use terse_testkit::{S3Server, key, timestamp};

use crate::support::{DAY, HOUR, Site, at, click, folder, s3, s3_of, sorted};

/// Clicks of three hours of two days, and of an hour that has not ended.
fn clicks() -> Vec<Click> {
    let times = [0, 1, 1, HOUR - 1, 5 * HOUR, DAY + 3 * HOUR, 2 * DAY + 1000];
    let codes = ["zebra", "abc", "abc", "zebra", "mid", "abc", "abc"];
    codes.iter().zip(times).map(|(code, ms)| click(code, code.len() as u64, ms)).collect()
}

const NAMES: [&str; 3] = [
    "clicks/day=2026-01-01/hour=00/clicks-20260101T000000Z-3600s.parquet",
    "clicks/day=2026-01-01/hour=05/clicks-20260101T050000Z-3600s.parquet",
    "clicks/day=2026-01-02/hour=03/clicks-20260102T030000Z-3600s.parquet",
];

async fn check_copying(site: Site) {
    site.add(clicks()).await;
    site.run().await;
    assert_eq!(site.names().await, NAMES);
    let copied = sorted(site.all().await);
    assert_eq!(copied, sorted(clicks()[..6].to_vec()), "every click as it was, once");
    let files = site.counts.files.load(Ordering::Relaxed);
    site.run().await;
    assert_eq!(site.counts.files.load(Ordering::Relaxed), files, "nothing is written again");
    // The hour ends.
    site.clock.advance(Duration::from_hours(2));
    site.run().await;
    assert_eq!(sorted(site.all().await), sorted(clicks()));
    let of_link = ArchiveQuery { link: Some(key("abc")), ..ArchiveQuery::default() };
    assert_eq!(site.query(&of_link).await.len(), 4);
    let period = Period { from: at(1), to: at(HOUR - 1) };
    let both = ArchiveQuery { period, ..of_link };
    assert_eq!(site.query(&both).await.len(), 2);
    let none = ArchiveQuery { link: Some(key("none")), ..ArchiveQuery::default() };
    assert_eq!(site.query(&none).await, []);
    for file in site.archive().files(&ArchiveQuery::default()).await.unwrap() {
        let (found, whole) =
            (site.archive().count(&file).await.unwrap(), site.archive().verify(&file).await);
        assert_eq!(found, whole.unwrap());
    }
}

#[tokio::test]
async fn hours_that_end_while_the_storage_is_away_become_files_once_it_is_back() {
    let server = S3Server::start();
    let site = Site::new(s3_of(&server), 30 * 60_000 + HOUR);
    site.add(clicks()).await;
    site.run().await;
    assert_eq!(site.names().await, NAMES[..1]);
    server.kill();
    site.clock.advance(Duration::from_hours(47));
    for _ in 0..2 {
        site.try_run().await.unwrap_err();
    }
    // Meanwhile a node brings a click of an hour that is copied already.
    site.add(vec![click("late", 4, 2)]).await;
    server.run();
    site.run().await;
    site.run().await;
    assert_eq!(site.names().await, NAMES);
    let mut all = clicks()[..6].to_vec();
    all.push(click("late", 4, 2));
    assert_eq!(sorted(site.all().await), sorted(all), "every click once");
}

#[tokio::test]
async fn finished_hours_become_files_in_a_folder() {
    let temp = tempfile::tempdir().unwrap();
    check_copying(Site::new(folder(&temp), 2 * DAY + 30 * 60_000)).await;
}

#[tokio::test]
async fn finished_hours_become_files_in_a_bucket() {
    check_copying(Site::new(s3(), 2 * DAY + 30 * 60_000)).await;
}

#[tokio::test]
async fn finished_hours_of_the_embedded_store_become_files() {
    let (temp, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut site = Site::new(folder(&temp), 2 * DAY + 30 * 60_000);
    let path = data.path().join("clicks.db");
    site.clicks = Arc::new(EmbeddedClicks::open(ClickOptions::new(path)).unwrap());
    check_copying(site).await;
}

#[tokio::test]
async fn the_content_of_a_file_does_not_depend_on_the_order_of_clicks() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, other) = (Site::new(folder(&one), DAY), Site::new(folder(&other), DAY));
    let clicks: Vec<Click> =
        (0..500).map(|n| click(["a-1", "b-2", "c-3"][n % 3], n as u64, n as i64 % 7)).collect();
    one.add(clicks.clone()).await;
    for click in clicks.into_iter().rev() {
        other.add(vec![click]).await;
    }
    one.run().await;
    other.run().await;
    assert_eq!(one.contents().await, other.contents().await);
}

#[tokio::test]
async fn a_run_whose_progress_was_lost_writes_the_same_files() {
    let temp = tempfile::tempdir().unwrap();
    let site = Site::new(folder(&temp), 3 * DAY);
    site.add(clicks()).await;
    site.run().await;
    let (first, written) = (site.contents().await, site.counts.files.load(Ordering::Relaxed));
    // As after a crash between the write of a file and that of the progress.
    let fresh = Site { registry: terse_testkit::MemoryRegistry::new(), ..site };
    fresh.run().await;
    assert_eq!(fresh.contents().await, first);
    assert_eq!(fresh.counts.files.load(Ordering::Relaxed), written, "no file was written again");
}

#[tokio::test]
async fn a_node_that_lost_its_lease_writes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let site = Site::new(folder(&temp), 3 * DAY);
    site.add(clicks()).await;
    let before = site.lease("node-1").await;
    let _taken = site.lease("node-2").await;
    let error = site.job().run(&before).await.unwrap_err();
    assert!(error.to_string().contains("another node holds the lease"), "{error}");
    assert_eq!(site.names().await, Vec::<String>::new());
    assert_eq!(site.registry.job_progress("click archive").await.unwrap(), None);
    assert_eq!(site.counts.failed.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn clicks_that_come_late_are_added_to_their_file() {
    let temp = tempfile::tempdir().unwrap();
    let site = Site::new(folder(&temp), 3 * DAY);
    site.add(clicks()).await;
    site.run().await;
    let late = vec![click("late", 1, 7), click("late", 1, 7), click("new", 2, 9 * HOUR)];
    site.add(late.clone()).await;
    site.run().await;
    assert_eq!(sorted(site.all().await), sorted([clicks(), late].concat()));
    assert_eq!(site.names().await.len(), 5, "no second file of an hour");
    assert_eq!(site.counts.late.load(Ordering::Relaxed), 2);
    site.run().await;
    assert_eq!(site.counts.late.load(Ordering::Relaxed), 2, "once is enough");
}

#[tokio::test]
async fn a_file_keeps_what_the_store_has_deleted() {
    let temp = tempfile::tempdir().unwrap();
    let site = Site::new(folder(&temp), 3 * DAY);
    site.add(clicks()).await;
    site.run().await;
    let never = Timestamp::MIN;
    let retention = Retention {
        raw_before: timestamp(HOUR),
        max_raw: None,
        days_before: never,
        hours_before: never,
        tombstones_before: never,
        limit: 1000,
    };
    site.clicks.prune(retention).await.unwrap();
    // A late click makes the job look at the hour again.
    site.add(vec![click("late", 1, 7)]).await;
    site.run().await;
    assert_eq!(sorted(site.all().await), sorted(clicks()));
}

#[tokio::test]
async fn days_are_deleted_when_their_time_is_over() {
    let temp = tempfile::tempdir().unwrap();
    let mut site = Site::new(folder(&temp), 3 * DAY);
    site.keep = Some(Duration::from_hours(10 * 24));
    site.add(clicks()).await;
    let other = bytes::Bytes::from_static(b"mine");
    site.storage.put("clicks/day=2026-01-01/notes.txt", other).await.unwrap();
    site.run().await;
    let mut job = site.job();
    // Runs every day, as a clock that jumps is not trusted.
    for _ in 0..8 {
        job.run(&site.lease("node-1").await).await.unwrap();
        site.clock.advance(Duration::from_hours(24));
    }
    assert_eq!(site.names().await.len(), 4, "ten days after the first click: it is kept");
    job.run(&site.lease("node-1").await).await.unwrap();
    assert_eq!(
        site.names().await,
        [
            NAMES[2].to_owned(),
            "clicks/day=2026-01-03/hour=00/clicks-20260103T000000Z-3600s.parquet".to_owned()
        ]
    );
    assert_eq!(site.counts.expired.load(Ordering::Relaxed), 2);
    let left = site.storage.list("clicks/day=2026-01-01").await.unwrap();
    assert_eq!(left.len(), 1, "a file that terse did not write stays");
}

#[tokio::test]
async fn the_archive_begins_with_what_the_store_still_has() {
    let temp = tempfile::tempdir().unwrap();
    let site = Site::new(folder(&temp), 40 * DAY);
    site.add(vec![click("old", 1, 5 * DAY), click("kept", 1, 20 * DAY)]).await;
    site.run().await;
    let codes: Vec<_> = site.all().await.iter().map(|click| click.at).collect();
    assert_eq!(codes, [timestamp(20 * DAY)]);
}
