//! `tls.hsts`: `Strict-Transport-Security` on every answer over https, and on no other.

use serde_json::json;
use terse::Config;

use crate::harness::TestTerse;

const FIELD: &str = "strict-transport-security";
const YEAR: &str = "max-age=31536000";

fn start(base_url: &str, proxies: &[&str]) -> TestTerse {
    let terse = TestTerse::with(|config: &mut Config| {
        config.base_url = Some(base_url.parse().unwrap());
        config.tls.hsts = "365d".parse().unwrap();
        config.trusted_proxies = proxies.iter().map(|range| (*range).to_owned()).collect();
    });
    terse.create(json!({"long_url": "https://example.com/", "custom_alias": "there"}));
    terse
}

/// The field of answers of the fast path, the redirect plane behind hyper, the API and the pages.
fn fields(terse: &TestTerse, sent: &[(&str, &str)]) -> Vec<Option<String>> {
    let requests =
        [("GET", "/there"), ("HEAD", "/there"), ("GET", "/nosuch99"), ("GET", "/api/v1/account")];
    let all = requests.iter().chain(&[("GET", "/"), ("GET", "/there+"), ("POST", "/there")]);
    all.map(|(method, path)| {
        let answer = terse.send(method, path, sent, None);
        let of = |name: &str| {
            let values = answer.headers.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name));
            values.map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        assert!(of(FIELD).len() < 2 && of("date").len() == 1, "{method} {path} {answer:?}");
        of(FIELD).pop()
    })
    .collect()
}

#[test]
fn every_answer_over_https_says_how_long_to_use_https_only() {
    let terse = start("https://go.example", &[]);
    assert!(fields(&terse, &[]).iter().all(|field| field.as_deref() == Some(YEAR)));
    // Anyone can send this field; terse reads it only from a trusted proxy.
    let sent = [("x-forwarded-proto", "http")];
    assert!(fields(&terse, &sent).iter().all(|field| field.as_deref() == Some(YEAR)));
}

#[test]
fn no_answer_over_http_says_so() {
    let terse = start("http://go.example", &["127.0.0.1"]);
    assert!(fields(&terse, &[]).iter().all(Option::is_none));
    assert!(fields(&terse, &[("x-forwarded-proto", "https")]).iter().all(Option::is_none));
    let terse = TestTerse::with(|config| {
        config.base_url = Some("https://go.example".parse().unwrap());
    });
    assert_eq!(terse.get("/nosuch99").header(FIELD), None, "only by setting");
}

#[test]
fn a_trusted_proxy_says_which_visitors_have_no_https() {
    let terse = start("https://go.example", &["127.0.0.1"]);
    for (scheme, want) in [("https", Some(YEAR)), ("HTTPS", Some(YEAR)), ("http", None)] {
        let fields = fields(&terse, &[("x-forwarded-proto", scheme)]);
        assert!(fields.iter().all(|field| field.as_deref() == want), "{scheme}: {fields:?}");
    }
    assert!(fields(&terse, &[]).iter().all(|field| field.as_deref() == Some(YEAR)));
    let both = [("x-forwarded-proto", "https"), ("x-forwarded-proto", "http")];
    assert!(fields(&terse, &both).iter().all(Option::is_none), "not said clearly");
}
