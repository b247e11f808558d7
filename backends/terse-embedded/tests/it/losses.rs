//! Files that lost writes: a damaged or deleted log, an older copy, damaged pages.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use terse_core::{
    CodeRequest, CodeSource as _, Insert, LinkKey, LinkReader as _, LinkStore as _, NumberedCodes,
    OwnerId, Target,
};
use terse_embedded::{EmbeddedLinks, EmbeddedOptions, last_loss, verify};
use terse_testkit::{generated, key};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("terse.db")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.0.path().join(format!("terse.db{suffix}"))
    }

    fn open(&self) -> Arc<EmbeddedLinks> {
        Arc::new(EmbeddedLinks::open(EmbeddedOptions::new(self.db())).unwrap())
    }

    /// The files as they are now: what a process that is killed leaves behind.
    fn copy(&self) -> Self {
        let copy = Self::new();
        for suffix in ["", "-wal", "-mark"] {
            if self.beside(suffix).exists() {
                std::fs::copy(self.beside(suffix), copy.beside(suffix)).unwrap();
            }
        }
        copy
    }
}

/// Codes as a process takes them, each with a link. A refill may hold the store for a while
/// longer: only `close`, not a drop, ends it for sure.
async fn create(store: &Arc<EmbeddedLinks>, count: usize) -> Vec<LinkKey> {
    let codes = NumberedCodes::new(store.clone(), 7, 10);
    let target = Target::from_stored("https://example.com/".into());
    let mut keys = Vec::new();
    for _ in 0..count {
        let wanted = CodeRequest { owner: OwnerId::ADMIN, target: &target, attempt: 0 };
        let code = codes.next(wanted).await.unwrap();
        let link = generated(code.as_str(), "https://example.com/");
        store.insert(Insert::new(link.clone(), None)).await.unwrap();
        keys.push(link.key);
    }
    keys
}

async fn found(store: &EmbeddedLinks, keys: &[LinkKey]) -> usize {
    let mut found = 0;
    for key in keys {
        found += usize::from(store.get(key).await.unwrap().is_some());
    }
    found
}

