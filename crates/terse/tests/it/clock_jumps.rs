//! A wall clock that jumps a year in either direction changes no limit, and no deadline of a cache.

use serde_json::json;
use std::time::Duration;

use crate::harness::TestTerse;

const YEAR_MS: i64 = 365 * 86_400_000;

/// A year forward, to before the start, and back to the real time.
const JUMPS: [i64; 3] = [YEAR_MS, -2 * YEAR_MS, YEAR_MS];

#[test]
fn limits_do_not_follow_the_wall_clock() {
    let terse = TestTerse::with(|config| {
        config.limits.create_per_ip = "2/h".parse().unwrap();
        config.limits.guesses_per_ip = "2/h".parse().unwrap();
        config.limits.sign_in_per_ip = "2/h".parse().unwrap();
        config.limits.report_per_ip = "2/h".parse().unwrap();
    });
    terse.alias("reported", "https://example.com/reported");
    let create = |n: u32| {
        let body = json!({"long_url": format!("https://example.com/{n}")});
        terse.anonymous("POST", "/urls", Some(body)).status
    };
    let report =
        || terse.anonymous("POST", "/urls/reported/report", Some(json!({"reason": "phishing"})));
    let guess = |n: u32| terse.get(&format!("/nosuch-{n}")).status;
    let sign_in = || {
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let origin = ("origin", "http://go.example");
        let fields = [form[0], origin];
        terse.send("POST", "/login", &fields, Some(b"name=ann&password=wrong")).status
    };
    for n in 0..2 {
        assert_eq!((create(n), guess(n)), (201, 404));
        assert!(report().status < 300);
        assert_ne!(sign_in(), 429);
    }
    for by_ms in JUMPS {
        terse.clock().shift_wall_clock(by_ms);
        assert_eq!((create(9), guess(9), report().status), (429, 429, 429), "after {by_ms} ms");
        assert_eq!(sign_in(), 429, "after {by_ms} ms");
    }
    terse.clock().advance(Duration::from_secs(3700));
    assert_eq!((create(9), guess(9)), (201, 404));
    assert!(report().status < 300);
    assert_ne!(sign_in(), 429);
}

#[test]
fn links_without_an_expiry_survive_every_jump() {
    let terse = TestTerse::start();
    terse.alias("steady", "https://example.com/steady");
    terse.create(json!({
        "long_url": "https://example.com/dated", "alias": "dated", "ttl": 86_400
    }));
    for (by_ms, dated) in JUMPS.into_iter().zip([410, 302, 302]) {
        terse.clock().shift_wall_clock(by_ms);
        // Past the time to live of cached routes, by the steady clock.
        terse.clock().advance(Duration::from_secs(301));
        assert_eq!(terse.get("/steady").status, 302, "after {by_ms} ms");
        assert_eq!(terse.get("/dated").status, dated, "after {by_ms} ms");
        assert_eq!(terse.get("/readyz").status, 200);
    }
}
