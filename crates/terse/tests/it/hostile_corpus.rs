//! The corpus of hostile inputs, the server that they are sent to, and the checks of every answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use terse_core::registry::Role;

use crate::bans::TestAccount;
use crate::harness::{Answer, HOST, KEY, TestTerse};
use crate::{hostile_html, sign_in};

/// Interfaces in the corpus that terse does not have yet. Remove the line when one is added.
pub(crate) const ABSENT: &[(&str, &str)] = &[
    ("{dashboard}", "the dashboard"),
    ("forgot-host-poison:", "mail"),
    // Files are read by the command itself and never uploaded, so they have no name or type to
    // trust.
    ("filename=", "uploads"),
];

pub(crate) const TARGET: &str = "https://example.com/ok";

const LIMIT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) surface: String,
    pub(crate) input: String,
    pub(crate) expect: Expect,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expect {
    Accept,
    #[serde(rename = "reject_4xx")]
    Reject,
    /// Created with a flag; visitors are warned.
    AcceptButFlag,
    NotFound,
    EscapeInHtml,
}

pub(crate) fn corpus() -> Vec<Case> {
    serde_json::from_str(include_str!("hostile-inputs.json")).expect("the corpus")
}

/// A server with the links of the corpus.
pub(crate) fn fixtures() -> TestTerse {
    let terse = TestTerse::start();
    terse.alias("ok1234", TARGET);
    let taken = json!({"long_url": "https://example.com/taken", "alias": "taken1"});
    assert_eq!(terse.anonymous("POST", "/urls", Some(taken)).status, 201);
    terse
        .create(json!({"long_url": "https://example.com/secret-e", "alias": "expired1", "ttl": 1}));
    terse.create(
        json!({"long_url": "https://example.com/secret-l", "alias": "limited1", "max_clicks": 1}),
    );
    assert_eq!(terse.get("/limited1").status, 302);
    for (code, standing) in
        [("disabled1", "blocked"), ("banned1", "blocked"), ("flagged1", "suspicious")]
    {
        terse.alias(code, "https://example.com/secret-b");
        let moderated = terse.api(
            "PUT",
            &format!("/admin/links/{code}/standing"),
            Some(json!({"standing": standing})),
        );
        assert_eq!(moderated.status, 200);
    }
    terse.clock().advance(Duration::from_secs(2));
    terse
}

