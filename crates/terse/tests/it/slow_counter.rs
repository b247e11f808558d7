//! Random visits, counted a second time by the test: the statistics of the server are the same.
//!
//! The clock jumps by weeks in both directions, a few user agents come again and again, and nearly
//! every visit has a referrer of its own. What a user agent is, the test learns from a link that
//! only this user agent visits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use terse_core::Timestamp;

use crate::harness::{HOST, TestTerse};

const DAY_MS: i64 = 86_400_000;
/// Of how many links the statistics are compared.
const MAX_COMPARED: u64 = 500;
const TIMEOUT: Duration = Duration::from_secs(60);
const AGENTS: [&str; 7] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
     Chrome/138.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
     Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) \
     Chrome/138.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "curl/8.14.1",
    "",
];
const LISTS: [&str; 3] = ["browsers", "operating_systems", "devices"];

/// Clicks of humans and bots, by list and name, and by day.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    total: u64,
    humans: u64,
    bots: u64,
    named: BTreeMap<(usize, String), u64>,
}

impl Counts {
    fn read(stats: &Value) -> Self {
        let number = |name: &str| stats[name].as_u64().expect("a count");
        let mut named = BTreeMap::new();
        for (place, list) in LISTS.iter().enumerate() {
            for item in stats[*list].as_array().expect("a list") {
                let name = item["name"].as_str().expect("a name").to_owned();
                named.insert((place, name), item["clicks"].as_u64().expect("a count"));
            }
        }
        let (humans, bots) = (number("human_clicks"), number("bot_clicks"));
        Self { total: number("total_clicks"), humans, bots, named }
    }

    fn add(&mut self, other: &Self) {
        self.total += other.total;
        self.humans += other.humans;
        self.bots += other.bots;
        for (name, count) in &other.named {
            *self.named.entry(name.clone()).or_default() += count;
        }
    }
}

/// The statistics of a link, once they show this many clicks.
fn stats(terse: &TestTerse, code: &str, query: &str, clicks: u64) -> Value {
    let begun = Instant::now();
    loop {
        let answer = terse.api("GET", &format!("/urls/{code}/stats{query}"), None);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let stats = answer.json();
        let total = stats["total_clicks"].as_u64().expect("a count");
        if total >= clicks {
            return stats;
        }
        assert!(begun.elapsed() < TIMEOUT, "{code}{query}: {total} instead of {clicks}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn request(code: &str, agent: &str, referrer: &str) -> String {
    format!(
        "GET /{code} HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: {agent}\r\nReferer: \
         https://{referrer}/page\r\nAccept-Language: de\r\n\r\n"
    )
}

fn visit(terse: &TestTerse, requests: &[String]) {
    let answers = terse.raw(requests.concat().as_bytes());
    let answered = String::from_utf8_lossy(&answers).matches("HTTP/1.1 302").count();
    assert_eq!(answered, requests.len());
}

fn below(dice: &mut u64, bound: u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice % bound
}

/// The clicks of a link on one day.
fn day_of(day: i64) -> String {
    let at = |day: i64| Timestamp::from_ms(day * DAY_MS);
    format!("?from={}&to={}", at(day), at(day + 1))
}

/// Sets the clock, and waits until the serving thread knows it: it reads the clock twice a second.
fn jump(terse: &TestTerse, days: i64) {
    terse.clock().shift_wall_clock(days * DAY_MS);
    let period = day_of(terse.clock().now().as_ms().div_euclid(DAY_MS));
    let clicks = || {
        let stats = terse.api("GET", &format!("/urls/probe/stats{period}"), None).json();
        stats["total_clicks"].as_u64().expect("a count")
    };
    let (before, begun) = (clicks(), Instant::now());
    while clicks() == before {
        assert!(begun.elapsed() < TIMEOUT, "no click on this day: {period}");
        visit(terse, &[request("probe", AGENTS[0], "a.example")]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// `most` is how many visits a volley may have.
fn compare(seed: u64, links: u64, volleys: u64, most: u64) {
    let terse = TestTerse::with(|config| config.redirect.threads = 1);
    // At noon, so that no day ends while the test sends visits.
    let now = terse.clock().now().as_ms();
    terse.clock().shift_wall_clock(DAY_MS / 2 - now.rem_euclid(DAY_MS));
    for link in 0..links {
        terse.alias(&format!("slow-{link}"), &format!("https://example.com/{link}"));
    }
    terse.alias("probe", "https://example.com/probe");
    let mut meaning = Vec::new();
    for (number, agent) in AGENTS.iter().enumerate() {
        let code = format!("agent-{number}");
        terse.alias(&code, "https://example.com/agent");
        visit(&terse, &[request(&code, agent, "a.example")]);
        meaning.push(Counts::read(&stats(&terse, &code, "", 1)));
        assert_eq!(meaning[number].total, 1);
    }
    let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut expected: BTreeMap<u64, Counts> = BTreeMap::new();
    let mut days: BTreeMap<i64, u64> = BTreeMap::new();
    for volley in 0..volleys {
        let by = below(&mut dice, 41) as i64 - 20;
        if volley % 4 == 3 && by != 0 {
            jump(&terse, by);
        }
        let day = terse.clock().now().as_ms().div_euclid(DAY_MS);
        let requests: Vec<String> = (0..most / 3 + below(&mut dice, most - most / 3))
            .map(|number| {
                let (link, agent) = (below(&mut dice, links), below(&mut dice, 7) as usize);
                expected.entry(link).or_default().add(&meaning[agent]);
                if link == 0 {
                    *days.entry(day).or_default() += 1;
                }
                request(
                    &format!("slow-{link}"),
                    AGENTS[agent],
                    &format!("{volley}-{number}.example"),
                )
            })
            .collect();
        visit(&terse, &requests);
    }
    let all: u64 = expected.values().map(|counts| counts.total).sum();
    let began = Instant::now();
    let total = |terse: &TestTerse| {
        let period = "from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&interval=month";
        let stats = terse.api("GET", &format!("/stats?owner=all&{period}"), None).json();
        stats["total_clicks"].as_u64().expect("a count")
    };
    // Those of the links that are not compared, too.
    while total(&terse) < all {
        assert!(began.elapsed() < TIMEOUT, "seed {seed}: {} of {all}", total(&terse));
        std::thread::sleep(Duration::from_millis(50));
    }
    for (link, expected) in expected.iter().step_by((links / MAX_COMPARED).max(1) as usize) {
        let code = format!("slow-{link}");
        let period = "?from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&interval=month";
        let found = stats(&terse, &code, period, expected.total);
        assert_eq!(Counts::read(&found), *expected, "seed {seed}, {code}");
        let referrers = found["top_referrers"].as_array().expect("a list").iter();
        let referrers: u64 = referrers.map(|item| item["clicks"].as_u64().expect("a count")).sum();
        assert!(referrers <= expected.total, "seed {seed}, {code}: {referrers}");
    }
    for (day, clicks) in &days {
        let period = day_of(*day);
        let found = stats(&terse, "slow-0", &period, *clicks);
        assert_eq!(found["total_clicks"], *clicks, "seed {seed}, {period}");
    }
}

#[test]
fn statistics_of_random_visits_are_those_of_a_slow_counter() {
    let streams = std::env::var("TERSE_TEST_STREAMS").ok().and_then(|count| count.parse().ok());
    for seed in 1..=streams.unwrap_or(2) {
        compare(seed, 12, 24, 300);
    }
}

/// So many links that terse stores their sums as runs.
#[test]
fn statistics_of_visits_of_thousands_of_links_are_those_of_a_slow_counter() {
    compare(7, 5_000, 8, 6_000);
}
