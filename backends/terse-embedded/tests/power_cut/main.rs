//! Simulated power cuts and failing disks: acknowledged data survives, byte for byte.
#![allow(unsafe_code, reason = "a file system for SQLite is written against its C interface")]
#![allow(clippy::unwrap_used, reason = "a test")]
#![cfg(unix)]

mod clicks;
mod disk;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use disk::{Dice, Fault, Luck};
use terse_core::{
    Insert, Inserted, Link, LinkReader as _, LinkStore, ListQuery, Numbering, Revision, Sort,
    StoreError, Updated,
};
use terse_embedded::{EmbeddedLinks, EmbeddedOptions, verify};
use terse_testkit::{alias, generated, timestamp};

/// A store on the forgetful disk, with callers that create and change links and record what was
/// acknowledged.
struct SimulatedMachine {
    folder: tempfile::TempDir,
    store: Arc<EmbeddedLinks>,
    acknowledged: Arc<Mutex<Vec<Link>>>,
    refused: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    callers: Vec<tokio::task::JoinHandle<()>>,
}

/// A search without a match, which therefore reads a lot.
fn everything() -> ListQuery {
    ListQuery {
        owner: None,
        domain: None,
        tag: None,
        text: Some("nowhere to be found".into()),
        status: None,
        archived: None,
        sort: Sort::Newest,
        after: None,
        limit: 100,
        now: timestamp(0),
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

impl SimulatedMachine {
    async fn start(callers: u64, unsafe_no_sync: bool) -> Self {
        disk::register();
        let folder = folder();
        let options = EmbeddedOptions {
            vfs: Some(disk::NAME.into()),
            unsafe_no_sync,
            ..EmbeddedOptions::new(folder.path().join("terse.db"))
        };
        let store = Arc::new(EmbeddedLinks::open(options).unwrap());
        let mut machine = Self {
            folder,
            store,
            acknowledged: Arc::default(),
            refused: Arc::default(),
            stop: Arc::default(),
            callers: Vec::new(),
        };
        machine.callers = (0..callers).map(|caller| machine.call(caller)).collect();
        machine
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Creates links, long and short, numbered and named, until stopped; changes and deletes some
    /// of them at once.
    fn call(&self, caller: u64) -> tokio::task::JoinHandle<()> {
        let (store, stop) = (self.store.clone(), self.stop.clone());
        let (acknowledged, refused) = (self.acknowledged.clone(), self.refused.clone());
        let numbering = Numbering::new(store.identity());
        tokio::spawn(async move {
            let mut dice = Dice(caller);
            let mut range = 0..0;
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let target = format!(
                    "https://example.com/{caller}/{n}?{}",
                    "x".repeat(dice.below(2500) as usize)
                );
                let mut link = if dice.below(2) == 0 {
                    if range.is_empty() {
                        match store.lease(7, 20, numbering.capacity(7), 0).await {
                            Ok(leased) => range = leased,
                            Err(StoreError::Unavailable(_)) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                                tokio::time::sleep(Duration::from_millis(1)).await;
                                continue;
                            }
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                    generated(numbering.code(7, range.next().unwrap()).as_str(), &target)
                } else {
                    alias(&format!("alias-{caller}-{n}"), &target)
                };
                link.reusable = link.generated;
                match store.insert(Insert::new(link.clone(), None)).await {
                    Ok(Inserted::Created) => acknowledged.lock().unwrap().push(link.clone()),
                    Err(StoreError::Unavailable(_)) => {
                        refused.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        continue;
                    }
                    other => panic!("{other:?}"),
                }
                if dice.below(4) == 0 {
                    let at = {
                        // Either state may survive from here on, until the change is acknowledged.
                        let mut acknowledged = acknowledged.lock().unwrap();
                        let at = acknowledged.iter().position(|have| have.key == link.key).unwrap();
                        acknowledged.swap_remove(at)
                    };
                    let changed = Link {
                        deleted_at: Some(at.created_at),
                        revision: Revision(2),
                        reusable: false,
                        ..at
                    };
                    if let Ok(updated) = store.update(&changed, Revision(1), &[]).await {
                        assert_eq!(updated, Updated::Done);
                        acknowledged.lock().unwrap().push(changed);
                    }
                }
            }
        })
    }

    /// Looks up and lists until stopped: readers hold old snapshots, which keep checkpoints from
    /// completing.
    fn browse(&mut self) {
        let (store, stop, acknowledged) =
            (self.store.clone(), self.stop.clone(), self.acknowledged.clone());
        self.callers.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let some = acknowledged.lock().unwrap().last().cloned();
                if let Some(link) = some {
                    match store.get(&link.key).await {
                        Ok(found) => assert_eq!(found.unwrap().target, link.target),
                        Err(StoreError::Unavailable(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
                tokio::task::yield_now().await;
            }
        }));
        let (store, stop) = (self.store.clone(), self.stop.clone());
        self.callers.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                match store.list(&everything()).await {
                    Ok(_) | Err(StoreError::Unavailable(_)) => {}
                    Err(error) => panic!("{error:?}"),
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }));
    }

    fn acknowledged(&self) -> Vec<Link> {
        self.acknowledged.lock().unwrap().clone()
    }

    async fn wait_for_more(&self, count: usize) {
        let from = self.acknowledged().len();
        for _ in 0..60_000 {
            if self.acknowledged().len() >= from + count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("the store makes no progress: {:?}", self.store.check().await);
    }

    /// Checks the data after a simulated power cut. The running store continues.
    async fn lost_in_a_cut(&self, dice: &mut Dice, luck: Luck) -> Result<usize, String> {
        // The list is taken before the cut, so writes acknowledged in between do not count against
        // the store.
        let acknowledged = self.acknowledged();
        let after = folder();
        disk::cut(self.path(), after.path(), dice, luck);
        let path: PathBuf = after.path().join("terse.db");
        let store =
            EmbeddedLinks::open(EmbeddedOptions::new(&path)).map_err(|error| error.to_string())?;
        let mut lost = 0;
        for link in &acknowledged {
            match stored(&store, link).await {
                Some(found) if found == *link => {}
                // A caller deleted the link after the list was taken.
                Some(found) if found.revision > link.revision => {}
                _ => lost += 1,
            }
        }
        // The copy is readable, passes the checks and accepts writes.
        store
            .insert(Insert::new(alias("after-the-cut", "https://example.com/"), None))
            .await
            .unwrap();
        drop(store);
        let report = verify(&path).map_err(|error| error.to_string())?;
        if report.is_clean() { Ok(lost) } else { Err(format!("{report:?}")) }
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.unwrap();
        }
        self.store.close();
    }
}

/// Calls the store until it answers. While it reopens its connections, or on a busy machine, it may
/// say that it is unavailable; it never gives a wrong answer instead.
async fn patiently<T>(mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..3_000 {
        match call().await {
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            answer => return answer.unwrap(),
        }
    }
    panic!("the store does not answer any more");
}

/// The link as stored.
async fn stored(store: &EmbeddedLinks, link: &Link) -> Option<Link> {
    patiently(async || store.get(&link.key).await).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_link_is_lost_in_a_power_cut() {
    let mut dice = Dice(1);
    let mut survived = 0;
    for round in 0..6 {
        let machine = SimulatedMachine::start(1 + round * 4, false).await;
        for luck in [Luck::Nothing, Luck::Prefix, Luck::Sectors, Luck::Sectors, Luck::Prefix] {
            tokio::time::sleep(Duration::from_micros(dice.below(60_000))).await;
            machine.wait_for_more(5).await;
            assert_eq!(
                machine.lost_in_a_cut(&mut dice, luck).await,
                Ok(0),
                "round {round}, {luck:?}"
            );
            survived += machine.acknowledged().len();
        }
        machine.stop().await;
    }
    assert!(survived > 1000, "{survived} links are too few to prove anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_syncing_acknowledged_links_are_lost() {
    let mut dice = Dice(2);
    let machine = SimulatedMachine::start(8, true).await;
    machine.wait_for_more(200).await;
    let lost = machine.lost_in_a_cut(&mut dice, Luck::Nothing).await;
    assert!(!matches!(lost, Ok(0)), "the simulation has no teeth");
    machine.stop().await;
}

async fn a_fault_passes(fault: Fault) {
    let mut dice = Dice(3);
    let mut machine = SimulatedMachine::start(8, false).await;
    machine.browse();
    for round in 0..8 {
        machine.wait_for_more(20 + dice.below(400) as usize).await;
        disk::fault(machine.path(), fault);
        for attempts_left in (0..60_000).rev() {
            if machine.store.check().await.is_err() {
                break;
            }
            assert!(attempts_left > 0, "the store does not notice");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The store refuses writes, continues to read, and acknowledges nothing that is not
        // on disk.
        let link = alias(&format!("refused-{round}"), "https://example.com/");
        let outcome = machine.store.insert(Insert::new(link, None)).await;
        assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
        let some = machine.acknowledged().pop().unwrap();
        assert_eq!(stored(&machine.store, &some).await.unwrap().target, some.target);
        assert_eq!(
            machine.lost_in_a_cut(&mut dice, Luck::Nothing).await,
            Ok(0),
            "round {round}, while broken"
        );
        tokio::time::sleep(Duration::from_millis(dice.below(120))).await;
        disk::fault(machine.path(), Fault::None);
        machine.wait_for_more(20).await;
        machine.store.check().await.unwrap();
        assert_eq!(
            machine.lost_in_a_cut(&mut dice, Luck::Nothing).await,
            Ok(0),
            "round {round}, recovered"
        );
    }
    assert!(machine.refused.load(Ordering::Relaxed) > 0);
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_sync_acknowledges_nothing_and_is_recovered_from() {
    a_fault_passes(Fault::Sync).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_acknowledges_nothing_and_is_recovered_from() {
    a_fault_passes(Fault::Full).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_checkpoint_acknowledges_nothing_and_is_recovered_from() {
    a_fault_passes(Fault::FileSync).await;
}

/// A checkpoint that a reader keeps from completing writes into the file without syncing it, and
/// SQLite remembers those pages as copied. If the later sync fails, the file loses them, and only
/// the log has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_an_unfinished_checkpoint_survive_a_failing_sync() {
    let mut dice = Dice(4);
    let machine = SimulatedMachine::start(0, false).await;
    let store = &machine.store;
    let long = format!("https://example.com/{}", "x".repeat(7000));
    let put = async |from: u32, to: u32| {
        for n in from..to {
            let link = alias(&format!("link-{n}"), &long);
            match store.insert(Insert::new(link.clone(), None)).await {
                Ok(_) => machine.acknowledged.lock().unwrap().push(link),
                Err(StoreError::Unavailable(_)) => return,
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    put(0, 50).await;
    // Every reader opens a connection and is idle afterwards.
    store.list(&everything()).await.unwrap();
    store.get(&terse_testkit::key("link-1")).await.unwrap().unwrap();
    let path = machine.path().join("terse.db");
    let other = open_on_disk(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY);
    other.execute_batch("BEGIN").unwrap();
    other.query_row("SELECT count(*) FROM links", [], |row| row.get::<_, i64>(0)).unwrap();
    put(50, 400).await;
    other.execute_batch("COMMIT").unwrap();
    drop(other);
    disk::fault(machine.path(), Fault::FileSync);
    put(400, 2000).await;
    assert!(store.check().await.is_err(), "the simulation has no teeth");
    assert_eq!(machine.lost_in_a_cut(&mut dice, Luck::Nothing).await, Ok(0), "while broken");
    disk::fault(machine.path(), Fault::None);
    for attempts_left in (0..60_000).rev() {
        if store.check().await.is_ok() {
            break;
        }
        assert!(attempts_left > 0, "the store does not recover");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The log restarts, so that it holds no old pages.
    put(2000, 2010).await;
    assert_eq!(machine.lost_in_a_cut(&mut dice, Luck::Nothing).await, Ok(0), "recovered");
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_from_the_first_version_survives_a_power_cut() {
    disk::register();
    let mut dice = Dice(5);
    for luck in [Luck::Nothing, Luck::Prefix, Luck::Sectors, Luck::Sectors] {
        let folder = folder();
        let path = folder.path().join("terse.db");
        let options =
            EmbeddedOptions { vfs: Some(disk::NAME.into()), ..EmbeddedOptions::new(path.clone()) };
        let links: Vec<Link> =
            (0..300).map(|n| alias(&format!("old-{n}"), "https://example.com/")).collect();
        let store = EmbeddedLinks::open(options.clone()).unwrap();
        for link in &links {
            store.insert(Insert::new(link.clone(), None)).await.unwrap();
        }
        store.close();
        let conn = open_on_disk(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE);
        conn.execute_batch(include_str!("../first_version.sql")).unwrap();
        drop(conn);
        let upgrade = std::thread::spawn(move || EmbeddedLinks::open(options));
        loop {
            let is_over = upgrade.is_finished();
            let copy = self::folder();
            disk::cut(folder.path(), copy.path(), &mut dice, luck);
            let path = copy.path().join("terse.db");
            let store = EmbeddedLinks::open(EmbeddedOptions::new(path.clone())).unwrap();
            for link in &links {
                assert_eq!(stored(&store, link).await.as_ref(), Some(link), "{luck:?}");
            }
            store.close();
            let report = verify(&path).unwrap();
            assert!(report.is_clean(), "{luck:?}: {report:?}");
            if is_over {
                break;
            }
        }
        upgrade.join().unwrap().unwrap().close();
    }
}

fn open_on_disk(path: &Path, flags: rusqlite::OpenFlags) -> rusqlite::Connection {
    rusqlite::Connection::open_with_flags_and_vfs(path, flags, disk::NAME).unwrap()
}
