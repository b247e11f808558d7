//! Faults of a click file: kills, copies, damage, a full disk, floods, newer schemas and foreign
//! files.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rusqlite::Connection;
use terse_core::clicks::{
    Added, Batch, Click, ClickIngest as _, ClickReports as _, ClickRetention as _, ClickSubject,
    ClickTarget, Count, Dimension, Interned, JournalId, JournalSpan, LinkId, Opened, Period,
    RawQuery, Retention,
};
use terse_core::{OwnerId, StoreError, Timestamp};
use terse_embedded::{
    BackupError, ClickOptions, EmbeddedClicks, EmbeddedLinks, EmbeddedOpenError, EmbeddedOptions,
    RunLimits, backup_clicks, inspect_clicks, verify_clicks,
};
use terse_testkit::{key, timestamp};

pub(crate) const ALWAYS: Period = Period { from: None, to: None };
pub(crate) const OWNER: OwnerId = OwnerId(3);

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.0.path().join("clicks.db")
    }

    pub(crate) fn open(&self) -> EmbeddedClicks {
        EmbeddedClicks::open(ClickOptions::new(self.db())).unwrap()
    }

    /// Every batch leaves its sums in a run.
    pub(crate) fn open_with_runs(&self) -> EmbeddedClicks {
        let runs = RunLimits { from: 0, runs: 100, step: 1 };
        EmbeddedClicks::open(ClickOptions { runs, ..ClickOptions::new(self.db()) }).unwrap()
    }
}

pub(crate) fn sql(path: &Path, statement: &str) {
    Connection::open(path).unwrap().execute_batch(statement).unwrap();
}

pub(crate) fn link(n: u64) -> LinkId {
    LinkId { key: key(&format!("link-{n}")), created_at: timestamp(-5) }
}

pub(crate) fn click(n: u64) -> Click {
    let click = Click::bare(timestamp(n as i64 * 1000), ClickTarget::Link(link(n % 10), OWNER));
    Click { visitor: Some(n + 1), country: Some("DE".into()), took_nanos: n * 1000, ..click }
}

const JOURNAL: JournalId = JournalId([3; 16]);

/// The n-th of a series of batches of different sizes.
pub(crate) fn batch(n: u64, epoch: u32) -> Arc<Batch> {
    let clicks = (0..size(n)).map(|m| click(n * 50 + m));
    let span = JournalSpan { journal: JOURNAL, epoch, segment: 9, from: n, to: n + 1 };
    Arc::new(Batch::of(vec![span], clicks))
}

/// Opens the journal. Returns the epoch and the number of the next batch.
pub(crate) async fn open_journal(store: &EmbeddedClicks) -> (u32, u64) {
    let Opened { epoch, positions, .. } = store.open(JOURNAL).await.unwrap();
    assert!(positions.iter().all(|position| position.segment == 9));
    (epoch, positions.first().map_or(0, |position| position.to))
}

pub(crate) fn up_to(raw: i64, hours: i64, limit: usize) -> Retention {
    let (raw_before, hours_before) = (timestamp(raw), timestamp(hours));
    Retention {
        raw_before,
        max_raw: None,
        hours_before,
        days_before: Timestamp::MIN,
        tombstones_before: Timestamp::MIN,
        limit,
    }
}

pub(crate) fn size(n: u64) -> u64 {
    n % 50 + 1
}

pub(crate) async fn put(store: &EmbeddedClicks, clicks: Vec<Click>) {
    terse_testkit::add_clicks(store, clicks).await;
}

pub(crate) async fn everything(store: &EmbeddedClicks) -> Count {
    store.report(&ClickSubject::Everything, ALWAYS, timestamp(0)).await.unwrap().tally.clicks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_counted_is_there_when_opened_again() {
    let folder = Folder::new();
    {
        let store = folder.open();
        let (epoch, _) = open_journal(&store).await;
        for n in 0..60 {
            store.add(&batch(n, epoch)).await.unwrap();
        }
    }
    let store = folder.open();
    assert_eq!(store.add(&batch(60, 1)).await.unwrap(), Added::Done, "the epoch goes on");
    let (epoch, next) = open_journal(&store).await;
    assert_eq!((epoch, next), (2, 61));
    assert_eq!(store.add(&batch(60, epoch)).await.unwrap(), Added::Already);
    assert_eq!(store.add(&batch(61, 1)).await.unwrap(), Added::Fenced);
    let all: u64 = (0..61).map(size).sum();
    assert_eq!(everything(&store).await.humans, all);
    assert_eq!((store.queue_depth(), store.disk_size() > 4096), (0, true));
    store.check().await.unwrap();
    store.close();
    assert!(store.check().await.is_err());
    assert!(matches!(store.add(&batch(61, epoch)).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.open(JOURNAL).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.counts(&[link(1)]).await, Err(StoreError::Unavailable(_))));
    assert!(!folder.0.path().join("clicks.db-wal").exists(), "everything is in the one file");
    let report = verify_clicks(&folder.db()).unwrap();
    assert_eq!(
        (report.is_clean(), report.links, report.clicks, report.raw),
        (true, 10, all, all),
        "{report:?}"
    );
    #[cfg(unix)]
    {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&folder.db().metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "only the owner may read it");
    }
}

