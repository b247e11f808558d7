//! Faults of a link file: restarts, copies, damage, a full disk, newer schemas and foreign files.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use terse_core::registry::EventKind;
use terse_core::rules::Rules;
use terse_core::{
    AbsenceCertainty, Alphabet, ChangeCursor, ChangeFeed as _, ClickSpender as _, CodeRequest,
    CodeSource as _, Domain, Flags, Hashed, Insert, Inserted, Link, LinkKey, LinkReader as _,
    LinkStore, ListQuery, ModerationSource, ModerationStatus, Notes, Numbering, Outbox as _,
    OutboxEvent, OwnerId, Request, Revision, Sort, StoreError, TagCount, Tags, Target, Updated,
};
use terse_embedded::{
    BackupError, Embedded, EmbeddedOpenError, EmbeddedOptions, backup, skip_ahead, verify,
};
use terse_testkit::{alias, generated, key, timestamp};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("terse.db")
    }

    fn open(&self) -> Embedded {
        Embedded::open(EmbeddedOptions::new(self.db())).unwrap()
    }
}

async fn put(store: &Embedded, link: &Link) {
    assert_eq!(store.insert(Insert::new(link.clone(), None)).await.unwrap(), Inserted::Created);
}

fn sql(path: &Path, statement: &str) {
    Connection::open(path).unwrap().execute_batch(statement).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_is_there_when_opened_again() {
    let folder = Folder::new();
    let (secret, code, squatted) = {
        let store = folder.open();
        let numbering = Numbering::new(store.identity());
        assert_eq!(store.lease(7, 10, u64::MAX, 0).await.unwrap(), 0..10);
        let code = numbering.code(7, 3).to_string();
        let squatted = numbering.code(7, 5000).to_string();
        put(&store, &generated(&code, "https://example.com/g")).await;
        put(&store, &alias("named", "https://example.com/a")).await;
        put(&store, &alias(&squatted, "https://example.com/s")).await;
        (*store.identity().secret(), code, squatted)
    };
    let store = folder.open();
    assert_eq!(*store.identity().secret(), secret);
    for code in [&code[..], "named", &squatted] {
        assert!(store.get(&key(code)).await.unwrap().is_some());
        assert_eq!(store.surely_absent(&key(code).domain, code), AbsenceCertainty::Unknown);
    }
    let unknown = Numbering::new(store.identity()).code(7, 5001);
    assert_eq!(
        store.surely_absent(&key(unknown.as_str()).domain, unknown.as_str()),
        AbsenceCertainty::Certain,
        "never given out, and no alias has this shape"
    );
    assert_eq!(store.lease(7, 10, u64::MAX, 0).await.unwrap(), 10..20);
    assert!(store.disk_size() > 4096);
    assert_eq!(store.queue_depth(), 0);
    store.close();
    assert!(matches!(store.get(&key("named")).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.spend(&key("named")).await, Err(StoreError::Unavailable(_))));
    assert!(!folder.0.path().join("terse.db-wal").exists(), "everything is in the one file");
    #[cfg(unix)]
    {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&folder.db().metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "only the owner may read it");
    }
}

#[test]
fn a_file_from_the_future_is_refused_and_left_alone() {
    let folder = Folder::new();
    drop(folder.open());
    let version = || -> i64 {
        let conn = Connection::open(folder.db()).unwrap();
        conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    };
    let present = version();
    sql(&folder.db(), "PRAGMA user_version = 99");
    let error = Embedded::open(EmbeddedOptions::new(folder.db())).unwrap_err();
    assert!(
        matches!(error, EmbeddedOpenError::Newer { found: 99, known } if known == present),
        "{error}"
    );
    assert!(error.to_string().contains("99") && error.to_string().contains(&present.to_string()));
    assert_eq!(version(), 99);
    sql(&folder.db(), &format!("PRAGMA user_version = {present}"));
    drop(folder.open());
}

