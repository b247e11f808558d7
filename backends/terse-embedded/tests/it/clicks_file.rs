//! Faults of a click file: kills, copies, damage, a full disk, floods, newer schemas and foreign
//! files.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rusqlite::Connection;
use terse_core::clicks::{
    Added, Batch, BotFilter, BotKind, Click, ClickIngest as _, ClickReports as _,
    ClickRetention as _, ClickSubject, ClickTarget, Count, Dimension, Interned, JournalId,
    JournalSpan, LinkId, Opened, Period, RawQuery, Retention, TopQuery,
};
use terse_core::{OwnerId, StoreError, Timestamp};
use terse_embedded::{
    BackupError, ClickOptions, EmbeddedClicks, EmbeddedLinks, EmbeddedOpenError, EmbeddedOptions,
    RunLimits, backup_clicks, inspect_clicks, verify_clicks,
};
use terse_testkit::{key, timestamp};

const ALWAYS: Period = Period { from: None, to: None };
const OWNER: OwnerId = OwnerId(3);

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("clicks.db")
    }

    fn open(&self) -> EmbeddedClicks {
        EmbeddedClicks::open(ClickOptions::new(self.db())).unwrap()
    }

    /// Every batch leaves its sums in a run.
    fn open_with_runs(&self) -> EmbeddedClicks {
        let runs = RunLimits { from: 0, runs: 100, step: 1 };
        EmbeddedClicks::open(ClickOptions { runs, ..ClickOptions::new(self.db()) }).unwrap()
    }
}

fn sql(path: &Path, statement: &str) {
    Connection::open(path).unwrap().execute_batch(statement).unwrap();
}

fn link(n: u64) -> LinkId {
    LinkId { key: key(&format!("link-{n}")), created_at: timestamp(-5) }
}

fn click(n: u64) -> Click {
    let click = Click::bare(timestamp(n as i64 * 1000), ClickTarget::Link(link(n % 10), OWNER));
    Click { visitor: Some(n + 1), country: Some("DE".into()), took_nanos: n * 1000, ..click }
}

const JOURNAL: JournalId = JournalId([3; 16]);

/// The n-th of a series of batches of different sizes.
fn batch(n: u64, epoch: u32) -> Arc<Batch> {
    let clicks = (0..size(n)).map(|m| click(n * 50 + m));
    let span = JournalSpan { journal: JOURNAL, epoch, segment: 9, from: n, to: n + 1 };
    Arc::new(Batch::of(vec![span], clicks))
}

/// Opens the journal. Returns the epoch and the number of the next batch.
async fn open_journal(store: &EmbeddedClicks) -> (u32, u64) {
    let Opened { epoch, positions, .. } = store.open(JOURNAL).await.unwrap();
    assert!(positions.iter().all(|position| position.segment == 9));
    (epoch, positions.first().map_or(0, |position| position.to))
}

fn up_to(raw: i64, hours: i64, limit: usize) -> Retention {
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

fn size(n: u64) -> u64 {
    n % 50 + 1
}

async fn put(store: &EmbeddedClicks, clicks: Vec<Click>) {
    terse_testkit::add_clicks(store, clicks).await;
}

async fn everything(store: &EmbeddedClicks) -> Count {
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

fn holds(path: &Path, bytes: &[u8]) -> bool {
    std::fs::read(path).is_ok_and(|file| file.windows(bytes.len()).any(|window| window == bytes))
}

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

async fn all_clicks(store: &EmbeddedClicks, of: &LinkId) -> Vec<Click> {
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

fn raw(folder: &Folder) -> u64 {
    let report = verify_clicks(&folder.db()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    report.raw
}

fn blocks(folder: &Folder) -> i64 {
    let conn = Connection::open(folder.db()).unwrap();
    conn.query_row("SELECT count(*) FROM blocks", [], |row| row.get(0)).unwrap()
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

fn count(path: &Path, table: &str) -> i64 {
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
        let report = store.report(&subject, ALWAYS, timestamp(0)).await;
        assert!(report.is_err(), "{damage}");
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
