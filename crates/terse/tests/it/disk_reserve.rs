//! `storage.reserve`: with little free disk space, single clicks stop and everything else works.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::clicks::stats;
use crate::harness::TestTerse;

fn raw_rows(terse: &TestTerse) -> usize {
    let rows = terse.api("GET", "/urls/hello/clicks", None);
    assert_eq!(rows.status, 200);
    rows.text().lines().count()
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn below_the_reserve_clicks_are_counted_and_not_stored_one_by_one() {
    let mut terse = TestTerse::with(|config| {
        config.storage.reserve = "1000000GiB".parse().unwrap();
    });
    terse.alias("hello", "https://example.com/");
    for _ in 0..3 {
        assert_eq!(terse.get("/hello").status, 302);
    }
    stats(&terse, "hello", 3);
    assert_eq!(raw_rows(&terse), 0);
    let created = terse.api("POST", "/urls", Some(json!({"long_url": "https://example.com/x"})));
    assert_eq!(created.status, 201, "links still work");
    wait_for("the notice", || terse.get("/readyz").text().contains("storage.reserve"));
    let metrics = terse.get("/metrics").text();
    assert!(metrics.contains("\nterse_disk_low 1"), "{metrics}");
    assert!(metrics.contains("\nterse_clicks_not_kept_total 3"), "{metrics}");

    terse.config.storage.reserve = "1B".parse().unwrap();
    terse.restart();
    assert_eq!(terse.get("/hello").status, 302);
    stats(&terse, "hello", 4);
    wait_for("the single click", || raw_rows(&terse) == 1);
    assert_eq!(terse.get("/readyz").text(), "ready\n");
    assert!(terse.get("/metrics").text().contains("\nterse_disk_low 0"));
}

#[test]
fn one_visitor_does_not_fill_the_disk() {
    let terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    // Pipelined: all in one batch, or in very few.
    let request = "GET /hello HTTP/1.1\r\nHost: go.example\r\nUser-Agent: curl/8\r\n\r\n";
    let answers = terse.raw(request.repeat(2000).as_bytes());
    assert_eq!(String::from_utf8_lossy(&answers).matches("HTTP/1.1 302").count(), 2000);
    stats(&terse, "hello", 2000);
    let rows = raw_rows(&terse);
    assert!((1..=200).contains(&rows), "{rows} rows of 2000 clicks");
}
