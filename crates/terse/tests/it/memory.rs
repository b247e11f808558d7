//! `memory.budget`: caches that are filled past their share stay within it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terse_testkit::wait_until;

use crate::harness::TestTerse;
use crate::process::{Served, folder};

fn metric(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
}

#[test]
fn cached_links_stay_within_their_share_of_the_budget() {
    let terse = TestTerse::with(|config| config.memory.budget = "64MiB".parse().unwrap());
    let numbers = terse.get("/metrics").text();
    let limit = metric(&numbers, r#"terse_memory_limit_bytes{kind="links"}"#);
    assert_eq!((metric(&numbers, "terse_memory_budget_bytes"), limit), (64 << 20, 8 << 20));
    // About 10 MiB of links.
    let long = "x".repeat(8000);
    let mut codes = Vec::new();
    for part in 0..13 {
        let links: Vec<Value> = (0..100)
            .map(|n| json!({"long_url": format!("https://example.com/{part}/{n}/{long}")}))
            .collect();
        let made = terse.api("POST", "/urls/bulk", Some(links.into())).json();
        let results = made["results"].as_array().or(made.as_array()).expect("results").clone();
        for result in results {
            let link = if result["link"].is_object() { &result["link"] } else { &result };
            codes.push(link["short_code"].as_str().expect("a code").to_owned());
        }
    }
    assert_eq!(codes.len(), 1300);
    for code in &codes {
        assert_eq!(terse.get(&format!("/{code}")).status, 302);
    }
    let numbers = terse.get("/metrics").text();
    let used = metric(&numbers, r#"terse_memory_bytes{kind="links"}"#);
    assert!(used > limit / 2 && used <= limit, "{used} of {limit}");
    assert!(metric(&numbers, "terse_cache_routes") < 1100, "some made room for others");
    assert_eq!(terse.get(&format!("/{}", codes[0])).status, 302, "and are read again");
}

#[test]
fn every_kind_of_memory_has_its_share_of_the_budget() {
    let terse = TestTerse::with(|config| config.memory.budget = "64MiB".parse().unwrap());
    let numbers = terse.get("/metrics").text();
    let limit = |kind: &str| {
        metric(&numbers, &format!(r#"terse_memory_limit_bytes{{kind="{kind}"}}"#)) >> 20
    };
    let kinds = ["links", "link_store", "click_store", "registry", "http2", "click_batches"];
    assert_eq!(kinds.map(limit), [8, 8, 8, 4, 8, 6]);
    let all = numbers.lines().filter(|line| line.starts_with("terse_memory_limit_bytes{"));
    assert_eq!(all.count(), kinds.len(), "a kind that is not in this list:\n{numbers}");
}

#[test]
fn the_windows_of_http_2_connections_count_while_they_are_open() {
    const EACH: u64 = 64 << 10;
    let terse = TestTerse::start();
    let in_use = || metric(&terse.get("/metrics").text(), r#"terse_memory_bytes{kind="http2"}"#);
    assert_eq!(in_use(), 0);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let connect = async {
                let stream = tokio::net::TcpStream::connect(terse.address).await.unwrap();
                let (client, connection) = h2::client::handshake(stream).await.unwrap();
                tokio::spawn(connection);
                client.ready().await.unwrap()
            };
            runtime.block_on(connect)
        })
        .collect();
    wait_until("three connections", || in_use() == 3 * EACH);
    drop(clients);
    wait_until("no connection", || in_use() == 0);
}

#[test]
fn clicks_count_as_memory_until_they_are_stored() {
    let terse = TestTerse::with(|config| config.clicks.flush = "1m".parse().unwrap());
    let in_use =
        || metric(&terse.get("/metrics").text(), r#"terse_memory_bytes{kind="click_batches"}"#);
    assert_eq!(in_use(), 0);
    terse.alias("ok1234", "https://example.com/ok");
    assert_eq!(terse.get("/ok1234").status, 302);
    wait_until("a click in memory", || in_use() > 0);
    let one = in_use();
    for n in 0..20 {
        terse.alias(&format!("other-{n}"), "https://example.com/other");
        assert_eq!(terse.get(&format!("/other-{n}")).status, 302);
    }
    // A link that is new to the batch takes more than a click on one that it has.
    wait_until("more clicks in memory", || in_use() > one + 20 * 200);
}

/// glibc reserves address space of 64 MiB, aligned to it, for each heap beside the main one.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#[test]
fn threads_share_two_heaps() {
    const HEAP: u64 = 64 << 20;
    let (_temp, data) = folder();
    let served = Served::start(&data, &[]);
    for path in ["/", "/login", "/nosuch9", "/metrics", "/api/v1/urls"] {
        served.get(path);
    }
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", served.id())).unwrap();
    let starts = maps.lines().filter(|line| line.contains(" rw-p 00000000 00:00 0"));
    let heaps = starts
        .filter_map(|line| u64::from_str_radix(line.split('-').next()?, 16).ok())
        .filter(|start| start.is_multiple_of(HEAP))
        .count();
    assert!(heaps <= 2, "{heaps} heaps\n{maps}");
}

/// An idle server keeps little of the program in memory. The figure of the release build is in
/// docs/reliability.md; a debug build is several times as large, so this one counts only that pages
/// are given back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn an_idle_server_gives_back_the_pages_of_its_start() {
    let (_temp, data) = folder();
    let served = Served::start(&data, &[]);
    let size = |name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", served.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    // Pages of files: the program and its libraries. Other memory comes and goes.
    let (begun, mut most) = (Instant::now(), 0);
    loop {
        let now = size("RssFile:");
        most = most.max(now);
        if now * 100 < most * 85 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{now} of {most} kB stay");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(served.get("/livez").0, 200);
}
