//! `kill -9` of commands at random instants: a command that is killed leaves everything as it was
//! or as it should be, and can be repeated.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::KEY;
use crate::process::{Served, command, folder, store};

/// How often each command is killed.
fn kills() -> u64 {
    std::env::var("TERSE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12)
}

/// Runs a command that must succeed, and returns what it prints.
pub(crate) fn done(data: &Path, arguments: &[&str]) -> String {
    let output = command(data).args(arguments).output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{arguments:?}: {out} {err}");
    out
}

/// Instants that spread over the time that a command takes, in an order without a pattern.
struct Instants {
    takes: Duration,
    dice: u64,
}

impl Instants {
    fn new(takes: Duration) -> Self {
        Self { takes, dice: 0x2545_f491_4f6c_dd1d }
    }

    fn next(&mut self) -> Duration {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.takes.mul_f64((self.dice % 1000) as f64 / 900.0)
    }
}

/// Runs a command and kills it after this time. Returns whether it had ended before, well.
fn killed_after(data: &Path, arguments: &[&str], after: Duration) -> bool {
    let mut child = command(data)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command runs");
    std::thread::sleep(after);
    let _ = child.kill();
    child.wait().expect("an end").success()
}

/// A data folder with this many links, and the file that they came from.
pub(crate) fn with_links(prefix: &str, count: usize) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (temp, data) = store();
    let file = rows(temp.path(), prefix, count);
    done(&data, &["import", file.to_str().expect("UTF-8")]);
    (temp, data, file)
}

pub(crate) fn rows(folder: &Path, prefix: &str, count: usize) -> PathBuf {
    let mut text = "short_code,long_url\n".to_owned();
    for n in 0..count {
        text += &format!("{prefix}-{n},https://example.com/{prefix}/{n}\n");
    }
    let file = folder.join(format!("{prefix}.csv"));
    std::fs::write(&file, text).expect("a file");
    file
}

pub(crate) fn codes(data: &Path) -> BTreeSet<String> {
    let listed: Value =
        serde_json::from_str(&done(data, &["--json", "list", "--all"])).expect("JSON");
    let links = listed["links"].as_array().expect("links").iter();
    links.map(|link| link["short_code"].as_str().expect("a code").to_owned()).collect()
}

pub(crate) fn expected(prefix: &str, count: usize) -> BTreeSet<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}

#[test]
fn a_backup_that_is_killed_is_whole_or_not_there_and_can_be_repeated() {
    let (temp, data, _) = with_links("kept", 2000);
    let began = Instant::now();
    done(&data, &["backup", temp.path().join("first").to_str().expect("UTF-8")]);
    let mut instants = Instants::new(began.elapsed());
    for n in 0..kills() {
        let to = temp.path().join(format!("backup-{n}"));
        let arguments = ["backup", to.to_str().expect("UTF-8")];
        let ended = killed_after(&data, &arguments, instants.next());
        if !to.exists() {
            assert!(!ended, "{n}: it said that it was done");
            done(&data, &arguments);
        }
        let (_other, restored) = folder();
        done(&restored, &["restore", to.to_str().expect("UTF-8")]);
        if n == 0 {
            assert_eq!(codes(&restored), expected("kept", 2000));
        }
        std::fs::remove_dir_all(&to).expect("removed");
    }
    done(&data, &["doctor", "--deep"]);
    assert_eq!(codes(&data), expected("kept", 2000), "the store is as it was");
}

#[test]
fn a_restore_that_is_killed_loses_neither_store_and_can_be_repeated() {
    let (temp, data, _) = with_links("old", 500);
    let (_other, other, _) = with_links("new", 700);
    let backup = temp.path().join("backup");
    let backup = backup.to_str().expect("UTF-8");
    done(&other, &["backup", backup]);
    let restore = ["restore", backup, "--force"];
    // A copy of the folder for each attempt.
    let again = |n: u64| {
        let copy = temp.path().join(format!("data-{n}"));
        std::fs::create_dir(&copy).expect("a folder");
        for entry in std::fs::read_dir(&data).expect("a folder").flatten() {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), copy.join(entry.file_name())).expect("a copy");
            }
        }
        copy
    };
    let copy = again(1000);
    let began = Instant::now();
    done(&copy, &restore);
    let mut instants = Instants::new(began.elapsed());
    assert_eq!(codes(&copy), expected("new", 700));
    for n in 0..kills() {
        let copy = again(n);
        let ended = killed_after(&copy, &restore, instants.next());
        // The old store is in its place or has been moved aside. Nothing deletes it.
        let asides: Vec<PathBuf> = std::fs::read_dir(&copy)
            .expect("a folder")
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("before-restore"))
            .map(|entry| entry.path().join("terse.db"))
            .filter(|file| file.exists())
            .collect();
        if asides.is_empty() {
            assert!(!ended && copy.join("terse.db").exists(), "{n}: the old store is gone");
            assert_eq!(codes(&copy), expected("old", 500), "{n}");
        }
        done(&copy, &restore);
        done(&copy, &["doctor", "--deep"]);
        assert_eq!(codes(&copy), expected("new", 700), "{n}");
        std::fs::remove_dir_all(&copy).expect("removed");
    }
}

#[test]
fn an_import_that_is_killed_is_completed_by_the_next_and_adds_nothing_twice() {
    // Two batches: between them, the import notes how far it is.
    const ROWS: usize = 1000;
    let (temp, data, _) = with_links("first", 10);
    let mut all = expected("first", 10);
    // Measures how long the whole import takes, on another folder.
    let (_other, elsewhere, _) = with_links("first", 10);
    let file = rows(temp.path(), "row", ROWS);
    let began = Instant::now();
    done(&elsewhere, &["import", file.to_str().expect("UTF-8")]);
    let mut instants = Instants::new(began.elapsed());
    for n in 0..kills() {
        // New rows each time: those of an import that came to its end cannot be lost any more.
        let prefix = format!("row{n}");
        let file = rows(temp.path(), &prefix, ROWS);
        let import = ["import", file.to_str().expect("UTF-8")];
        killed_after(&data, &import, instants.next());
        done(&data, &import);
        all.extend(expected(&prefix, ROWS));
        assert_eq!(codes(&data), all, "{n}");
    }
    done(&data, &["doctor", "--deep"]);
}

/// The operator learns of a lost log, and no code is issued twice.
#[test]
fn readyz_and_the_doctor_report_a_lost_log() {
    let (_temp, data) = folder();
    let start = || Served::start(&data, &[&format!("admin_key={KEY}")]);
    let create = |served: &Served, n: usize| {
        let body = serde_json::json!({ "long_url": format!("https://example.com/{n}") });
        let made: Value = ureq::post(format!("{}/api/v1/urls", served.url))
            .header("authorization", format!("Bearer {KEY}"))
            .send_json(body)
            .and_then(|mut answer| answer.body_mut().read_json())
            .expect("a link");
        made["short_code"].as_str().expect("a code").to_owned()
    };
    let served = start();
    let known: BTreeSet<String> = (0..30).map(|n| create(&served, n)).collect();
    assert_eq!(served.get("/readyz").2, "ready\n");
    served.kill();
    std::fs::remove_file(data.join("terse.db-wal")).expect("a log");
    let served = start();
    let ready = served.get("/readyz").2;
    assert!(ready.contains("lost writes"), "{ready}");
    for n in 100..200 {
        let code = create(&served, n);
        assert!(!known.contains(&code), "{code} was issued twice");
    }
    let said = command(&data).arg("doctor").output().expect("the doctor runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("lost writes"), "{said}");
}
