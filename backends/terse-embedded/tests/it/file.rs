//! The links file: restarts, copies, a full disk, a full queue and foreign files.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use terse_core::{
    AbsenceCertainty, ChangeCursor, ChangeFeed as _, ClickSpender as _, Insert, Inserted, Link,
    LinkReader as _, LinkStore as _, Numbering, StoreError,
};
use terse_embedded::{
    BackupError, EmbeddedLinks, EmbeddedOpenError, EmbeddedOptions, backup, skip_ahead, verify,
};
use terse_testkit::{alias, generated, key, timestamp};

pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.0.path().join("terse.db")
    }

    pub(crate) fn open(&self) -> EmbeddedLinks {
        EmbeddedLinks::open(EmbeddedOptions::new(self.db())).unwrap()
    }
}

pub(crate) async fn put(store: &EmbeddedLinks, link: &Link) {
    assert_eq!(store.insert(Insert::new(link.clone(), None)).await.unwrap(), Inserted::Created);
}

pub(crate) fn sql(path: &Path, statement: &str) {
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
fn files_of_others_are_refused_and_left_alone() {
    let folder = Folder::new();
    std::fs::write(folder.db(), "this is a letter, not a database\n".repeat(300)).unwrap();
    let before = std::fs::read(folder.db()).unwrap();
    let error = EmbeddedLinks::open(EmbeddedOptions::new(folder.db())).unwrap_err();
    assert!(matches!(error, EmbeddedOpenError::NotTerse(_)), "{error:?}");
    assert_eq!(std::fs::read(folder.db()).unwrap(), before);

    std::fs::remove_file(folder.db()).unwrap();
    sql(&folder.db(), "CREATE TABLE recipes (name TEXT)");
    let before = std::fs::read(folder.db()).unwrap();
    let error = EmbeddedLinks::open(EmbeddedOptions::new(folder.db())).unwrap_err();
    assert!(matches!(error, EmbeddedOpenError::NotTerse(_)), "{error:?}");
    assert_eq!(std::fs::read(folder.db()).unwrap(), before);

    let nowhere = folder.0.path().join("no/such/folder/terse.db");
    assert!(matches!(
        EmbeddedLinks::open(EmbeddedOptions::new(nowhere)).unwrap_err(),
        EmbeddedOpenError::Io(_)
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    let folder = Folder::new();
    let store = EmbeddedLinks::open(EmbeddedOptions {
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

async fn until_healthy(store: &EmbeddedLinks) {
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
        EmbeddedLinks::open(EmbeddedOptions { queue: 3, ..EmbeddedOptions::new(folder.db()) })
            .unwrap(),
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
    let copy = EmbeddedLinks::open(EmbeddedOptions::new(&to)).unwrap();
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
    let copy = EmbeddedLinks::open(EmbeddedOptions::new(&to)).unwrap();
    assert!(copy.lease(7, 10, u64::MAX, 0).await.unwrap().start >= later.end);
    assert!(copy.lease(4, 10, u64::MAX, 0).await.unwrap().start >= other_length.end);
    assert_eq!((store.incarnation().await.unwrap(), copy.incarnation().await.unwrap()), (1, 2));
    // Repeated calls give the same result: the length is exhausted.
    drop(copy);
    for _ in 0..20 {
        skip_ahead(&to).unwrap();
    }
    let copy = EmbeddedLinks::open(EmbeddedOptions::new(&to)).unwrap();
    assert!(matches!(copy.lease(4, 10, u64::MAX, 0).await, Err(StoreError::Exhausted)));
}

/// A follower that is too far behind, or ahead of the store, must forget everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_change_rows_are_pruned_and_a_late_reader_learns_of_it() {
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