#[test]
fn files_of_others_are_refused_and_left_alone() {
    let folder = Folder::new();
    std::fs::write(folder.db(), "this is a letter, not a database\n".repeat(300)).unwrap();
    let before = std::fs::read(folder.db()).unwrap();
    let error = Embedded::open(EmbeddedOptions::new(folder.db())).unwrap_err();
    assert!(matches!(error, EmbeddedOpenError::NotTerse(_)), "{error:?}");
    assert_eq!(std::fs::read(folder.db()).unwrap(), before);

    std::fs::remove_file(folder.db()).unwrap();
    sql(&folder.db(), "CREATE TABLE recipes (name TEXT)");
    let before = std::fs::read(folder.db()).unwrap();
    let error = Embedded::open(EmbeddedOptions::new(folder.db())).unwrap_err();
    assert!(matches!(error, EmbeddedOpenError::NotTerse(_)), "{error:?}");
    assert_eq!(std::fs::read(folder.db()).unwrap(), before);

    let nowhere = folder.0.path().join("no/such/folder/terse.db");
    assert!(matches!(
        Embedded::open(EmbeddedOptions::new(nowhere)).unwrap_err(),
        EmbeddedOpenError::Io(_)
    ));
}

#[test]
fn damage_and_another_alphabet_are_reported_at_open() {
    let folder = Folder::new();
    let store = folder.open();
    drop(store);
    let error = Embedded::open(EmbeddedOptions {
        alphabet: Alphabet::Base58,
        ..EmbeddedOptions::new(folder.db())
    })
    .unwrap_err();
    assert!(
        matches!(error, EmbeddedOpenError::Alphabet { stored: "base62", wanted: "base58" }),
        "{error:?}"
    );
    sql(&folder.db(), "DELETE FROM meta WHERE name = 'secret'; INSERT INTO leases VALUES (7, 100)");
    let error = Embedded::open(EmbeddedOptions::new(folder.db())).unwrap_err();
    assert!(matches!(error, EmbeddedOpenError::Damaged(_)), "{error:?}");
    assert!(verify(&folder.db()).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_link_is_an_error_and_never_a_redirect() {
    let folder = Folder::new();
    let code = {
        let store = folder.open();
        store.lease(7, 1, u64::MAX, 0).await.unwrap();
        let code = Numbering::new(store.identity()).code(7, 0).to_string();
        put(&store, &Link { reusable: true, ..generated(&code, "https://example.com/number-one") })
            .await;
        put(&store, &alias("named", "https://example.com/name-one")).await;
        put(&store, &alias("other", "https://example.com/untouched")).await;
        code
    };
    assert!(verify(&folder.db()).unwrap().is_clean());
    // Raw bytes that SQLite itself does not check.
    let mut bytes = std::fs::read(folder.db()).unwrap();
    for (from, to) in [(&b"number-one"[..], &b"number-two"[..]), (b"name-one", b"name-0ne")] {
        let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    std::fs::write(folder.db(), bytes).unwrap();
    let store = folder.open();
    for code in [&code[..], "named"] {
        let found = store.get(&key(code)).await;
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
        let updated = store.update(&alias(code, "https://example.com/"), Revision(1), &[]).await;
        assert!(matches!(updated, Err(StoreError::Corrupt(_))), "{updated:?}");
    }
    assert!(store.get(&key("other")).await.unwrap().is_some());
    store.check().await.unwrap();
    let report = verify(&folder.db()).unwrap();
    assert_eq!((report.links, report.problems.count), (1, 2), "{report:?}");

    // Through SQL, column by column.
    for (n, change) in [
        "target = 'https://evil.example/'",
        "owner = 7",
        "flags = flags | 32",
        "flags = flags | 128",
        "signs = 'userinfo'",
        "password = '$argon2id$'",
        "notes = 'x'",
        "archived_at = 5",
        "rules = '[]'",
        "created_at = created_at + 1",
        "updated_at = 5",
        "expires_at = 5",
        "valid_from = 5",
        "max_clicks = 5",
        "deleted_at = 5",
        "revision = 5",
        "title = 'x'",
        "tags = 'x'",
        "reuse = 5",
        "checksum = checksum + 1",
        "domain = 99",
        "target = x'ff' || 'not text'",
    ]
    .into_iter()
    .enumerate()
    {
        let link = alias(&format!("column-{n}"), "https://example.com/");
        put(&store, &link).await;
        sql(&folder.db(), &format!("UPDATE links SET {change} WHERE code = 'column-{n}'"));
        let found = store.get(&link.key).await;
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{change}: {found:?}");
    }
    // An alias that points at another link.
    sql(
        &folder.db(),
        "UPDATE aliases SET id = (SELECT id FROM aliases WHERE code = 'column-0') WHERE code = \
         'other'",
    );
    assert!(matches!(store.get(&key("other")).await, Err(StoreError::Corrupt(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    let folder = Folder::new();
    let store = Embedded::open(EmbeddedOptions {
        max_pages: Some(60),
        ..EmbeddedOptions::new(folder.db())
    })
    .unwrap();
    let long = format!("https://example.com/{}", "x".repeat(6000));
    // A backup may read for minutes and must not block recovery.
    let backup = Connection::open(folder.db()).unwrap();
    backup.execute_batch("BEGIN; SELECT * FROM links").unwrap();
    let mut kept = Vec::new();
    let error = loop {
        let link =
            Link { deleted_at: Some(timestamp(0)), ..alias(&format!("big-{}", kept.len()), &long) };
        match store.insert(Insert::new(link.clone(), None)).await {
            Ok(_) => kept.push(link),
            Err(error) => break error,
        }
        assert!(kept.len() < 100);
    };
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    for link in &kept {
        assert_eq!(store.get(&link.key).await.unwrap().as_ref(), Some(link), "reads go on");
    }
    until_healthy(&store).await;
    drop(backup);
    // After space is freed, creating works again.
    assert_eq!(store.purge(timestamp(1).into(), 1000, None).await.unwrap().len(), kept.len());
    put(&store, &alias("fits-again", "https://example.com/")).await;
    drop(store);
    assert!(verify(&folder.db()).unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_go_on_behind_a_damaged_link() {
    let folder = Folder::new();
    let store = folder.open();
    for n in 0..5 {
        put(
            &store,
            &Link {
                created_at: timestamp(n),
                updated_at: timestamp(n),
                ..alias(&format!("link-{n}"), "https://e.com/")
            },
        )
        .await;
    }
    sql(
        &folder.db(),
        "UPDATE links SET target = 'https://evil.example/' WHERE code IN ('link-2', 'link-4')",
    );
    for limit in [1, 2, 100] {
        let (mut codes, mut after) = (Vec::new(), None);
        loop {
            let page = store.list(&ListQuery { limit, after, ..everything() }).await.unwrap();
            codes.extend(page.links.into_iter().map(|link| link.key.code.to_string()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(codes, ["link-3", "link-1", "link-0"]);
    }
}

fn everything() -> ListQuery {
    ListQuery {
        owner: None,
        domain: None,
        tag: None,
        text: None,
        status: None,
        archived: None,
        sort: Sort::Newest,
        after: None,
        limit: 100,
        now: timestamp(0),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_on_one_domain_is_not_met_on_another() {
    let folder = Folder::new();
    let store = folder.open();
    store.lease(7, 1, u64::MAX, 0).await.unwrap();
    let code = Numbering::new(store.identity()).code(7, 0);
    let here = generated(code.as_str(), "https://example.com/here");
    let mut there = generated(code.as_str(), "https://example.com/there");
    there.key.domain = Domain::from_stored("go.example");
    put(&store, &here).await;
    put(&store, &there).await;
    sql(&folder.db(), "UPDATE links SET target = x'ff' || 'not text' WHERE code IS NULL");
    assert!(matches!(store.get(&here.key).await, Err(StoreError::Corrupt(_))));
    assert_eq!(store.get(&there.key).await.unwrap(), Some(there));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_keys_only_those_fail_that_meet_the_damage() {
    let folder = Folder::new();
    let codes: Vec<LinkKey> = {
        let store = folder.open();
        let range = store.lease(7, 5, u64::MAX, 0).await.unwrap();
        let numbering = Numbering::new(store.identity());
        for n in range.clone() {
            put(&store, &generated(numbering.code(7, n).as_str(), "https://example.com/")).await;
        }
        put(&store, &alias("named", "https://example.com/")).await;
        range.map(|n| key(numbering.code(7, n).as_str())).collect()
    };
    let conn = Connection::open(folder.db()).unwrap();
    let page: i64 = conn
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'aliases'", [], |row| {
            row.get(0)
        })
        .unwrap();
    drop(conn);
    let store = folder.open();
    // In a store that is already open, because opening checks all aliases.
    let mut file = std::fs::File::options().write(true).open(folder.db()).unwrap();
    file.seek(SeekFrom::Start((page as u64 - 1) * 4096)).unwrap();
    file.write_all(&[0xee; 4096]).unwrap();
    for _ in 0..3 {
        let keys = [&codes[..2], &[key("named")], &codes[2..]].concat();
        for (n, found) in store.get_many(&keys).await.into_iter().enumerate() {
            match n {
                2 => assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}"),
                _ => assert!(found.unwrap().is_some()),
            }
        }
    }
}

async fn until_healthy(store: &Embedded) {
    for _ in 0..500 {
        if store.check().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the store did not recover");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_busy_and_what_waited_is_done() {
    let folder = Folder::new();
    let store = Arc::new(
        Embedded::open(EmbeddedOptions { queue: 3, ..EmbeddedOptions::new(folder.db()) }).unwrap(),
    );
    put(&store, &alias("first", "https://example.com/")).await;
    // Another connection holds the write lock.
    let other = Connection::open(folder.db()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let insert = |n: usize| {
        let store = store.clone();
        let link = alias(&format!("waits-{n}"), "https://example.com/");
        tokio::spawn(async move { store.insert(Insert::new(link, None)).await })
    };
    let taken = insert(0);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(store.queue_depth(), 0, "the writer has taken it, and waits for the lock");
    let waiting: Vec<_> = (1..4).map(insert).collect();
    while store.queue_depth() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(matches!(insert(4).await.unwrap(), Err(StoreError::Busy)));
    assert!(store.get(&key("first")).await.unwrap().is_some(), "reads do not queue behind writes");
    other.execute_batch("ROLLBACK").unwrap();
    for done in waiting.into_iter().chain([taken]) {
        assert_eq!(done.await.unwrap().unwrap(), Inserted::Created);
    }
    assert_eq!(store.get(&key("waits-4")).await.unwrap(), None, "busy means that nothing was done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_made_while_writing_is_whole() {
    let folder = Folder::new();
    let store = Arc::new(folder.open());
    for n in 0..200 {
        put(&store, &alias(&format!("before-{n}"), "https://example.com/")).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, done) = (store.clone(), done.clone());
        tokio::spawn(async move {
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                put(&store, &alias(&format!("during-{n}"), "https://example.com/")).await;
                n += 1;
            }
        })
    };
    let to = folder.0.path().join("copy.db");
    let copied = {
        let (store, to) = (store.clone(), to.clone());
        tokio::task::spawn_blocking(move || store.backup(&to))
    };
    copied.await.unwrap().unwrap();
    done.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    assert!(
        matches!(backup(&folder.db(), &to), Err(BackupError::Exists(_))),
        "nothing is overwritten"
    );
    let report = verify(&to).unwrap();
    assert!(report.is_clean() && report.links >= 200, "{report:?}");
    let copy = Embedded::open(EmbeddedOptions::new(&to)).unwrap();
    assert_eq!(copy.identity().secret(), store.identity().secret());
    for n in 0..200 {
        assert!(copy.get(&key(&format!("before-{n}"))).await.unwrap().is_some());
    }
    put(&copy, &alias("a-life-of-its-own", "https://example.com/")).await;
    let names: Vec<_> =
        std::fs::read_dir(folder.0.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("partial")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_futures_leave_nothing_half_done() {
    let folder = Folder::new();
    let store = Arc::new(folder.open());
    let mut tasks = Vec::new();
    for n in 0..400u64 {
        let store = store.clone();
        let link = alias(&format!("drop-{n}"), "https://example.com/");
        tasks.push(tokio::spawn(async move { store.insert(Insert::new(link, None)).await }));
        if n % 7 == 0 {
            tokio::time::sleep(Duration::from_micros(n * 3)).await;
        }
        if n >= 5 {
            tasks[n as usize - 5].abort();
        }
    }
    let mut acknowledged = Vec::new();
    for (n, task) in tasks.into_iter().enumerate() {
        if let Ok(outcome) = task.await {
            assert_eq!(outcome.unwrap(), Inserted::Created);
            acknowledged.push(format!("drop-{n}"));
        }
    }
    store.close();
    drop(store);
    assert!(verify(&folder.db()).unwrap().is_clean());
    let store = folder.open();
    for code in acknowledged {
        assert!(store.get(&key(&code)).await.unwrap().is_some());
    }
    // The codes of the other creates are either complete links or free.
    for n in 0..400 {
        let link = alias(&format!("drop-{n}"), "https://example.com/");
        match store.get(&link.key).await.unwrap() {
            Some(found) => assert_eq!(found, link),
            None => put(&store, &link).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_write_that_cannot_be_done_takes_no_other_with_it() {
    let folder = Folder::new();
    let store = Arc::new(folder.open());
    put(&store, &alias("first", "https://example.com/")).await;
    // A trigger simulates a broken index.
    sql(
        &folder.db(),
        "CREATE TRIGGER odd BEFORE INSERT ON links WHEN NEW.code = 'odd' BEGIN SELECT \
         RAISE(ABORT, 'no'); END",
    );
    let other = Connection::open(folder.db()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let tasks: Vec<_> = ["one", "two", "odd", "three", "four"]
        .map(|code| {
            let store = store.clone();
            tokio::spawn(async move {
                store.insert(Insert::new(alias(code, "https://example.com/"), None)).await
            })
        })
        .into();
    tokio::time::sleep(Duration::from_millis(100)).await;
    other.execute_batch("ROLLBACK").unwrap();
    for (n, task) in tasks.into_iter().enumerate() {
        match (n, task.await.unwrap()) {
            (2, outcome) => assert!(matches!(outcome, Err(StoreError::Corrupt(_))), "{outcome:?}"),
            (_, outcome) => assert_eq!(outcome.unwrap(), Inserted::Created),
        }
    }
    store.check().await.unwrap();
    assert_eq!(store.get(&key("odd")).await.unwrap(), None);
    drop(other);
    drop(store);
    assert!(verify(&folder.db()).unwrap().is_clean(), "its alias went with it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_page_concerns_only_what_lies_on_it() {
    let folder = Folder::new();
    drop(folder.open());
    let conn = Connection::open(folder.db()).unwrap();
    let page = |name: &str| -> i64 {
        conn.query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [name], |row| {
            row.get(0)
        })
        .unwrap()
    };
    let requests = page("requests");
    drop(conn);
    let mut bytes = std::fs::read(folder.db()).unwrap();
    let start = (requests as usize - 1) * 4096;
    bytes[start..start + 4096].fill(0xee);
    std::fs::write(folder.db(), bytes).unwrap();

    let store = Arc::new(folder.open());
    put(&store, &alias("first", "https://example.com/")).await;
    let other = Connection::open(folder.db()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let tasks: Vec<_> = (0..20u8)
        .map(|n| {
            let store = store.clone();
            let request = (n % 4 == 1).then_some(Request { id: [n; 32], fingerprint: [0; 32] });
            let link = alias(&format!("link-{n}"), "https://example.com/");
            tokio::spawn(async move { store.insert(Insert::new(link, request)).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    other.execute_batch("ROLLBACK").unwrap();
    for (n, task) in tasks.into_iter().enumerate() {
        match (n % 4, task.await.unwrap()) {
            (1, outcome) => assert!(matches!(outcome, Err(StoreError::Corrupt(_))), "{outcome:?}"),
            (_, outcome) => assert_eq!(outcome.unwrap(), Inserted::Created),
        }
    }
    store.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_counters_give_no_number_twice() {
    let folder = Folder::new();
    let code = {
        let store = folder.open();
        let range = store.lease(7, 10, u64::MAX, 0).await.unwrap();
        let code = Numbering::new(store.identity()).code(7, range.end - 1).to_string();
        put(&store, &generated(&code, "https://example.com/number")).await;
        put(&store, &alias("named", "https://example.com/name")).await;
        code
    };
    sql(&folder.db(), "DELETE FROM leases; DELETE FROM meta WHERE name = 'next_named'");
    let store = folder.open();
    assert!(store.get(&key(&code)).await.unwrap().is_some());
    assert_eq!(store.lease(7, 10, u64::MAX, 0).await.unwrap(), 10..20);
    put(&store, &alias("another", "https://example.com/")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_from_the_past_gives_out_no_code_that_was_given_out_since() {
    let folder = Folder::new();
    let store = folder.open();
    let capacity = |length| Numbering::new(store.identity()).capacity(length);
    store.lease(7, 10, u64::MAX, 0).await.unwrap();
    let to = folder.0.path().join("copy.db");
    store.backup(&to).unwrap();
    let later = store.lease(7, 1_000_000, u64::MAX, 0).await.unwrap();
    let other_length = store.lease(4, capacity(4) / 20, u64::MAX, 0).await.unwrap();
    skip_ahead(&to).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(folder.0.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(
        !names.iter().any(|name| name.to_string_lossy().starts_with("copy.db-")),
        "one file: {names:?}"
    );
    assert!(verify(&to).unwrap().is_clean());
    let copy = Embedded::open(EmbeddedOptions::new(&to)).unwrap();
    assert!(copy.lease(7, 10, u64::MAX, 0).await.unwrap().start >= later.end);
    assert!(copy.lease(4, 10, u64::MAX, 0).await.unwrap().start >= other_length.end);
    assert_eq!((store.incarnation().await.unwrap(), copy.incarnation().await.unwrap()), (1, 2));
    // Repeated calls give the same result: the length is exhausted.
    drop(copy);
    for _ in 0..20 {
        skip_ahead(&to).unwrap();
    }
    let copy = Embedded::open(EmbeddedOptions::new(&to)).unwrap();
    assert!(matches!(copy.lease(4, 10, u64::MAX, 0).await, Err(StoreError::Exhausted)));
}

/// A follower that is too far behind, or ahead of the store, must forget everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_change_rows_go_and_whoever_missed_them_is_told() {
    let folder = Folder::new();
    let store = folder.open();
    let count = || -> i64 {
        let conn = Connection::open(folder.db()).unwrap();
        conn.query_row("SELECT count(*) FROM changes", [], |row| row.get(0)).unwrap()
    };
    for n in 0..5 {
        put(&store, &alias(&format!("old-{n}"), "https://example.com/")).await;
    }
    let start = ChangeCursor(0);
    assert_eq!(store.changes(start, 10).await.unwrap().changes.len(), 5);
    assert_eq!(count(), 5);
    let end = store.last_change().await.unwrap();
    sql(&folder.db(), "UPDATE changes SET at = at - 601000 WHERE id <= 4");
    put(&store, &alias("new", "https://example.com/")).await;
    assert_eq!(count(), 2, "rows of more than ten minutes ago went with the next change");
    let page = store.changes(start, 10).await.unwrap();
    assert!(page.gap && page.changes.len() == 2, "{page:?}");
    let page = store.changes(end, 10).await.unwrap();
    assert!(!page.gap && page.changes.len() == 1, "{page:?}");
    // All rows may be deleted: their numbers are not used again.
    sql(&folder.db(), "DELETE FROM changes");
    let page = store.changes(page.next, 10).await.unwrap();
    assert_eq!((page.gap, page.changes.len(), page.next), (false, 0, ChangeCursor(6)));
    assert!(store.changes(end, 10).await.unwrap().gap);
    let ahead = store.changes(ChangeCursor(7), 10).await.unwrap();
    assert_eq!((ahead.gap, ahead.next), (true, ChangeCursor(6)));
    drop(store);
    let store = folder.open();
    put(&store, &alias("newer", "https://example.com/")).await;
    assert_eq!(store.last_change().await.unwrap(), ChangeCursor(7));
    assert!(verify(&folder.db()).unwrap().is_clean());
}

/// The schema before screening: no flags, and every status set by a moderator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_first_version_is_brought_up_to_date() {
    let folder = Folder::new();
    let plain =
        Link { tags: Tags::parse(&["a"]).unwrap(), ..alias("plain", "https://example.com/") };
    let blocked = Link {
        moderation: ModerationStatus::Blocked,
        moderated_by: ModerationSource::Moderator,
        ..alias("blocked", "https://example.com/")
    };
    {
        let store = folder.open();
        put(&store, &plain).await;
        put(&store, &blocked).await;
    }
    // As the first version wrote it: an unchanged row keeps its checksum.
    let checksum = |code: &str| -> i64 {
        let conn = Connection::open(folder.db()).unwrap();
        conn.query_row("SELECT checksum FROM links WHERE code = ?1", [code], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(
        (checksum("plain"), checksum("blocked")),
        (-43900088757068297, -7054719790225027295)
    );
    sql(&folder.db(), include_str!("../first_version.sql"));
    let store = folder.open();
    assert_eq!(store.get(&plain.key).await.unwrap(), Some(plain.clone()));
    assert_eq!(store.get(&blocked.key).await.unwrap(), Some(blocked));
    let text = Some("PLAIN".into());
    let search = ListQuery { text, ..ListQuery::all(Sort::Newest, 9, timestamp(1)) };
    assert_eq!(store.list(&search).await.unwrap().links, std::slice::from_ref(&plain), "upgraded");
    let flagged = Link {
        flags: Flags::new(["userinfo"]),
        moderation: ModerationStatus::Suspicious,
        notes: Some(Notes::from_stored("a note".into())),
        rules: Rules::from_stored(r#"[{"device":"mobile","to":"https://example.com/m"}]"#),
        revision: Revision(2),
        ..plain
    };
    assert_eq!(store.tags(plain.owner, 9).await.unwrap(), [TagCount { tag: "a".into(), links: 1 }]);
    assert_eq!(store.update(&flagged, Revision(1), &[]).await.unwrap(), Updated::Done);
    drop(store);
    assert_eq!(folder.open().get(&flagged.key).await.unwrap(), Some(flagged));
    assert!(verify(&folder.db()).unwrap().is_clean());
}

/// The first version did not key the hash of a target with the secret of its store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_the_first_version_keeps_its_codes_from_targets() {
    let folder = Folder::new();
    let target = Target::from_stored("https://a.example/".into());
    let code_in = async |store: Embedded| {
        let codes = Hashed::new(store.identity(), 7);
        let wanted = CodeRequest { owner: OwnerId::ADMIN, target: &target, attempt: 0 };
        let code = codes.next(wanted).await.unwrap().to_string();
        store.close();
        code
    };
    // What SHA-256 makes of the target and its owner, whatever the secret is.
    let unkeyed = "QOH18dY";
    let keyed = code_in(folder.open()).await;
    assert_ne!(keyed, unkeyed, "a new file has the keyed hash");
    assert_eq!(code_in(folder.open()).await, keyed);
    sql(&folder.db(), include_str!("../first_version.sql"));
    for _ in 0..2 {
        assert_eq!(code_in(folder.open()).await, unkeyed, "also after it was brought up to date");
    }
}

/// Entries that an earlier version wrote have no id; they get one that stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_events_of_an_earlier_version_get_a_lasting_id() {
    let folder = Folder::new();
    {
        let store = folder.open();
        let event = OutboxEvent { kind: EventKind::LinkCreated, at: timestamp(1) };
        let link = alias("named", "https://example.com/");
        store.insert(Insert { events: vec![event], ..Insert::new(link, None) }).await.unwrap();
    }
    sql(
        &folder.db(),
        "DROP TABLE search; DROP TABLE unindexed; \
         ALTER TABLE outbox DROP COLUMN event; ALTER TABLE links DROP COLUMN imported_clicks; \
         ALTER TABLE revisions DROP COLUMN imported_clicks; PRAGMA user_version = 7",
    );
    let first = folder.open().outbox(10).await.unwrap();
    assert_eq!((first.entries.len(), first.unreadable.len()), (1, 0));
    let copy = folder.db().with_file_name("copy.db");
    terse_embedded::backup(&folder.db(), &copy).unwrap();
    terse_embedded::skip_ahead(&copy).unwrap();
    let restored = Embedded::open(EmbeddedOptions::new(&copy)).unwrap();
    assert_eq!(restored.outbox(10).await.unwrap(), first, "the same id after a restore");
}
