//! The fast path responds exactly like hyper: the same bytes go to two servers, one without a fast
//! path.

use serde_json::json;

use crate::harness::TestTerse;

/// A small deterministic random generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

const TARGETS: &[&str] = &[
    "/ok1234",
    "/ok1234?x=1",
    "/ok1234?",
    "/forward",
    "/forward?x=1&y=%20",
    "/limited",
    "/expired1",
    "/blocked1",
    "/nosuch9",
    "/no-such-code",
    "/%6Fk1234",
    "/ok1234/",
    "/nosuch9+",
    "/ab",
    "/login",
    "/livez",
    "/ok1234#f",
    "//ok1234",
    "/",
    "*",
    "/ok1234%2F",
    "/%",
    "http://go.example/ok1234",
    "http://evil.example/ok1234",
    "/ok1234 x",
    "/r/nosuch9",
    "/permanent",
];
const METHODS: &[&str] =
    &["GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "DELETE", "get", "GE", "OPTIONS"];
const VERSIONS: &[&str] =
    &["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.2", ""];
const FIELDS: &[&str] = &[
    "Accept: text/html",
    "Accept: */*",
    "accept: application/json",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: Keep-Alive, x",
    "User-Agent: x",
    "X-Empty:",
    "Content-Length: 0",
    "Content-Length: 3",
    "Expect: 100-continue",
    "Upgrade: h2c",
    "Host: go.example",
    "Host: evil.example",
    "Cookie: a=b",
    "Range: bytes=0-1",
    "If-None-Match: *",
    "Bad Name: x",
    "No-Colon",
    "X-Ctl: a\u{1}b",
    "X-Latin: caf\u{e9}",
    " X-Folded: y",
    "TE: trailers",
    "Accept: text/HTML;q=0.9",
];
const HOSTS: &[&str] = &[
    "Host: go.example",
    "host: GO.EXAMPLE",
    "Host: go.example:80",
    "Host:go.example ",
    "Host: go.example:99999",
    "Host: evil.example",
    "",
];

fn request(dice: &mut Dice) -> Vec<u8> {
    let host = if dice.roll(4) > 0 { HOSTS[0] } else { dice.pick(HOSTS) };
    let (method, target, version) = (dice.pick(METHODS), dice.pick(TARGETS), dice.pick(VERSIONS));
    let mut lines = vec![format!("{method} {target} {version}"), host.to_owned()];
    let odd = dice.roll(6);
    for _ in 0..odd.saturating_sub(2) {
        lines.push(dice.pick(FIELDS).to_owned());
    }
    lines.retain(|line| !line.is_empty());
    let end = if dice.roll(20) == 0 { "\n" } else { "\r\n" };
    let text = lines.join(end) + end + end;
    // Latin-1, so that single bytes above 127 can be sent.
    text.chars().map(|c| c as u8).collect()
}

/// Headers that may differ: the request's id; those that tell the time, because a second can pass
/// between the two requests; and `connection: close`, which hyper adds once it notices that an
/// announced body is missing.
const MAY_DIFFER: &[&str] =
    &["date:", "connection:", "ratelimit-reset:", "retry-after:", "x-request-id:"];

/// Responses without allowed differences: [`MAY_DIFFER`] and the order of headers.
fn normal(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    for part in text.split_inclusive("\r\n\r\n") {
        // The last member of a problem.
        let part = part.split(",\"request_id\":").next().unwrap_or(part);
        let mut lines: Vec<&str> = part
            .split("\r\n")
            .filter(|line| !MAY_DIFFER.iter().any(|name| line.starts_with(name)))
            .collect();
        if lines.first().is_some_and(|line| line.contains("HTTP/1.")) {
            lines[1..].sort_unstable();
        }
        out += &lines.join("\n");
        out.push('\n');
    }
    out
}

#[test]
fn the_same_bytes_get_the_same_answer_with_and_without_the_fast_path() {
    let rounds = if std::env::var_os("TERSE_TEST_LONG").is_some() { 200_000 } else { 3_000 };
    compare(rounds, |_| ());
}

#[test]
fn both_servers_refuse_the_same_requests() {
    // Refills so slowly that the order of requests does not matter.
    let limited = compare(3_000, |config| {
        config.limits.guesses_per_ip = "20/d".parse().unwrap();
        config.limits.redirect_per_code = "30/d".parse().unwrap();
        config.limits.redirect_per_ip = "100/d".parse().unwrap();
    });
    assert!(limited > 100, "only {limited} were turned away");
}

/// Sends the same bytes to both and counts the refused requests.
fn compare(rounds: usize, settings: impl Fn(&mut terse::Config)) -> usize {
    let mut limited = 0;
    let [fast, plain] = [true, false].map(|fast| {
        let terse = TestTerse::with_fast_path(fast, &settings);
        terse.alias("ok1234", "https://example.com/ok");
        terse.create(json!({
            "long_url": "https://example.com/f?a=b#c", "alias": "forward", "forward_query": true
        }));
        terse.create(json!({
            "long_url": "https://example.com/l", "alias": "limited", "max_clicks": 1_000_000_000
        }));
        terse.create(json!({"long_url": "https://example.com/e", "alias": "expired1", "ttl": 1}));
        terse.create(json!({
            "long_url": "https://example.com/p", "alias": "permanent", "redirect": 308
        }));
        terse.alias("blocked1", "https://example.com/b");
        terse.api("PUT", "/admin/links/blocked1/standing", Some(json!({"standing": "blocked"})));
        terse.clock().advance(std::time::Duration::from_secs(2));
        terse
    });
    let mut dice = Dice(0x7e45e);
    for round in 0..rounds {
        let mut bytes = Vec::new();
        for _ in 0..=dice.roll(4) {
            bytes.extend(request(&mut dice));
        }
        // Sometimes flips a byte or truncates the request.
        if dice.roll(5) == 0 {
            let at = dice.roll(bytes.len());
            bytes[at] = dice.roll(256) as u8;
        }
        if dice.roll(20) == 0 {
            bytes.truncate(dice.roll(bytes.len()));
        }
        let (one, other) = (normal(&fast.raw(&bytes)), normal(&plain.raw(&bytes)));
        assert_eq!(one, other, "round {round}: {}", String::from_utf8_lossy(&bytes));
        limited += one.matches("HTTP/1.1 429 ").count();
    }
    limited
}
