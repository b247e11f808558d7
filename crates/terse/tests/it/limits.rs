//! The default limits.

use std::time::Duration;

use serde_json::{Value, json};
use terse::config::LimitsConfig;
use terse_core::registry::Role;

use crate::bans::TestAccount;
use crate::harness::{Answer, TestTerse};

fn limited(change: impl FnOnce(&mut terse::Config)) -> TestTerse {
    TestTerse::with(|config| {
        config.limits = LimitsConfig::default();
        change(config);
    })
}

fn link() -> Value {
    json!({"long_url": "https://example.com/"})
}

fn create_as(terse: &TestTerse, forwarded: &str) -> Answer {
    terse.send(
        "POST",
        "/api/v1/urls",
        &[("x-forwarded-for", forwarded)],
        Some(link().to_string().as_bytes()),
    )
}

fn number(answer: &Answer, name: &str) -> Option<u64> {
    answer.header(name).and_then(|value| value.parse().ok())
}

#[test]
fn forged_addresses_of_an_untrusted_client_share_one_bucket() {
    let terse = limited(|_| ());
    let statuses: Vec<u16> = (0..1000)
        .map(|i| create_as(&terse, &format!("198.51.{}.{}", i / 250, i % 250)).status)
        .collect();
    assert_eq!(statuses[..30], [201; 30]);
    assert!(statuses[30..].iter().all(|status| *status == 429), "{statuses:?}");
}

#[test]
fn behind_a_proxy_of_ours_each_of_a_thousand_has_a_bucket_and_none_has_two() {
    let terse = limited(|config| config.trusted_proxies = vec!["127.0.0.1".into()]);
    for i in 0..1000 {
        let answer =
            create_as(&terse, &format!("6.6.6.{}, 198.51.{}.{}", i % 200, i / 250, i % 250));
        assert_eq!((answer.status, number(&answer, "ratelimit-remaining")), (201, Some(29)), "{i}");
    }
    // Entries before the client address were written by the client and are ignored.
    let statuses: Vec<u16> =
        (0..40).map(|i| create_as(&terse, &format!("7.7.7.{i}, 203.0.113.7")).status).collect();
    assert_eq!((statuses[29], statuses[30]), (201, 429), "{statuses:?}");
    let in_one_network: Vec<u16> =
        (0..40).map(|i| create_as(&terse, &format!("2001:db8:1:1::{i:x}")).status).collect();
    assert_eq!((in_one_network[29], in_one_network[30]), (201, 429), "{in_one_network:?}");
}

#[test]
fn tokens_come_back_with_time_and_the_fields_say_when() {
    let terse = limited(|_| ());
    for left in (0..30).rev() {
        let answer = terse.anonymous("POST", "/urls", Some(link()));
        assert_eq!((answer.status, number(&answer, "ratelimit-limit")), (201, Some(30)));
        assert_eq!(number(&answer, "ratelimit-remaining"), Some(left));
        let reset = number(&answer, "ratelimit-reset").unwrap();
        assert_eq!((reset, answer.header("retry-after")), ((30 - left) * 120, None));
    }
    let refused = terse.anonymous("POST", "/urls", Some(link()));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (429, Some("rate_limited")));
    let wait = number(&refused, "retry-after").unwrap();
    assert!((1..=120).contains(&wait), "{wait}");
    // An admin key is not limited.
    terse.create(json!({"long_url": "https://example.com/admin"}));
    terse.clock().advance(Duration::from_secs(wait));
    assert_eq!(terse.anonymous("POST", "/urls", Some(link())).status, 201);
    assert_eq!(terse.anonymous("POST", "/urls", Some(link())).status, 429);
    terse.clock().advance(Duration::from_hours(1));
    let many: Value = (0..30).map(|_| link()).collect();
    let answer = terse.anonymous("POST", "/urls/bulk", Some(many.clone()));
    assert_eq!((answer.status, number(&answer, "ratelimit-remaining")), (207, Some(0)));
    assert_eq!(terse.anonymous("POST", "/urls/bulk", Some(many)).status, 429);
    let metrics = terse.get("/metrics").text();
    assert!(metrics.contains("terse_creates_total{outcome=\"limited\"} 32\n"), "{metrics}");
}

