//! A soak of the real binary, by flag: mixed load, kills, pauses and restarts. In the end every
//! acknowledged link is there, every answered visit is counted once, `terse doctor` finds nothing,
//! and memory has not grown.
//!
//! `TERSE_SOAK_SECONDS=3600 cargo test --release -p terse --all-features --test it soak --
//! --nocapture`

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::KEY;
use crate::process::{Served, command, folder};

/// What clients know: every acknowledged link, and what became of its visits.
#[derive(Default)]
struct Ledger {
    links: Mutex<HashMap<String, Entry>>,
    refused: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    target: String,
    answered: u64,
    /// Visits without an answer, at a kill: counted or not.
    unknown: u64,
}

struct Soak {
    /// Where the server is now; empty while it is not there.
    url: RwLock<String>,
    ledger: Ledger,
    stop: AtomicBool,
}

impl Soak {
    fn url(&self) -> Option<String> {
        Some(self.url.read().unwrap().clone()).filter(|url| !url.is_empty())
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn create(&self) {
        let agent = agent();
        let mut number = 0_u64;
        while !self.is_over() {
            let Some(url) = self.url() else {
                pause();
                continue;
            };
            number += 1;
            let id = format!("{:?}-{number}", std::thread::current().id());
            let target = format!("https://example.com/{id}");
            let body = json!({"long_url": target, "tags": ["soak"]}).to_string();
            let sent = agent
                .post(format!("{url}/api/v1/urls"))
                .header("authorization", format!("Bearer {KEY}"))
                .header("content-type", "application/json")
                .send(body.as_bytes());
            match sent.map(|mut answer| (answer.status().as_u16(), answer.body_mut().read_to_vec()))
            {
                Ok((200 | 201, Ok(body))) => {
                    let made: Value = serde_json::from_slice(&body).unwrap();
                    let code = made["short_code"].as_str().unwrap().to_owned();
                    let entry = Entry { target, ..Entry::default() };
                    let other = self.ledger.links.lock().unwrap().insert(code.clone(), entry);
                    assert!(other.is_none(), "{code} was issued twice");
                }
                Ok(_) => _ = self.ledger.refused.fetch_add(1, Ordering::Relaxed),
                Err(_) => pause(),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn visit(&self) {
        let (agent, mut turn) = (agent(), 0_usize);
        let mut codes: Vec<String> = Vec::new();
        while !self.is_over() {
            let Some(url) = self.url() else {
                pause();
                continue;
            };
            if turn.is_multiple_of(1000) {
                codes = self.ledger.links.lock().unwrap().keys().take(5000).cloned().collect();
            }
            turn += 1;
            let Some(code) = codes.get(turn.wrapping_mul(7919) % codes.len().max(1)) else {
                turn = 0;
                pause();
                continue;
            };
            let sent = agent.get(format!("{url}/{code}")).call();
            let mut links = self.ledger.links.lock().unwrap();
            let entry = links.get_mut(code).expect("only known links are visited");
            match sent {
                Ok(answer) if answer.status() == 302 => {
                    let location = answer.headers()["location"].to_str().unwrap();
                    assert_eq!(location, entry.target, "{code}");
                    entry.answered += 1;
                }
                Ok(answer) => {
                    assert_eq!(answer.status(), 503, "{code}");
                    self.ledger.refused.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) => {
                    entry.unknown += 1;
                    drop(links);
                    pause();
                }
            }
        }
    }

    /// Reads as a dashboard does.
    fn read(&self) {
        let agent = agent();
        while !self.is_over() {
            std::thread::sleep(Duration::from_millis(50));
            let Some(url) = self.url() else { continue };
            for path in ["/api/v1/urls?limit=50", "/api/v1/stats", "/metrics", "/readyz", "/"] {
                let key = format!("Bearer {KEY}");
                let _ = agent.get(format!("{url}{path}")).header("authorization", key).call();
            }
        }
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(20)))
        .build()
        .into()
}

fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// The memory of a process in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn start(soak: &Soak, data: &Path) -> Served {
    let settings =
        [&*format!("admin_key={KEY}"), "memory.budget=128MiB", "limits.guesses_per_ip=0"];
    let served = Served::start(data, &settings);
    soak.url.write().unwrap().clone_from(&served.url);
    served
}

#[test]
fn under_load_and_faults_nothing_is_lost_and_memory_stays_flat() {
    let Some(seconds) = std::env::var("TERSE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok())
    else {
        eprintln!("skipped: set TERSE_SOAK_SECONDS");
        return;
    };
    let (length, begun) = (Duration::from_secs(seconds), Instant::now());
    let (_temp, data) = folder();
    let soak =
        Soak { url: RwLock::default(), ledger: Ledger::default(), stop: AtomicBool::new(false) };
    let (mut kills, mut pauses, mut stops) = (0, 0, 0);
    let mut memory: Vec<u64> = Vec::new();
    std::thread::scope(|scope| {
        let mut served = start(&soak, &data);
        for _ in 0..2 {
            scope.spawn(|| soak.create());
            scope.spawn(|| soak.visit());
        }
        scope.spawn(|| soak.read());
        // Two thirds of the time with faults, the last third without, to watch memory.
        let mut turn = 0_u64;
        while begun.elapsed() < length * 2 / 3 {
            turn += 1;
            std::thread::sleep(Duration::from_millis(2000 + turn * 733 % 4000));
            match turn % 4 {
                0 | 2 => {
                    soak.url.write().unwrap().clear();
                    served.kill();
                    kills += 1;
                    served = start(&soak, &data);
                }
                1 => {
                    served.pause(Duration::from_millis(1500));
                    pauses += 1;
                }
                _ => {
                    soak.url.write().unwrap().clear();
                    served.terminate();
                    let (status, said) = served.wait();
                    assert!(status.success(), "{status}: {said}");
                    stops += 1;
                    served = start(&soak, &data);
                }
            }
        }
        while begun.elapsed() < length {
            std::thread::sleep(length / 60);
            memory.push(resident(served.id()));
        }
        soak.stop.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(1));
        check(&soak, &served, &data);
    });
    let links = soak.ledger.links.lock().unwrap();
    let visits: u64 = links.values().map(|entry| entry.answered).sum();
    let (early, late) = (memory[memory.len() / 3], *memory.last().unwrap());
    println!(
        "{seconds} s: {} links, {visits} redirects, {kills} kills, {pauses} pauses, {stops} stops, \
         {} refused; memory {early} KiB, then {late} KiB",
        links.len(),
        soak.ledger.refused.load(Ordering::Relaxed)
    );
    assert!(late < early + early / 4 + (8 << 10), "memory grew: {memory:?} KiB");
}

/// Every acknowledged link leads to its target, every answered visit is counted once, and the
/// doctor finds nothing.
fn check(soak: &Soak, served: &Served, data: &Path) {
    let links = soak.ledger.links.lock().unwrap().clone();
    let agent = agent();
    let stats = |path: &str| -> Value {
        let asked = agent
            .get(format!("{}/api/v1{path}", served.url))
            .header("authorization", format!("Bearer {KEY}"));
        let mut answer = asked.call().unwrap();
        serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap()
    };
    let answered: u64 = links.values().map(|entry| entry.answered).sum();
    let unknown: u64 = links.values().map(|entry| entry.unknown).sum();
    let begun = Instant::now();
    let total = loop {
        let total = stats("/stats?owner=all&from=2000-01-01")["total_clicks"].as_u64().unwrap();
        if total >= answered || begun.elapsed() > Duration::from_secs(60) {
            break total;
        }
        pause();
    };
    assert!((answered..=answered + unknown).contains(&total), "{total}: {answered} + {unknown}");
    for (code, entry) in links.iter().take(500) {
        let counted = stats(&format!("/urls/{code}/stats"))["total_clicks"].as_u64().unwrap();
        let allowed = entry.answered..=entry.answered + entry.unknown;
        assert!(allowed.contains(&counted), "{code}: {counted}, {entry:?}");
    }
    for (code, entry) in &links {
        let answer = agent.get(format!("{}/{code}", served.url)).call().unwrap();
        assert_eq!(answer.status(), 302, "{code}");
        assert_eq!(answer.headers()["location"].to_str().unwrap(), entry.target, "{code}");
    }
    let doctor = command(data).args(["doctor", "--json"]).output().unwrap();
    let text = String::from_utf8_lossy(&doctor.stdout);
    let found: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let findings = found["findings"].as_array().or(found.as_array()).expect("findings").clone();
    let problems: Vec<_> =
        findings.iter().filter(|one| one.to_string().contains("\"problem\"")).collect();
    assert!(problems.is_empty(), "{problems:?}");
}
