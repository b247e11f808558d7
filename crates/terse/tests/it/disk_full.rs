//! A full disk under load, on the real binary: redirects go on, and afterwards every answered visit
//! is counted once, or was reported as one that could not be kept.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::crash::Killable;
use crate::crash_clicks::{Ledger, call, storm};

const CLIENTS: usize = 2;
const TIMEOUT: Duration = Duration::from_secs(60);

/// A small disk of its own, in memory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` without the right to mount one.
    fn mount(at: &Path) -> Option<Self> {
        std::fs::create_dir(at).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m", "terse-test"])
            .arg(at)
            .output();
        mounted.is_ok_and(|done| done.status.success()).then(|| Self(at.to_owned()))
    }

    /// Writes until nothing more fits.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.ballast()).expect("a file");
        let mut size = 1 << 20;
        while size > 0 {
            if file.write_all(&vec![1; size]).is_err() {
                size /= 4;
            }
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.ballast()).expect("the file that fills the disk");
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that was just killed may still hold a file.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn metric(address: SocketAddr, name: &str) -> u64 {
    let text = ureq::get(format!("http://{address}/metrics")).call().expect("metrics");
    let text = text.into_body().read_to_string().expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}")) as u64
}

/// Visits at full speed for a while.
fn visit(address: SocketAddr, codes: &[String], life: Duration) -> Vec<Ledger> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (over, codes) = (&over, codes.chunks(1));
        let storms: Vec<_> =
            codes.map(|code| scope.spawn(move || storm(address, code, over))).collect();
        std::thread::sleep(life);
        over.store(true, Ordering::Relaxed);
        storms.into_iter().map(|storm| storm.join().expect("a client")).collect()
    })
}

#[test]
fn every_answered_visit_is_counted_or_reported_when_the_disk_is_full() {
    let cycles: usize =
        std::env::var("TERSE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(30);
    let folder = tempfile::TempDir::new().expect("a folder");
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk")) else {
        eprintln!("skipped: mounting a small disk needs root");
        return;
    };
    let settings = [("TERSE_CLICKS__FLUSH", "100ms"), ("TERSE_STORAGE__RESERVE", "0B")];
    let terse = Killable::start_with(&disk.0.join("data"), &settings);
    let address = terse.address;
    let codes: Vec<String> = (0..CLIENTS).map(|client| format!("full-{client}")).collect();
    for code in &codes {
        let body = format!(r#"{{"long_url":"https://example.com/{code}","alias":"{code}"}}"#);
        call(address, "POST", "/urls", &body).expect("a link");
    }
    let (mut answered, mut unanswered) = (0, 0);
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    for cycle in 0..cycles {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        // The disk becomes full before or during the visits, and has room again during or after.
        let life = Duration::from_millis(20 + dice % 80);
        let ledgers = std::thread::scope(|scope| {
            let visits = scope.spawn(|| visit(address, &codes, life));
            if cycle % 2 == 1 {
                std::thread::sleep(life / 3);
            }
            disk.fill();
            if cycle % 3 != 0 {
                std::thread::sleep(life);
            }
            disk.free();
            visits.join().expect("visits")
        });
        let here: u64 = ledgers.iter().map(|ledger| ledger.answered).sum();
        assert!(here > 0, "cycle {cycle}: no redirect");
        answered += here;
        unanswered += ledgers.iter().map(|ledger| ledger.unanswered).sum::<u64>();
    }
    assert!(answered > 100 * cycles as u64, "only {answered} visits: that was no load");
    let clicks = |what: &str| metric(address, &format!("terse_clicks_total{{what=\"{what}\"}} "));
    let begun = Instant::now();
    while metric(address, "terse_journal_waiting_bytes ") > 0 {
        assert!(begun.elapsed() < TIMEOUT, "the journal is not counted");
        std::thread::sleep(Duration::from_millis(100));
    }
    let lost = clicks("dropped") + clicks("lost");
    let total = || {
        let totals = codes.iter().map(|code| {
            let stats = call(address, "GET", &format!("/urls/{code}/stats"), "");
            stats.expect("statistics")["total_clicks"].as_u64().expect("a count")
        });
        totals.sum::<u64>()
    };
    while total() + lost < answered {
        assert!(
            begun.elapsed() < TIMEOUT,
            "{} counted, {lost} reported, {answered} answered",
            total()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(total() <= answered + unanswered, "{} counted of {answered}", total());
    // A link can be created again, and what was counted is in the file of the next process.
    let body = r#"{"long_url":"https://example.com/later","alias":"later"}"#;
    let created = call(address, "POST", "/urls", body).expect("an answer");
    assert_eq!(created["short_code"], "later", "{created}");
    println!("{cycles} full disks: {} counted, {lost} reported, {answered} answered", total());
    terse.kill();
    let terse = Killable::start_with(&disk.0.join("data"), &settings);
    let begun = Instant::now();
    loop {
        let stats = call(terse.address, "GET", "/urls/full-0/stats", "").expect("statistics");
        if stats["total_clicks"].as_u64().is_some_and(|clicks| clicks > 0) {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "{stats}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