/// Runs all cases of an interface and reports all failures. `least` is the current number of cases,
/// which may only grow.
pub(crate) fn run(
    surface: &str,
    least: usize,
    try_one: impl Fn(&TestTerse, &Case, &str) -> Result<(), String>,
) {
    let terse = fixtures();
    let people =
        if matches!(surface, "login" | "header" | "query") { enrolled(&terse) } else { Vec::new() };
    let (mut ran, mut skipped, mut failed) = (0, BTreeMap::<&str, usize>::new(), Vec::new());
    for case in corpus().into_iter().filter(|case| case.surface == surface) {
        if let Some((_, what)) = ABSENT.iter().find(|(mark, _)| case.input.contains(mark)) {
            *skipped.entry(what).or_default() += 1;
            continue;
        }
        ran += 1;
        let input = people
            .iter()
            .fold(filled(&case.input), |input, (mark, with)| input.replace(mark, with));
        if let Err(why) = try_one(&terse, &case, &input) {
            let shown: String = input.chars().take(120).collect();
            failed.push(format!("{} {:?} {shown:?}: {why}", case.id, case.expect));
        }
        let alive = terse.exchange(&get("/livez", &[]));
        assert_eq!(
            alive.map(|answer| answer.status),
            Some(200),
            "the server is dead after {}",
            case.id
        );
    }
    println!("{surface}: {ran} ran, skipped for want of {skipped:?}");
    assert!(
        failed.is_empty(),
        "{surface}: {} of {ran} failed\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert!(ran >= least, "{surface}: only {ran} ran, {least} did before");
}

/// The accounts of the corpus, with their passwords and cookies.
fn enrolled(terse: &TestTerse) -> Vec<(&'static str, String)> {
    let good = format!("Correct horse, {}", "battery staple ".repeat(5))
        .chars()
        .take(79)
        .collect::<String>()
        + "!";
    let phrase =
        "tr\u{e8}s long \u{1f511} ".repeat(12).chars().take(127).collect::<String>() + "\u{1f98a}";
    let ann = sign_in::set_up(terse, "admin@example.com");
    let mut gone = sign_in::join(terse, "gone@example.com");
    sign_in::join_with(terse, "user@example.com", &good);
    sign_in::join_with(terse, "user+tag@example.com", &good);
    sign_in::join_with(terse, "phrase@example.com", &phrase);
    let cookie = gone.cookie.clone();
    gone.send(
        terse,
        "/account/delete",
        &[("typed", "gone@example.com"), ("proof", sign_in::PASSWORD)],
    );
    assert_eq!(
        (good.chars().count(), phrase.chars().count(), gone.cookie.as_str()),
        (80, 128, "terse_session=")
    );
    let other = TestAccount::new(terse, "other@example.com", Role::User);
    let made = json!({"long_url": "https://example.com/secret-o", "alias": "others1"});
    assert_eq!(other.api(terse, "POST", "/urls", Some(made)).status, 201);
    let ends = terse.clock().now().checked_add(Duration::from_secs(1)).expect("a time").to_string();
    let key = other.api(
        terse,
        "POST",
        "/keys",
        Some(json!({"name": "short", "scope": "full", "expires_at": ends})),
    );
    let key = key.json()["key"].as_str().expect("a key").to_owned();
    let lists =
        || exchange(terse, &get("/api/v1/urls", &[&format!("Authorization: Bearer {key}")]));
    assert_eq!(
        lists().map(|answer| answer.map(|answer| answer.status)),
        Ok(Some(200)),
        "it works, and then it expires"
    );
    terse.clock().advance(Duration::from_secs(2));
    let as_form =
        |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    // The pass phrase belongs to another account.
    let whose = "user@example.com&password={PASSPHRASE_WITH_SPACES_AND_EMOJI}";
    vec![
        (whose, format!("phrase@example.com&password={}", as_form(&phrase))),
        ("{GOOD_PASSWORD_TRUNCATED_72}", as_form(&good.chars().take(72).collect::<String>())),
        ("{GOOD_PASSWORD_OTHER_CASE}", as_form(&good.to_uppercase())),
        ("{GOOD_PASSWORD}", as_form(&good)),
        ("{STRING:1025}", "x".repeat(1025)),
        ("{EXPIRED_TOKEN}", "terse_expired".into()),
        ("{SESSION_COOKIE}", ann.cookie),
        ("{DELETED_USER_SESSION_COOKIE}", cookie),
        ("{dashboard_form}", "/account/sessions/end".into()),
        ("{EXPIRED_KEY}", key),
        ("{OTHER_OWNER_LINK_ID}", "others1".into()),
    ]
}

fn filled(input: &str) -> String {
    let input = input
        .replace("{stats}/{OTHER_OWNER_LINK_ID}", "/api/v1/urls/{OTHER_OWNER_LINK_ID}/stats")
        .replace("{stats}", "/api/v1/urls/ok1234/stats")
        .replace("{links}", "/api/v1/urls")
        .replace("{SHORT_HOST}", HOST)
        .replace("{VALID_KEY}", KEY);
    let input = input
        .replace("{SHORT_HOST_UPPER}", &HOST.to_uppercase())
        .replace("{VALID_KEY_PREFIX}", &KEY[..8]);
    let escaped = format!("%{:02x}{}", HOST.as_bytes()[0], &HOST[1..]);
    input.replace("{SHORT_HOST_PERCENT}", &escaped)
}

pub(crate) fn get(target: &str, fields: &[&str]) -> Vec<u8> {
    request(&format!("GET {target}"), fields, &[])
}

/// A raw request, completed with `Host`, `Content-Length`, `Connection: close` and a fixed id, so
/// that answers can be compared.
pub(crate) fn request(line: &str, fields: &[&str], body: &[u8]) -> Vec<u8> {
    let has = |name: &str| {
        fields.iter().any(|field| field.to_ascii_lowercase().starts_with(&format!("{name}:")))
    };
    let mut head = format!("{line} HTTP/1.1\r\nX-Request-Id: test\r\n");
    if !has("host") {
        head += &format!("Host: {HOST}\r\n");
    }
    for field in fields {
        head += &format!("{field}\r\n");
    }
    if !body.is_empty() {
        if !has("content-type") {
            head += "Content-Type: application/json\r\n";
        }
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    if !has("connection") {
        head += "Connection: close\r\n";
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

pub(crate) fn post(path: &str, body: &[u8]) -> Vec<u8> {
    post_as(KEY, path, body)
}

pub(crate) fn post_as(key: &str, path: &str, body: &[u8]) -> Vec<u8> {
    request(&format!("POST /api/v1{path}"), &[&format!("Authorization: Bearer {key}")], body)
}

/// Sends a request and checks the rules that hold for every case. `None`: the connection was closed
/// without a response.
pub(crate) fn exchange(terse: &TestTerse, bytes: &[u8]) -> Result<Option<Answer>, String> {
    let begun = Instant::now();
    let answer = terse.exchange(bytes);
    if begun.elapsed() > LIMIT {
        // A busy machine can delay one response: measure a second time.
        let again = Instant::now();
        terse.exchange(bytes);
        if again.elapsed() > LIMIT {
            return Err(format!(
                "took {:?}, then {:?}",
                begun.elapsed() - again.elapsed(),
                again.elapsed()
            ));
        }
    }
    if let Some(answer) = &answer {
        if answer.status >= 500 {
            return Err(format!("{} {}", answer.status, answer.text()));
        }
        if answer.location().is_some_and(|at| !at.starts_with('/') && at != TARGET) {
            return Err(format!("leads to {:?}", answer.location()));
        }
        if answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html")) {
            hostile_html::inert(&answer.text())?;
        }
    }
    Ok(answer)
}

/// All links as the API shows them, without click counts, which change asynchronously.
pub(crate) fn links(terse: &TestTerse) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = terse.api("GET", &format!("/urls?owner=all&limit=100{cursor}"), None).json();
        all.extend(page["links"].as_array().expect("a list").iter().cloned());
        // Visits of earlier cases are counted asynchronously.
        all.iter_mut().for_each(|link| link["click_count"] = Value::Null);
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

/// Runs a request that must be refused, and checks that nothing changed.
pub(crate) fn refused(
    terse: &TestTerse,
    refuse: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let before = links(terse);
    refuse()?;
    let after = links(terse);
    if before == after {
        Ok(())
    } else {
        Err(format!("refused, but {} links became {}", before.len(), after.len()))
    }
}

pub(crate) fn is_4xx(answer: Option<Answer>) -> Result<(), String> {
    match answer {
        Some(answer) if (400..500).contains(&answer.status) => Ok(()),
        Some(answer) => Err(format!("{} {}", answer.status, answer.text())),
        None => Err("closed without an answer".into()),
    }
}
