//! `kill -9` at full load: every answered visit is counted exactly once.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::crash::Killable;
use crate::harness::KEY;

const CLIENTS: usize = 4;
/// How many links some of the cycles visit.
const MANY: u64 = 5_000;
/// Pipelined requests per connection.
const PIPELINED: usize = 16;
/// Counting runs at low priority; only a standstill of this length means lost clicks.
const TIMEOUT: Duration = Duration::from_secs(45);

pub(crate) fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<Value> {
    let url = format!("http://{address}/api/v1{path}");
    let request = http::Request::builder()
        .method(method)
        .uri(url)
        .header("authorization", format!("Bearer {KEY}"));
    let request = request
        .header("content-type", "application/json")
        .body(body.to_owned())
        .expect("a request");
    ureq::Agent::new_with_defaults().run(request).ok()?.body_mut().read_json().ok()
}

/// What one client observed.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Visits with a response.
    pub(crate) answered: u64,
    /// Visits without a response before the kill; each may have been counted once.
    pub(crate) unanswered: u64,
}

/// Sends pipelined visits of these links in turn, at full speed, until the server is killed.
pub(crate) fn storm(address: SocketAddr, codes: &[String], over: &AtomicBool) -> Ledger {
    let mut ledger = Ledger::default();
    let Ok(mut stream) = TcpStream::connect(address) else { return ledger };
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let request = |code: &String| {
        format!(
            "GET /{code} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux) \
             Firefox/140.0\r\n\r\n"
        )
    };
    let mut links = codes.iter().cycle();
    let mut part = vec![0; 64 * 1024];
    // The rest of a partially received response.
    let mut tail: Vec<u8> = Vec::new();
    while !over.load(Ordering::Relaxed) {
        // A partially sent batch may be partially answered.
        let volley: String = links.by_ref().take(PIPELINED).map(request).collect();
        let sent = stream.write_all(volley.as_bytes());
        let mut pending = PIPELINED as u64;
        while pending > 0 && sent.is_ok() {
            let count = match stream.read(&mut part) {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            tail.extend_from_slice(&part[..count]);
            let ends: Vec<usize> = tail
                .windows(4)
                .enumerate()
                .filter(|(_, four)| four == b"\r\n\r\n")
                .map(|(at, _)| at)
                .collect();
            assert!(
                tail.starts_with(b"HTTP/1.1 302 Found"[..tail.len().min(18)].as_ref()),
                "{}",
                String::from_utf8_lossy(&tail)
            );
            pending -= ends.len() as u64;
            ledger.answered += ends.len() as u64;
            if let Some(last) = ends.last() {
                tail.drain(..last + 4);
            }
        }
        if pending > 0 {
            ledger.unanswered += pending;
            return ledger;
        }
    }
    ledger
}

#[test]
fn every_answered_visit_is_counted_once_when_the_process_is_killed() {
    let cycles: usize =
        std::env::var("TERSE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(30);
    let folder = tempfile::TempDir::new().expect("a folder");
    let data_dir = folder.path().join("data");
    let codes: Vec<String> = (0..CLIENTS).map(|client| format!("storm-{client}")).collect();
    let mut ledgers: Vec<Ledger> = codes.iter().map(|_| Ledger::default()).collect();
    // Every third cycle visits many links, whose sums are stored in another way.
    let many: Vec<String> = (0..MANY).map(|link| format!("many-{link}")).collect();
    let mut of_many = Ledger::default();
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    for cycle in 0..cycles {
        // Killed while it stores, and while everything is in memory.
        let flush = ["0s", "100ms", "1m"][cycle % 3];
        let terse = Killable::start_with(&data_dir, &[("TERSE_CLICKS__FLUSH", flush)]);
        let address = terse.address;
        if cycle == 0 {
            let all: Vec<&String> = codes.iter().chain(&many).collect();
            for codes in all.chunks(500) {
                let link = |code: &&String| {
                    format!(r#"{{"long_url":"https://example.com/{code}","alias":"{code}"}}"#)
                };
                let links: Vec<String> = codes.iter().map(link).collect();
                let body = format!("[{}]", links.join(","));
                call(address, "POST", "/urls/bulk", &body).expect("links");
            }
        }
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        // Long enough to fill segments and count batches, short enough to interrupt both.
        let life = Duration::from_millis(30 + dice % 300);
        let over = AtomicBool::new(false);
        let heard: Vec<Ledger> = std::thread::scope(|scope| {
            let links = match cycle % 3 {
                2 => many.chunks(many.len() / CLIENTS),
                _ => codes.chunks(1),
            };
            let over = &over;
            let storms: Vec<_> =
                links.map(|links| scope.spawn(move || storm(address, links, over))).collect();
            std::thread::sleep(life);
            terse.kill();
            over.store(true, Ordering::Relaxed);
            storms.into_iter().map(|storm| storm.join().expect("a client")).collect()
        });
        for (client, heard) in heard.into_iter().enumerate() {
            let sum = if cycle % 3 == 2 { &mut of_many } else { &mut ledgers[client] };
            sum.answered += heard.answered;
            sum.unanswered += heard.unanswered;
        }
    }
    let terse = Killable::start(&data_dir);
    let mut shown = Vec::new();
    let mut all = Ledger::default();
    for ledger in ledgers.iter().chain([&of_many]) {
        all.answered += ledger.answered;
        all.unanswered += ledger.unanswered;
    }
    let of_links = codes.iter().map(|code| format!("/urls/{code}/stats"));
    let reports = of_links.zip(&ledgers).chain([("/stats?owner=all".to_owned(), &all)]);
    for (code, ledger) in reports {
        // Wait until the count stops changing.
        let (mut last, mut moved) = (u64::MAX, Instant::now());
        let counted = loop {
            let stats = call(terse.address, "GET", &code, "").expect("statistics");
            let counted = stats["total_clicks"].as_u64().expect("a count");
            if counted >= ledger.answered && counted == last {
                break counted;
            }
            if counted != last {
                (last, moved) = (counted, Instant::now());
            }
            assert!(
                moved.elapsed() < TIMEOUT,
                "{code}: {counted} counted, {} answered",
                ledger.answered
            );
            std::thread::sleep(Duration::from_millis(700));
        };
        let most = ledger.answered + ledger.unanswered;
        assert!(
            counted <= most,
            "{code}: {counted} counted, {} answered, {} unknown",
            ledger.answered,
            ledger.unanswered
        );
        shown.push(format!(
            "{counted} counted, {} answered (+ {} unknown)",
            ledger.answered, ledger.unanswered
        ));
    }
    let answered = all.answered;
    assert!(
        (cycles < 3 || of_many.answered > 0) && answered > 100 * cycles as u64,
        "only {answered} visits in {cycles} cycles: that was no load"
    );
    terse.kill();
    println!("{cycles} kills: {}", shown.join("; "));
}

#[test]
fn clicks_that_were_in_memory_when_the_process_was_killed_are_counted_once() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let data_dir = folder.path().join("data");
    let total = |address| {
        let stats = call(address, "GET", "/urls/in-memory/stats", "").expect("statistics");
        stats["total_clicks"].as_u64().expect("a count")
    };
    let (mut visits, mut most_in_memory) = (0, 0);
    for round in 0..3 {
        let terse = Killable::start_with(&data_dir, &[("TERSE_CLICKS__FLUSH", "1m")]);
        if round == 0 {
            let body = r#"{"long_url":"https://example.com/","alias":"in-memory"}"#;
            call(terse.address, "POST", "/urls", body).expect("a link");
        }
        for _ in 0..50 {
            let agent: ureq::Agent = ureq::Agent::config_builder()
                .max_redirects(0)
                .max_redirects_will_error(false)
                .build()
                .into();
            let visit = agent.get(format!("http://{}/in-memory", terse.address)).call();
            assert_eq!(visit.expect("an answer").status(), 302);
            visits += 1;
        }
        // They are in the statistics, and not in the store.
        let begun = Instant::now();
        while total(terse.address) < visits {
            assert!(begun.elapsed() < TIMEOUT, "{} of {visits}", total(terse.address));
            std::thread::sleep(Duration::from_millis(20));
        }
        let metrics = ureq::get(format!("http://{}/metrics", terse.address)).call();
        let metrics = metrics.expect("metrics").body_mut().read_to_string().expect("text");
        let in_memory =
            metrics.lines().find_map(|line| line.strip_prefix("terse_clicks_in_memory "));
        let in_memory: u64 = in_memory.expect("the metric").parse().expect("a number");
        most_in_memory = most_in_memory.max(in_memory);
        terse.kill();
    }
    // A job at the start has clicks stored, but not in all rounds at just this time.
    assert!((1..=visits).contains(&most_in_memory), "{most_in_memory} of {visits}");
    let terse = Killable::start_with(&data_dir, &[("TERSE_CLICKS__FLUSH", "0s")]);
    let begun = Instant::now();
    while total(terse.address) < visits {
        assert!(begun.elapsed() < TIMEOUT, "{} of {visits}", total(terse.address));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Now they are stored: the next process finds them there.
    terse.kill();
    let terse = Killable::start(&data_dir);
    let begun = Instant::now();
    while total(terse.address) != visits {
        assert!(begun.elapsed() < TIMEOUT, "{} of {visits}", total(terse.address));
        std::thread::sleep(Duration::from_millis(20));
    }
}