#[test]
fn files_from_the_future_and_of_others_are_refused_and_left_alone() {
    let folder = Folder::new();
    drop(folder.open());
    inspect_clicks(&folder.db()).unwrap();
    sql(&folder.db(), "PRAGMA user_version = 99");
    for error in [
        EmbeddedClicks::open(ClickOptions::new(folder.db())).unwrap_err(),
        inspect_clicks(&folder.db()).unwrap_err(),
    ] {
        assert!(matches!(error, EmbeddedOpenError::Newer { found: 99, known: 10 }), "{error}");
    }
    let links = folder.0.path().join("terse.db");
    drop(EmbeddedLinks::open(EmbeddedOptions::new(&links)).unwrap());
    let recipes = folder.0.path().join("recipes.db");
    sql(&recipes, "CREATE TABLE recipes (name TEXT)");
    let letter = folder.0.path().join("letter.db");
    std::fs::write(&letter, "this is a letter, not a database\n".repeat(300)).unwrap();
    for path in [links, recipes, letter] {
        let before = std::fs::read(&path).unwrap();
        let error = EmbeddedClicks::open(ClickOptions::new(&path)).unwrap_err();
        assert!(matches!(error, EmbeddedOpenError::NotTerse(_)), "{error:?}");
        assert!(inspect_clicks(&path).is_err() && verify_clicks(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    let empty = folder.0.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    assert!(inspect_clicks(&empty).is_err(), "nothing to go on with");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_sum_is_an_error_to_readers_and_does_not_stop_the_counting() {
    for (table, buckets) in [("subjects", false), ("hours", true), ("days", true)] {
        let folder = Folder::new();
        {
            let store = folder.open();
            put(&store, (0..100).map(click).collect()).await;
            // Days are only written when they are over, and then they are added to the totals.
            let hours = if table == "days" { 86_400_000 } else { 0 };
            if table != "hours" {
                let retention =
                    Retention { days_before: timestamp(86_400_000), ..up_to(0, hours, 1000) };
                while store.prune(retention).await.unwrap().more {}
            }
        }
        // One bit in the middle of each file.
        let conn = Connection::open(folder.db()).unwrap();
        let mut sums: Vec<Vec<u8>> = Vec::new();
        let mut statement = conn.prepare(&format!("SELECT DISTINCT sum FROM {table}")).unwrap();
        let mut found = statement.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            sums.push(row.get(0).unwrap());
        }
        for sum in sums {
            let mut changed = sum.clone();
            changed[20] ^= 1;
            conn.execute(&format!("UPDATE {table} SET sum = ?1 WHERE sum = ?2"), [&changed, &sum])
                .unwrap();
        }
        drop(found);
        drop(statement);
        drop(conn);

        let report = verify_clicks(&folder.db()).unwrap();
        assert!(!report.is_clean(), "{table}");
        let store = folder.open();
        let period = if buckets { Period { from: Some(timestamp(-1)), to: None } } else { ALWAYS };
        for subject in [ClickSubject::Link(link(1)), ClickSubject::Everything] {
            let error = store.report(&subject, period, timestamp(0)).await.unwrap_err();
            assert!(matches!(error, StoreError::Corrupt(_)), "{table}: {error:?}");
        }
        // The totals still exist and keep counting.
        assert_eq!(store.counts(&[link(1)]).await.unwrap()[0].humans, 10);
        put(&store, (0..100).map(click).collect()).await;
        store.prune(up_to(0, 86_400_000, 1000)).await.unwrap();
        let found = store.report(&ClickSubject::Everything, period, timestamp(0)).await.unwrap();
        assert_eq!(found.tally.clicks.humans, 200, "{table}");
        assert_eq!(
            found.tally.values(Dimension::Country).unwrap().sum().humans,
            100,
            "{table}: what was damaged is unknown"
        );
        store.close();
        let report = verify_clicks(&folder.db()).unwrap();
        assert!(report.is_clean(), "{table}: {report:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inconsistent_sums_are_reported() {
    let folder = Folder::new();
    put(&folder.open(), (0..100).map(click).collect()).await;
    let whole = std::fs::read(folder.db()).unwrap();
    for damage in [
        "UPDATE subjects SET people = people + 1 WHERE code = 'link-3'",
        "DELETE FROM hours WHERE subject = 2",
        "DELETE FROM subjects WHERE code = 'link-4'",
    ] {
        std::fs::write(folder.db(), &whole).unwrap();
        assert!(verify_clicks(&folder.db()).unwrap().is_clean());
        sql(&folder.db(), damage);
        assert!(!verify_clicks(&folder.db()).unwrap().is_clean(), "{damage}");
    }
}

#[test]
fn a_copy_is_whole_while_clicks_are_counted() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = Folder::new();
    let store = folder.open();
    let (epoch, _) = runtime.block_on(open_journal(&store));
    for n in 0..20 {
        runtime.block_on(store.add(&batch(n, epoch))).unwrap();
    }
    let copies = [folder.0.path().join("one.db"), folder.0.path().join("two.db")];
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            store.backup(&copies[0]).unwrap();
            backup_clicks(&folder.db(), &copies[1]).unwrap();
        });
        for n in 20..200 {
            runtime.block_on(store.add(&batch(n, epoch))).unwrap();
        }
        copying.join().unwrap();
    });
    assert!(matches!(store.backup(&copies[0]), Err(BackupError::Exists(_))));
    for copy in copies {
        let report = verify_clicks(&copy).unwrap();
        assert!(report.is_clean(), "{report:?}");
        let store = EmbeddedClicks::open(ClickOptions::new(copy)).unwrap();
        let (_, place) = runtime.block_on(open_journal(&store));
        assert!(place >= 20);
        assert_eq!(
            runtime.block_on(everything(&store)).humans,
            (0..place).map(size).sum::<u64>(),
            "from one snapshot"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_file_refuses_whole_batches_and_recovers() {
    let folder = Folder::new();
    let store = EmbeddedClicks::open(ClickOptions {
        max_pages: Some(60),
        ..ClickOptions::new(folder.db())
    })
    .unwrap();
    let (epoch, mut counted) = open_journal(&store).await;
    let error = loop {
        match store.add(&batch(counted, epoch)).await {
            Ok(Added::Done) => counted += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
        assert!(counted < 10_000, "the simulation has no teeth");
    };
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert_eq!(everything(&store).await.humans, (0..counted).map(size).sum::<u64>());
    store.close();
    let store = folder.open();
    let (epoch, next) = open_journal(&store).await;
    assert_eq!(next, counted);
    assert_eq!(store.add(&batch(counted, epoch)).await.unwrap(), Added::Done);
    drop(store);
    assert!(verify_clicks(&folder.db()).unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_raw_clicks_only_sums_are_stored() {
    let folder = Folder::new();
    let store =
        EmbeddedClicks::open(ClickOptions { keep_raw: false, ..ClickOptions::new(folder.db()) })
            .unwrap();
    put(&store, (0..100).map(click).collect()).await;
    let query = RawQuery { link: link(1), from: None, to: None, after: None, limit: 100 };
    assert_eq!(store.clicks(&query).await.unwrap().clicks, []);
    assert_eq!(everything(&store).await.humans, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_what_was_erased() {
    let folder = Folder::new();
    let store = folder.open();
    put(&store, (0..100).map(click).collect()).await;
    store.prune(up_to(0, 86_400_000, 1000)).await.unwrap();
    put(&store, (0..100).map(click).collect()).await;
    let links: Vec<_> = (0..9).map(|n| link(n).key).collect();
    store.erase_links(&links, timestamp(0), timestamp(9)).await.unwrap();
    // The next pruning takes the single clicks out of their blocks.
    while store.prune(up_to(-1, -1, 1000)).await.unwrap().more {}
    store.close();
    let report = verify_clicks(&folder.db()).unwrap();
    assert_eq!(
        (report.is_clean(), report.links, report.clicks, report.raw),
        (true, 1, 20, 20),
        "{report:?}"
    );
    let store = folder.open();
    store.erase_owner(OWNER, timestamp(9)).await.unwrap();
    while store.prune(up_to(-1, -1, 1000)).await.unwrap().more {}
    assert_eq!(everything(&store).await.humans, 200);
    store.close();
    let report = verify_clicks(&folder.db()).unwrap();
    assert_eq!(
        (report.is_clean(), report.links, report.clicks, report.raw),
        (true, 0, 0, 0),
        "{report:?}"
    );
}

/// A million distinct clicks on one link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_values_adds_less_than_a_mebibyte() {
    let folder = Folder::new();
    let store =
        EmbeddedClicks::open(ClickOptions { keep_raw: false, ..ClickOptions::new(folder.db()) })
            .unwrap();
    put(&store, vec![click(0)]).await;
    let before = sizes(&folder.db());
    let mut state = 1_u64;
    let mut word = move || {
        state = state.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1);
        Some(Interned::from(format!("{state:016x}-of-some-length.example")))
    };
    for part in 0..50 {
        let clicks = (0..20_000_u64).map(|n| {
            let word = word();
            let words: [Option<Interned>; 12] = std::array::from_fn(|_| word.clone());
            let [referrer, country, city, device, browser, system, language, utm @ ..] = words;
            let at = timestamp(part * 60_000 + n as i64 % 60_000);
            let visitor = Some((part as u64 * 20_000 + n) * 7919 + 1);
            Click {
                at,
                visitor,
                referrer,
                country,
                city,
                device,
                browser,
                system,
                language,
                utm,
                ..click(0)
            }
        });
        put(&store, clicks.collect()).await;
    }
    let found = store.report(&ClickSubject::Link(link(0)), ALWAYS, timestamp(0)).await.unwrap();
    assert_eq!(found.tally.clicks.humans, 1_000_001);
    assert_eq!(found.tally.values(Dimension::Referrer).unwrap().sum().humans, 1_000_000);
    let visitors = found.visitors.count();
    assert!((950_000..1_050_000).contains(&visitors), "{visitors}");
    let added = sizes(&folder.db()) - before;
    println!("{added} octets");
    assert!(added <= 1 << 20, "{added} octets");
    assert!(added > 10_000, "the simulation has no teeth");
}

/// The pages in use by all tables and indexes.
fn sizes(path: &Path) -> i64 {
    let conn = Connection::open(path).unwrap();
    conn.query_row("SELECT sum(pgsize) FROM dbstat", [], |row| row.get(0)).unwrap()
}

/// Not a test: the process that another test kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_counts_until_it_is_killed() {
    let Ok(path) = std::env::var("TERSE_TEST_CLICKS_TO_KILL") else { return };
    // Sums go through runs, which are merged, and become rows when their day is pruned.
    let runs = RunLimits { from: 8, runs: 2, step: 1 };
    let store = EmbeddedClicks::open(ClickOptions { runs, ..ClickOptions::new(path) }).unwrap();
    let (epoch, from) = open_journal(&store).await;
    for n in from.. {
        assert_eq!(store.add(&batch(n, epoch)).await.unwrap(), Added::Done);
        println!("counted {n}");
        if n % 20 == 19 {
            store.prune(up_to(0, 86_400_000 * 2, 10)).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_time_it_has_counted_exactly_the_acknowledged_batches() {
    let folder = Folder::new();
    let mut done = 0;
    for round in 0..15_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "clicks_file::a_process_that_counts_until_it_is_killed",
                "--nocapture",
            ])
            .env("TERSE_TEST_CLICKS_TO_KILL", folder.db())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = None;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.by_ref().map_while(Result::ok) {
            // The first line may start with the name of the test.
            let Some((_, n)) = line.split_once("counted ") else { continue };
            said = n.parse::<u64>().ok();
            if said.is_some_and(|n| n >= done + 3 + round * 7 % 40) {
                break;
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(round * 317));
        child.kill().unwrap();
        child.wait().unwrap();
        // Lines printed before the kill count as well.
        for line in lines.map_while(Result::ok) {
            said = line.split_once("counted ").and_then(|(_, n)| n.parse().ok()).max(said);
        }
        let said = said.expect("it counted something") + 1;
        let store = folder.open();
        let (_, place) = open_journal(&store).await;
        assert!((said..=said + 1).contains(&place), "said {said}, found {place}");
        let want: u64 = (0..place).map(size).sum();
        assert_eq!(everything(&store).await.humans, want);
        let links: Vec<LinkId> = (0..10).map(link).collect();
        assert_eq!(
            store.counts(&links).await.unwrap().iter().map(|count| count.humans).sum::<u64>(),
            want
        );
        drop(store);
        let report = verify_clicks(&folder.db()).unwrap();
        assert_eq!(
            (report.is_clean(), report.clicks, report.raw),
            (true, want, want),
            "{report:?}"
        );
        assert!(place > done);
        done = place;
    }
}

pub(crate) fn holds(path: &Path, bytes: &[u8]) -> bool {
    std::fs::read(path).is_ok_and(|file| file.windows(bytes.len()).any(|window| window == bytes))
}