fn damage(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at..at + 16].fill(0xa5);
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_nothing_and_logs_no_loss() {
    let folder = Folder::new();
    let store = folder.open();
    let keys = create(&store, 50).await;
    let killed = folder.copy();
    let next = killed.open();
    assert_eq!((next.notice(), found(&next, &keys).await), (None, 50));
    assert_eq!(next.incarnation().await.unwrap(), store.incarnation().await.unwrap());
    store.close();
    next.close();
    // Nor after a normal end, which empties the log.
    for folder in [&folder, &killed] {
        for _ in 0..2 {
            let store = folder.open();
            assert_eq!((store.notice(), found(&store, &keys).await), (None, 50));
        }
        assert_eq!(last_loss(&folder.db()), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_damaged_or_deleted_is_noticed_and_no_code_is_issued_again() {
    let folder = Folder::new();
    let store = folder.open();
    let before = create(&store, 20).await;
    store.close();
    let store = folder.open();
    let after = create(&store, 50).await;
    type Damage = fn(&Folder);
    let damages: [(&str, Damage); 4] = [
        ("deleted", |copy| std::fs::remove_file(copy.beside("-wal")).unwrap()),
        ("emptied", |copy| std::fs::write(copy.beside("-wal"), b"").unwrap()),
        ("header", |copy| damage(&copy.beside("-wal"), 4)),
        ("middle", |copy| damage(&copy.beside("-wal"), 32 + 10 * (4096 + 24) + 100)),
    ];
    for (name, harm) in damages {
        let copy = folder.copy();
        harm(&copy);
        let damaged = copy.open();
        let notice = damaged.notice().unwrap_or_else(|| panic!("{name}: not noticed"));
        assert!(notice.contains("lost writes") && notice.contains("log"), "{name}: {notice}");
        assert_eq!(damaged.incarnation().await.unwrap(), 2, "{name}");
        assert!(found(&damaged, &after).await < 50, "{name}: nothing was lost");
        let known: HashSet<_> = before.iter().chain(&after).cloned().collect();
        let fresh = create(&damaged, 200).await;
        assert!(fresh.iter().all(|key| !known.contains(key)), "{name}: a code was issued twice");
        damaged.close();
        assert!(last_loss(&copy.db()).is_some());
        assert_eq!(copy.open().notice(), None, "{name}: noticed once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_file_beside_a_newer_mark_is_noticed() {
    let folder = Folder::new();
    let store = folder.open();
    create(&store, 5).await;
    store.close();
    let old = folder.copy();
    let store = folder.open();
    let issued = create(&store, 50).await;
    store.close();
    let mixed = folder.copy();
    std::fs::copy(old.db(), mixed.db()).unwrap();
    let _ = std::fs::remove_file(mixed.beside("-wal"));
    let store = mixed.open();
    assert!(store.notice().unwrap().contains("older"), "{:?}", store.notice());
    let fresh = create(&store, 200).await;
    assert!(fresh.iter().all(|key| !issued.contains(key)));
}

/// Killed before the log was ever copied into the file: without its log the file is empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_lost_as_a_whole_is_noticed() {
    let folder = Folder::new();
    let store = folder.open();
    create(&store, 5).await;
    store.close();
    let copy = folder.copy();
    std::fs::remove_file(copy.db()).unwrap();
    let notice = copy.open().notice().map(str::to_owned);
    assert!(notice.is_some_and(|notice| notice.contains("the links file is new")));
    assert_eq!(Folder::new().open().notice(), None, "a first start is no loss");
}

/// Nothing in the folder tells that it was copied back: only the random distance helps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_was_copied_back_issues_other_codes() {
    let folder = Folder::new();
    let store = folder.open();
    create(&store, 5).await;
    store.close();
    let yesterday = folder.copy();
    let store = folder.open();
    let issued: HashSet<_> = create(&store, 500).await.into_iter().collect();
    store.close();
    for _ in 0..3 {
        let again = yesterday.copy();
        let fresh = create(&again.open(), 500).await;
        assert!(fresh.iter().all(|key| !issued.contains(key)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_in_a_damaged_page_is_unavailable_and_never_missing() {
    let folder = Folder::new();
    let store = folder.open();
    let keys = create(&store, 400).await;
    store.close();
    let size = usize::try_from(std::fs::metadata(folder.db()).unwrap().len()).unwrap();
    let root: i64 = Connection::open(folder.db())
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'links'", [], |row| row.get(0))
        .unwrap();
    let (mut unavailable, mut pages) = (0, 0);
    for page in 1..size / 4096 {
        let copy = folder.copy();
        let mut bytes = std::fs::read(copy.db()).unwrap();
        // The page becomes one that was never written, as after a failed disk.
        bytes[page * 4096..(page + 1) * 4096].fill(0);
        std::fs::write(copy.db(), bytes).unwrap();
        let Ok(store) = EmbeddedLinks::open(EmbeddedOptions::new(copy.db())) else { continue };
        pages += 1;
        for key in &keys {
            match store.get(key).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("page {page} (root {root}): {key:?} is said to be missing"),
                Err(_) => unavailable += 1,
            }
        }
    }
    assert!(unavailable > 0 && pages > 0);
    assert!(verify(&folder.db()).unwrap().is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alias_without_its_row_is_damage() {
    let folder = Folder::new();
    let store = folder.open();
    let link = terse_testkit::alias("named", "https://example.com/");
    store.insert(Insert::new(link, None)).await.unwrap();
    store.close();
    Connection::open(folder.db()).unwrap().execute_batch("DELETE FROM links").unwrap();
    assert!(folder.open().get(&key("named")).await.is_err());
}
