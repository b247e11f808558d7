//! Visits are counted once and promptly, and visitors are not stored.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Answer, HOST, KEY, TestTerse, read_answer};

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 \
    (KHTML, like Gecko) \
                      Version/18.5 Mobile/15E148 Safari/604.1";
/// A generous timeout for slow machines.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The statistics of a link, once they show the expected number of clicks. Fails if there are more.
pub(crate) fn stats(terse: &TestTerse, code: &str, clicks: u64) -> Value {
    stats_of(terse, &format!("/urls/{code}/stats"), clicks)
}

fn stats_of(terse: &TestTerse, path: &str, clicks: u64) -> Value {
    let begun = Instant::now();
    loop {
        let answer = terse.api("GET", path, None);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let stats = answer.json();
        let total = stats["total_clicks"].as_u64().expect("a count");
        assert!(total <= clicks, "{total} instead of {clicks}: {stats:#}");
        if total == clicks {
            return stats;
        }
        assert!(begun.elapsed() < TIMEOUT, "{total} instead of {clicks} after {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn named(list: &Value) -> Vec<(String, u64)> {
    let items = list.as_array().expect("a list").iter();
    items
        .map(|item| (item["name"].as_str().unwrap().to_owned(), item["clicks"].as_u64().unwrap()))
        .collect()
}

fn visit(terse: &TestTerse, path: &str, agent: &str) -> Answer {
    terse.send("GET", path, &[("user-agent", agent)], None)
}

/// A visit from another loopback address.
fn visit_from(terse: &TestTerse, from: &str, path: &str, fields: &str) -> Answer {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(from.parse().unwrap(), 0).into()).unwrap();
    socket.connect(&terse.address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n").unwrap();
    read_answer(&mut stream, false).expect("an answer")
}

#[test]
fn a_visit_is_counted_once_whichever_way_it_came() {
    let terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    terse.create(
        json!({"long_url": "https://example.com/f", "alias": "forward", "forward_query": true}),
    );
    terse.create(json!({"long_url": "https://example.com/l", "alias": "limited", "max_clicks": 2}));
    for _ in 0..3 {
        assert_eq!(visit(&terse, "/hello", FIREFOX).status, 302);
    }
    visit(&terse, "/%68ello", IPHONE);
    terse.send("HEAD", "/hello", &[("user-agent", FIREFOX)], None);
    terse.send("GET", "/hello", &[("user-agent", "facebookexternalhit/1.1")], None);
    terse.send(
        "GET",
        "/hello",
        &[("user-agent", IPHONE), ("sec-purpose", "prefetch;prerender")],
        None,
    );
    let seen = stats(&terse, "hello", 7);
    // Firefox repeats its visit twice, as in a double click: the same visitor, and no bot.
    assert_eq!(
        (&seen["human_clicks"], &seen["bot_clicks"], &seen["unique_visitors"]),
        (&json!(4), &json!(3), &json!(2))
    );
    assert_eq!(seen["repeat_clicks"], 2);
    let mut reasons = named(&seen["bot_reasons"]);
    reasons.sort();
    let want = [("head", 1), ("prefetch", 1), ("preview", 1)];
    assert_eq!(reasons, want.map(|(name, count)| (name.to_owned(), count)));
    assert_eq!(stats_of(&terse, "/urls/hello/stats?bots=exclude", 4)["human_clicks"], 4);

    visit(&terse, "/forward?utm_source=mail&secret=s3cr3t", FIREFOX);
    assert_eq!(named(&stats(&terse, "forward", 1)["utm_sources"]), [("mail".to_owned(), 1)]);
    for _ in 0..4 {
        visit(&terse, "/limited", FIREFOX);
    }
    stats(&terse, "limited", 2);
    assert_eq!(terse.api("GET", "/urls/hello", None).json()["click_count"], 7);
    let listed = terse.api("GET", "/urls", None).json();
    let counts: Vec<_> =
        listed["urls"].as_array().or(listed["links"].as_array()).unwrap().iter().collect();
    assert_eq!(counts.iter().map(|link| link["click_count"].as_u64().unwrap()).sum::<u64>(), 10);
    stats_of(&terse, "/stats", 10);
}

#[test]
fn a_program_that_asks_not_to_be_tracked_is_a_bot_and_a_browser_is_not() {
    let terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    let programs = [
        "WhatsApp/2.23.20.0",
        "HTTPie/3.2.2",
        "Shortcuts/2607.1.3 CFNetwork/1485 Darwin/23.1.0",
        "curl/8.9.1",
        "python-requests/2.32.3",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    ];
    for agent in programs.into_iter().chain([FIREFOX, IPHONE]) {
        let fields = [("user-agent", agent), ("dnt", "1")];
        assert_eq!(terse.send("GET", "/hello", &fields, None).status, 302);
    }
    let seen = stats(&terse, "hello", 9);
    assert_eq!((&seen["bot_clicks"], &seen["human_clicks"]), (&json!(7), &json!(2)), "{seen}");
}

#[test]
fn what_is_known_of_a_visit_is_shown() {
    let terse = TestTerse::with(|config| config.trusted_proxies = vec!["127.0.0.1".into()]);
    terse.alias("hello", "https://example.com/");
    let fields = [
        ("user-agent", IPHONE),
        ("referer", "https://user:secret@News.Example:8443/private?q=1#top"),
        ("accept-language", "de-AT,de;q=0.9,en;q=0.8"),
        ("x-forwarded-for", "6.6.6.6, 8.8.8.8"),
    ];
    terse.send(
        "GET",
        "/hello?utm_source=Mail%20shot&utm_medium=a+b&utm_campaign=%F0%9F%9A%80",
        &fields,
        None,
    );
    let seen = stats(&terse, "hello", 1);
    for (list, want) in [
        ("top_referrers", "news.example"),
        ("top_countries", "US"),
        ("devices", "mobile"),
        ("operating_systems", "iOS"),
        ("languages", "de-AT"),
        ("utm_sources", "Mail shot"),
        ("utm_mediums", "a b"),
        ("utm_campaigns", "🚀"),
        ("top_cities", "unknown"),
    ] {
        assert_eq!(named(&seen[list]), [(want.to_owned(), 1)], "{list}");
    }
    assert!(named(&seen["browsers"])[0].0.contains("Safari"), "{}", seen["browsers"]);
    assert!(seen["avg_redirect_ms"].as_f64().unwrap() > 0.0);
    let raw = terse.api("GET", "/urls/hello/clicks", None).text();
    assert!(
        raw.contains("8.8.8.0/24") && !raw.contains("private") && !raw.contains("secret"),
        "{raw}"
    );
    let csv = terse.api("GET", "/urls/hello/clicks?format=csv", None).text();
    assert_eq!(csv.lines().count(), 2, "{csv}");
}

#[test]
fn visits_that_lead_nowhere_are_kept_apart() {
    let terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    terse.create(json!({"long_url": "https://example.com/e", "alias": "expired1", "ttl": 1}));
    terse.clock().advance(Duration::from_secs(2));
    for path in ["/nosuch9", "/expired1", "/no-such-alias"] {
        visit(&terse, path, FIREFOX);
    }
    let orphans = stats_of(&terse, "/admin/orphans", 3);
    let mut outcomes = named(&orphans["outcomes"]);
    outcomes.sort();
    assert_eq!(outcomes, [("expired".to_owned(), 1), ("not_found".to_owned(), 2)]);
    stats_of(&terse, "/stats", 0);
    assert_eq!(terse.anonymous("GET", "/admin/orphans", None).status, 401);
}

/// The files below a folder that contain these bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if std::fs::read(&path)
            .unwrap_or_default()
            .windows(bytes.len())
            .any(|window| window == bytes)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn no_whole_address_reaches_the_disk() {
    let mut terse = TestTerse::with(|config| config.trusted_proxies = vec!["127.0.0.1".into()]);
    terse.alias("hello", "https://example.com/");
    let proxied = [("user-agent", FIREFOX), ("x-forwarded-for", "203.0.113.201")];
    assert_eq!(terse.send("GET", "/hello", &proxied, None).status, 302);
    let proxied =
        [("user-agent", FIREFOX), ("x-forwarded-for", "2001:db8:1234:5678:9abc:def0:1357:2468")];
    assert_eq!(terse.send("HEAD", "/hello", &proxied, None).status, 302);
    assert_eq!(visit_from(&terse, "127.91.92.93", "/hello", "").status, 302);
    assert_eq!(visit_from(&terse, "127.91.92.94", "/nosuch9", "").status, 404);
    let quiet =
        "DNT: 1\r\nUser-Agent: CanaryBrowser/7\r\nReferer: https://canary-referrer.example/\r\n";
    assert_eq!(visit_from(&terse, "127.91.92.95", "/hello", quiet).status, 302);
    let canaries: Vec<Vec<u8>> = vec![
        b"203.0.113.201".to_vec(),
        vec![203, 0, 113, 201],
        vec![201, 113, 0, 203],
        b"127.91.92.93".to_vec(),
        vec![127, 91, 92, 93],
        vec![127, 91, 92, 94],
        vec![127, 91, 92, 95],
        b"5678:9abc".to_vec(),
        vec![0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0],
        b"CanaryBrowser".to_vec(),
        b"canary-referrer".to_vec(),
    ];
    let search = |when: &str, terse: &TestTerse| {
        for canary in &canaries {
            let found = files_with(terse.folder(), canary);
            assert!(found.is_empty(), "{when}: {canary:?} in {found:?}");
        }
    };
    // In the journal, then counted, then idle.
    assert!(
        !files_with(terse.folder(), &[203, 0, 113]).is_empty(),
        "the cut address is there: the search works"
    );
    search("at once", &terse);
    stats(&terse, "hello", 4);
    // Shown from the store.
    assert!(terse.api("GET", "/urls/hello/clicks", None).text().contains("203.0.113.0/24"));
    search("counted", &terse);
    terse.restart();
    search("at rest", &terse);
    let clicks = terse.api("GET", "/urls/hello/clicks", None).text();
    assert!(clicks.contains("203.0.113.0/24"), "{clicks}");
}

#[test]
fn what_was_answered_before_a_stop_is_counted_after_it() {
    let mut terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    for round in 1..=3_u64 {
        for _ in 0..50 {
            visit(&terse, "/hello", FIREFOX);
        }
        terse.restart();
        // No waiting: the shutdown has counted it.
        assert_eq!(terse.api("GET", "/urls/hello/stats", None).json()["total_clicks"], 50 * round);
    }
}

#[test]
fn clicks_of_a_link_are_deleted_with_it() {
    let terse =
        TestTerse::with(|config| config.links.reap_every = terse::config::HumanDuration::secs(1));
    terse.alias("hello-again", "https://example.com/");
    visit(&terse, "/hello-again", FIREFOX);
    stats(&terse, "hello-again", 1);
    assert_eq!(terse.api("DELETE", "/urls/hello-again", None).status, 204);
    assert_eq!(terse.api("GET", "/urls/hello-again/stats", None).status, 404);
    // A restored link has its clicks.
    assert_eq!(terse.api("POST", "/urls/hello-again/restore", None).status, 200);
    stats(&terse, "hello-again", 1);
    terse.api("DELETE", "/urls/hello-again", None);
    terse.clock().advance(Duration::from_secs(8 * 86_400));
    let begun = Instant::now();
    let link = json!({"long_url": "https://example.com/2", "alias": "hello-again"});
    while terse.api("POST", "/urls", Some(link.clone())).status != 201 {
        assert!(begun.elapsed() < TIMEOUT, "the code is not free again");
        std::thread::sleep(Duration::from_millis(50));
    }
    // A new link with the same code has none of them.
    stats(&terse, "hello-again", 0);
    visit(&terse, "/hello-again", FIREFOX);
    stats(&terse, "hello-again", 1);
    let file = rusqlite::Connection::open(terse.config.clicks_file()).unwrap();
    let count = "SELECT coalesce(sum(clicks), 0) FROM blocks";
    let kept = || -> i64 { file.query_row(count, [], |row| row.get(0)).unwrap() };
    while kept() != 1 {
        assert!(begun.elapsed() < TIMEOUT, "{} clicks are kept", kept());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_clock_that_jumps_loses_no_click() {
    let terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    visit(&terse, "/hello", FIREFOX);
    terse.clock().advance(Duration::from_secs(3 * 3600));
    visit(&terse, "/hello", FIREFOX);
    terse.clock().advance(Duration::from_secs(400 * 86_400));
    // The new salt is polled every second and applied within another.
    std::thread::sleep(Duration::from_millis(2500));
    visit(&terse, "/hello", FIREFOX);
    let seen = stats(&terse, "hello", 3);
    // Visitor hashes change every day: three visitors, none repeated within ten seconds.
    assert_eq!(
        (&seen["human_clicks"], &seen["unique_visitors"], &seen["clicks_24h"]),
        (&json!(3), &json!(2), &json!(1))
    );
    let points = seen["series"].as_array().unwrap();
    assert_eq!(
        points.iter().map(|point| point["clicks"].as_u64().unwrap()).sum::<u64>(),
        3,
        "{points:?}"
    );
}

#[test]
fn counting_can_be_switched_off() {
    let terse = TestTerse::with(|config| config.clicks.enabled = false);
    terse.alias("hello", "https://example.com/");
    assert_eq!(visit(&terse, "/hello", FIREFOX).status, 302);
    std::thread::sleep(Duration::from_millis(500));
    stats(&terse, "hello", 0);
    assert!(!terse.config.data_dir.join("journal").exists());
}

#[test]
fn a_stalled_click_store_delays_no_redirect() {
    // A minute in the middle of an hour.
    let still =
        Duration::from_secs(if std::env::var_os("TERSE_TEST_ALL").is_some() { 60 } else { 8 });
    let terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    let mut stream = terse.connect();
    let request = format!("GET /hello HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: {FIREFOX}\r\n\r\n");
    let mut follow = |times: u64| {
        for _ in 0..times {
            stream.write_all(request.as_bytes()).unwrap();
            assert_eq!(read_answer(&mut stream, false).expect("an answer").status, 302);
        }
    };
    follow(100);
    stats(&terse, "hello", 100);
    let holder = rusqlite::Connection::open(terse.config.clicks_file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (begun, mut sent) = (Instant::now(), 100);
    while begun.elapsed() < still {
        follow(200);
        sent += 200;
        std::thread::sleep(Duration::from_millis(20));
    }
    // Clicks are reported from memory, as far as it holds them.
    if sent < 100_000 {
        stats(&terse, "hello", sent);
    }
    holder.execute_batch("ROLLBACK").unwrap();
    stats(&terse, "hello", sent);
}

#[test]
fn a_start_while_the_clicks_cannot_be_written_serves_and_counts_later() {
    let mut terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    let holder = rusqlite::Connection::open(terse.config.clicks_file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    terse.restart();
    assert_eq!(visit(&terse, "/hello", FIREFOX).status, 302);
    holder.execute_batch("ROLLBACK").unwrap();
    stats(&terse, "hello", 1);
}

#[test]
fn live_clicks_arrive_as_they_happen() {
    let terse = TestTerse::start();
    terse.alias("hello", "https://example.com/");
    let mut stream = terse.connect();
    write!(
        stream,
        "GET /api/v1/urls/hello/live HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer \
        {KEY}\r\n\r\n"
    )
    .unwrap();
    let mut heard = Vec::new();
    let mut part = [0; 4096];
    let begun = Instant::now();
    let mut read_until = |what: &str| {
        while !String::from_utf8_lossy(&heard).contains(what) {
            assert!(begun.elapsed() < TIMEOUT, "{}", String::from_utf8_lossy(&heard));
            let count = std::io::Read::read(&mut stream, &mut part).expect("something");
            assert!(count > 0, "ended: {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&part[..count]);
        }
    };
    read_until("text/event-stream");
    read_until("\r\n\r\n");
    visit(&terse, "/hello", IPHONE);
    read_until("\"mobile\"");
}