#[test]
fn the_settings_limit_an_account_and_the_keys_at_one_address() {
    let terse = limited(|config| {
        config.limits.create_per_account = "3/h".parse().unwrap();
        config.limits.create_per_ip_with_key = "4/h".parse().unwrap();
    });
    let create = |key: &str| {
        let key = format!("Bearer {key}");
        let fields = [("authorization", key.as_str()), ("content-type", "application/json")];
        let body = json!({"long_url": "https://example.com/", "reuse": false}).to_string();
        terse.send("POST", "/api/v1/urls", &fields, Some(body.as_bytes()))
    };
    let refused = |answer: &Answer, why: &str| {
        assert_eq!((answer.status, &answer.json()["code"]), (429, &json!("rate_limited")));
        assert!(answer.text().contains(why), "{}", answer.text());
    };
    let ann = TestAccount::new(&terse, "ann", Role::User);
    let second = json!({"name": "second", "scope": "create"});
    let second = ann.api(&terse, "POST", "/keys", Some(second)).json();
    let second = second["key"].as_str().unwrap_or_else(|| panic!("{second}"));
    for key in [&ann.key, second, second] {
        assert_eq!(create(key).status, 201);
    }
    for key in [&ann.key, second] {
        refused(&create(key), "with all keys of the account");
    }
    let bob = TestAccount::new(&terse, "bob", Role::User);
    assert_eq!(create(&bob.key).status, 201);
    refused(&create(&bob.key), "from this address");
}

#[test]
fn an_address_that_guesses_codes_is_limited_for_a_minute_and_still_follows_links() {
    let terse = limited(|_| ());
    terse.alias("ok1234", "https://example.com/");
    for i in 0..60 {
        assert_eq!(terse.get(&format!("/guess-{i}")).status, 404, "{i}");
    }
    let refused = terse.browse("/guess-again");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert!(
        refused.header("content-type").unwrap().starts_with("text/html")
            && refused.text().contains("Too many requests"),
        "{refused:?}"
    );
    assert_eq!(terse.send("HEAD", "/guess-again", &[], None).status, 429);
    assert_eq!(terse.get("/%67uess-again").status, 429, "escaped, it is the same guess");
    for _ in 0..100 {
        assert_eq!(terse.get("/ok1234").status, 302);
    }
    assert!(
        terse.get("/metrics").text().contains("terse_redirects_total{outcome=\"limited\"} 3\n")
    );
    terse.clock().advance(Duration::from_mins(1));
    assert_eq!(terse.get("/guess-again").status, 404);
}

#[test]
fn redirects_are_limited_where_the_operator_wants_it() {
    let [by_address, by_code] = [true, false].map(|address| {
        limited(|config| {
            let limit = "100/min".parse().unwrap();
            *(if address {
                &mut config.limits.redirect_per_ip
            } else {
                &mut config.limits.redirect_per_code
            }) = limit;
        })
    });
    for (terse, other) in [(&by_address, 429), (&by_code, 302)] {
        for code in ["one1234", "two1234"] {
            terse.alias(code, "https://example.com/");
        }
        for i in 0..100 {
            let method = ["GET", "HEAD"][i % 2];
            assert_eq!(terse.send(method, "/one1234", &[], None).status, 302, "{i}");
        }
        assert_eq!(terse.get("/one1234").status, 429);
        assert_eq!(terse.get("/%6Fne1234").status, 429);
        assert_eq!(terse.get("/two1234").status, other);
        terse.clock().advance(Duration::from_secs(1));
        assert_eq!(terse.get("/one1234").status, 302);
    }
}
