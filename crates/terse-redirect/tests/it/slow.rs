//! Redirects that take long.

use std::time::Duration;

use terse_testkit::{LogLines, alias};

use crate::fixture::Fixture;

/// More than are logged in a minute.
const VISITS: usize = 40;

#[tokio::test]
async fn slow_redirects_are_counted_and_some_of_them_logged() {
    let logged = LogLines::of_process();
    let fixture = Fixture::new(|_| ());
    for n in 0..VISITS {
        fixture.insert(alias(&format!("waits-{n}"), "https://example.com/")).await;
    }
    let served = fixture.serve();
    // A lookup takes longer than a visitor should wait.
    fixture.store.delay(Duration::from_millis(60));
    for n in 0..VISITS {
        let request =
            format!("GET /waits-{n} HTTP/1.1\r\nHost: go.example\r\nConnection: close\r\n\r\n");
        let answer = served.exchange(request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 302"), "{answer}");
    }
    assert!(served.workers.counts().slow >= VISITS as u64, "misses are included");
    let lines = logged.with("link.code=waits-");
    // Another minute may begin in between.
    assert!(!lines.is_empty() && lines.len() < VISITS, "{lines:?}");
    assert!(lines[0].contains("a visitor waited") && lines[0].contains("took_ms="), "{lines:?}");
}
