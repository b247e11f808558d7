//! Redirect rules with a real client.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use terse_core::Timestamp;
use terse_core::registry::Role;
use terse_testkit::wait_until;

use crate::bans::TestAccount;
use crate::harness::{Answer, TestTerse};

const HOME: &str = "https://example.com/home";
const THERE: &str = "https://example.com/there";
const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) \
    AppleWebKit/605.1.15 (KHTML, like Gecko) \
    Version/17.5 Mobile/15E148 Safari/604.1";
const WINDOWS: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like \
    Gecko) Chrome/126.0.0.0 Safari/537.36";
const UBUNTU: &str =
    "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0";
/// In the bundled GeoIP data, the first is in the United States, the second in Germany.
const AMERICAN: &str = "8.8.8.8";
const GERMAN: &str = "141.20.1.1";

fn behind_a_proxy() -> TestTerse {
    TestTerse::with(|config| config.trusted_proxies = vec!["127.0.0.1".into()])
}

fn ruled(terse: &TestTerse, rule: Value) -> String {
    let mut rule = rule;
    rule["to"] = THERE.into();
    terse.create(json!({"long_url": HOME, "rules": [rule]}))
}

fn follow(terse: &TestTerse, path: &str, fields: &[(&str, &str)]) -> Answer {
    let answer = terse.send("GET", path, fields, None);
    assert_eq!(answer.status, 302, "{path} {fields:?} {}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("private, max-age=0, no-store"));
    let looked = terse.send("HEAD", path, fields, None);
    assert_eq!((looked.status, looked.location()), (302, answer.location()), "HEAD {path}");
    answer
}

#[test]
fn each_condition_sends_the_right_visitors_elsewhere() {
    let terse = behind_a_proxy();
    type Fields = &'static [(&'static str, &'static str)];
    let cases: [(Value, &str, Fields, &str, Fields); 9] = [
        (
            json!({"device": "mobile"}),
            "",
            &[("user-agent", IPHONE)],
            "",
            &[("user-agent", WINDOWS)],
        ),
        (
            json!({"os": ["iOS", "Linux"]}),
            "",
            &[("user-agent", UBUNTU)],
            "",
            &[("user-agent", WINDOWS)],
        ),
        (
            json!({"language": "de"}),
            "",
            &[("accept-language", "fr;q=0.2, de-AT")],
            "",
            &[("accept-language", "fr, de;q=0.9")],
        ),
        (
            json!({"country": "US"}),
            "",
            &[("x-forwarded-for", AMERICAN)],
            "",
            &[("x-forwarded-for", GERMAN)],
        ),
        (json!({"query": {"name": "ref", "value": "a b"}}), "?x=1&ref=a%20b", &[], "?ref=a", &[]),
        (json!({"query": {"name": "ref"}}), "?ref", &[], "?reference=1", &[]),
        (json!({"from": "2020-01-01"}), "", &[], "", &[("never", "met")]),
        (
            json!({"device": "mobile", "country": ["DE", "AT"], "language": "de"}),
            "",
            &[("user-agent", IPHONE), ("x-forwarded-for", GERMAN), ("accept-language", "de")],
            "",
            &[("user-agent", IPHONE), ("x-forwarded-for", AMERICAN), ("accept-language", "de")],
        ),
        (json!({}), "", &[], "", &[("never", "met")]),
    ];
    for (rule, query, fields, other_query, other_fields) in cases {
        let code = ruled(&terse, rule.clone());
        for _ in 0..2 {
            let answer = follow(&terse, &format!("/{code}{query}"), fields);
            assert_eq!(answer.location(), Some(THERE), "{rule}");
            if other_fields != [("never", "met")] {
                let answer = follow(&terse, &format!("/{code}{other_query}"), other_fields);
                assert_eq!(answer.location(), Some(HOME), "{rule}");
            }
        }
        // A visitor without headers matches no condition.
        assert_eq!(
            terse.exchange(format!("GET /{code} HTTP/1.0\r\n\r\n").as_bytes()).unwrap().status,
            302
        );
    }
}

#[test]
fn a_window_opens_and_closes_with_the_clock() {
    let terse = TestTerse::start();
    let now = terse.clock().now();
    let at = |secs: u64| now.checked_add(Duration::from_secs(secs)).unwrap().to_string();
    let code = ruled(&terse, json!({"from": at(100), "until": at(200)}));
    for (wait, want) in [(0, HOME), (100, THERE), (99, THERE), (1, HOME)] {
        terse.clock().advance(Duration::from_secs(wait));
        assert_eq!(follow(&terse, &format!("/{code}"), &[]).location(), Some(want));
    }
    let hour = |at: Timestamp| at.to_string()[11..13].parse::<u32>().unwrap();
    let next = (hour(terse.clock().now()) + 1) % 24;
    let code = ruled(&terse, json!({"hours": format!("{next:02}:00-{:02}:00", (next + 1) % 24)}));
    assert_eq!(follow(&terse, &format!("/{code}"), &[]).location(), Some(HOME));
    terse.clock().advance(Duration::from_hours(1));
    assert_eq!(follow(&terse, &format!("/{code}"), &[]).location(), Some(THERE));
}

#[test]
fn a_client_cannot_choose_its_own_address() {
    let terse = TestTerse::start();
    let code = ruled(&terse, json!({"country": "US"}));
    assert_eq!(
        follow(&terse, &format!("/{code}"), &[("x-forwarded-for", AMERICAN)]).location(),
        Some(HOME)
    );
}

#[test]
fn a_split_divides_a_thousand_visitors_by_its_weights_and_keeps_each_on_their_way() {
    let terse = behind_a_proxy();
    let split = json!([
        {"to": [{"url": "https://example.com/a", "weight": 3}, {"url": "https://example.com/b"}]}
    ]);
    let code = terse.create(json!({"long_url": HOME, "rules": split}));
    let mut ways: BTreeMap<String, u32> = BTreeMap::new();
    for n in 0..1000_u32 {
        let address = format!("11.0.{}.{}", n / 250, n % 250);
        let go = || {
            let fields: &[(&str, &str)] = &[("x-forwarded-for", &address), ("user-agent", WINDOWS)];
            terse.send("GET", &format!("/{code}"), fields, None).location().unwrap().to_owned()
        };
        let way = go();
        if n % 20 == 0 {
            assert_eq!(go(), way);
        }
        *ways.entry(way).or_default() += 1;
    }
    // Deterministic except for the generated code, which is part of the split key.
    assert!((660..840).contains(&ways["https://example.com/a"]) && ways.len() == 2, "{ways:?}");
}

#[test]
fn rules_work_with_the_other_options_of_a_link() {
    let terse = TestTerse::start();
    let rules = json!([{"query": {"name": "ref"}, "to": "https://example.com/there?own=1"}]);
    let code = terse.create(json!({
        "long_url": HOME, "rules": rules, "forward_query": true, "max_clicks": 2, "redirect": 301
    }));
    for method in ["HEAD", "GET", "HEAD", "GET"] {
        let answer = terse.send(method, &format!("/{code}?ref=x"), &[], None);
        assert_eq!(
            (answer.status, answer.location()),
            (301, Some("https://example.com/there?own=1&ref=x")),
            "{method}"
        );
        assert_eq!(answer.header("cache-control"), Some("private, max-age=0, no-store"));
    }
    assert_eq!(terse.get(&format!("/{code}?ref=x")).status, 410);
    // Permanent, but not cacheable, because rules decide.
    let code = terse.create(
        json!({"long_url": HOME, "rules": rules, "redirect": 308, "custom_alias": "rule-308"}),
    );
    let answer = terse.get(&format!("/{code}"));
    assert_eq!((answer.status, answer.location()), (308, Some(HOME)));
    assert_eq!(answer.header("cache-control"), Some("private, max-age=0, no-store"));
    // The next visitor gets the change.
    terse.api("PATCH", "/urls/rule-308", Some(json!({"rules": [{"to": THERE}]})));
    assert_eq!(terse.get("/rule-308").location(), Some(THERE));
    terse.api("PATCH", "/urls/rule-308", Some(json!({"rules": null})));
    assert_eq!(terse.get("/rule-308").location(), Some(HOME));
}

#[test]
fn rules_are_undone_like_any_change_and_wait_behind_a_password() {
    let terse = TestTerse::start();
    let code = ruled(&terse, json!({"device": "mobile"}));
    terse.api("PATCH", &format!("/urls/{code}"), Some(json!({"rules": null})));
    assert_eq!(
        follow(&terse, &format!("/{code}"), &[("user-agent", IPHONE)]).location(),
        Some(HOME)
    );
    assert_eq!(terse.api("POST", &format!("/urls/{code}/undo"), None).status, 200);
    assert_eq!(
        follow(&terse, &format!("/{code}"), &[("user-agent", IPHONE)]).location(),
        Some(THERE)
    );
    terse.api("PATCH", &format!("/urls/{code}"), Some(json!({"password": "open sesame"})));
    let form = [("user-agent", IPHONE), ("content-type", "application/x-www-form-urlencoded")];
    let answer = terse.send("POST", &format!("/{code}"), &form, Some(b"password=open+sesame"));
    assert_eq!((answer.status, answer.location()), (303, Some(THERE)), "{}", answer.text());
    let closed = terse.send("GET", &format!("/{code}"), &[("user-agent", IPHONE)], None);
    assert!(closed.location().is_none() && !closed.text().contains(THERE), "{}", closed.text());
    assert!(!terse.browse(&format!("/{code}+")).text().contains(THERE));
}

#[test]
fn the_preview_shows_every_place_a_link_may_lead_to() {
    let terse = TestTerse::start();
    let code = ruled(&terse, json!({"device": "mobile"}));
    let page = terse.browse(&format!("/{code}+")).text();
    assert!(page.contains(HOME) && page.contains(THERE), "{page}");
}

#[test]
fn the_warning_page_applies_redirect_rules() {
    let terse = behind_a_proxy();
    let rules = json!([
        {"device": "mobile", "to": "https://phones.example.net/"},
        {"query": {"name": "ref"}, "to": "https://refs.example.net/?own=1"},
        {"country": "DE", "to": [
            {"url": "https://de-a.example.net/"}, {"url": "https://de-b.example.net/"}
        ]},
    ]);
    let code = terse
        .create(json!({"long_url": HOME, "rules": rules, "forward_query": true, "reuse": false}));
    type Fields = &'static [(&'static str, &'static str)];
    let visitors: [(&str, Fields, &str); 5] = [
        ("", &[("user-agent", WINDOWS)], HOME),
        ("", &[("user-agent", IPHONE)], "https://phones.example.net/"),
        ("?ref=%3Cb%3E", &[("user-agent", WINDOWS)], "https://refs.example.net/?own=1&ref=%3Cb%3E"),
        ("", &[("x-forwarded-for", GERMAN), ("user-agent", WINDOWS)], "https://de-"),
        ("", &[("x-forwarded-for", "141.20.1.2"), ("user-agent", UBUNTU)], "https://de-"),
    ];
    let ways = visitors.map(|(query, fields, want)| {
        let way = follow(&terse, &format!("/{code}{query}"), fields).location().unwrap().to_owned();
        assert!(way.starts_with(want), "{way} {want}");
        way
    });
    terse.api(
        "PUT",
        &format!("/admin/links/{code}/standing"),
        Some(json!({"standing": "suspicious"})),
    );
    for ((query, fields, _), way) in visitors.iter().zip(ways) {
        let page = terse.send("GET", &format!("/{code}{query}"), fields, None);
        assert_eq!((page.status, page.location()), (200, None));
        let (text, host) = (page.text(), way.split('/').nth(2).unwrap().to_owned());
        let button = format!("\" rel=\"noreferrer noopener nofollow\">Continue to {host}<");
        assert!(
            text.contains(&button) && text.contains(&format!("<p class=\"host\">{host}</p>")),
            "{button} in {text}"
        );
        let (before, _) = text.split_once(&button).unwrap();
        let on = before.rsplit("href=\"").next().unwrap().replace("&#38;", "&");
        let went = terse.send("GET", &on, fields, None);
        assert_eq!((went.status, went.location()), (302, Some(&*way)), "{on}");
        // The other targets are listed, without duplicates.
        for other in [
            HOME,
            "https://phones.example.net/",
            "https://de-a.example.net/",
            "https://de-b.example.net/",
        ] {
            let listed = text.matches(&format!("<li>{other}</li>")).count();
            assert_eq!(listed, usize::from(other != way), "{other} in {text}");
        }
    }
}

#[test]
fn a_visit_by_a_rule_is_counted_once_and_for_the_links_owner() {
    let terse = TestTerse::start();
    let (ann, bob) =
        (TestAccount::new(&terse, "ann", Role::User), TestAccount::new(&terse, "bob", Role::User));
    let made = ann.api(
        &terse,
        "POST",
        "/urls",
        Some(json!({"long_url": HOME, "rules": [{"device": "mobile", "to": THERE}]})),
    );
    let code = made.json()["short_code"].as_str().unwrap().to_owned();
    let visit = |agent| terse.send("GET", &format!("/{code}"), &[("user-agent", agent)], None);
    for (agent, way) in [(IPHONE, THERE), (IPHONE, THERE), (WINDOWS, HOME)] {
        assert_eq!(visit(agent).location(), Some(way));
    }
    let total = |path: &str| {
        ann.api(&terse, "GET", path, None).json()["total_clicks"].as_u64().unwrap_or(0)
    };
    wait_until("the visits are counted", || total("/stats") >= 3);
    assert_eq!((total("/stats"), total(&format!("/urls/{code}/stats"))), (3, 3));
    assert_eq!(
        bob.api(&terse, "GET", "/stats", None).json()["total_clicks"],
        0,
        "other accounts do not see them"
    );
}

#[test]
fn rules_outlive_a_restart() {
    let mut terse = TestTerse::start();
    let code = ruled(&terse, json!({"device": "mobile"}));
    terse.restart();
    assert_eq!(
        follow(&terse, &format!("/{code}"), &[("user-agent", IPHONE)]).location(),
        Some(THERE)
    );
}

#[test]
fn a_dry_run_says_where_a_visitor_goes_and_why() {
    let terse = behind_a_proxy();
    let rules = json!([
        {"device": "tablet", "to": "https://example.com/1"},
        {"country": "DE", "language": "de", "to": "https://example.com/2"},
        {"os": "iOS", "to": [{"url": "https://example.com/3"}, {"url": "https://example.com/4"}]}
    ]);
    let code = terse.create(json!({"long_url": HOME, "rules": rules, "forward_query": true}));
    let visitor =
        json!({"user_agent": IPHONE, "address": GERMAN, "accept_language": "en", "query": "?a=b"});
    let saved = terse.api("POST", &format!("/urls/{code}/try"), Some(visitor.clone()));
    assert_eq!(saved.status, 200, "{}", saved.text());
    let saved = saved.json();
    assert_eq!(saved["rule"], 2);
    assert_eq!(
        saved["steps"][0],
        json!({"rule": 0, "matched": false, "why": ["the device is mobile, not tablet"]})
    );
    assert_eq!(
        saved["steps"][1],
        json!({"rule": 1, "matched": false, "why": ["the preferred language is en, not de"]})
    );
    assert_eq!(
        (&saved["why"], &saved["status"]),
        (&json!("rules[2] matches: the operating system is iOS"), &json!("active"))
    );
    assert_eq!(saved["seen"]["country"], "DE");
    // A real visit gets the target of the dry run.
    let fields = [("user-agent", IPHONE), ("x-forwarded-for", GERMAN), ("accept-language", "en")];
    assert_eq!(
        follow(&terse, &format!("/{code}?a=b"), &fields).location(),
        saved["location"].as_str()
    );

    let unsaved = json!({
        "long_url": HOME, "rules": rules,
        "visitor": {"country": "DE", "accept_language": "de-AT"}
    });
    let shown = terse.api("POST", "/rules/try", Some(unsaved)).json();
    assert_eq!(
        (&shown["rule"], &shown["long_url"], &shown["status"]),
        (&json!(1), &json!("https://example.com/2"), &Value::Null)
    );
    let unknown = terse.api("POST", &format!("/urls/{code}/try"), Some(json!({}))).json();
    assert_eq!((&unknown["rule"], &unknown["long_url"]), (&Value::Null, &json!(HOME)));
    assert_eq!(unknown["why"], "no rule matches, so the link's own target stays");
    assert_eq!(
        unknown["steps"][0]["why"][0],
        "the device is unknown, and the rule requires tablet"
    );

    for (body, field) in [
        (json!({"country": "DE", "address": GERMAN}), "country"),
        (json!({"country": "Germany"}), "country"),
        (json!({"address": "somewhere"}), "address"),
        (json!({"at": "later"}), "at"),
        (json!({"visitor_id": "x".repeat(201)}), "visitor_id"),
        (json!({"browser": "x"}), "browser"),
    ] {
        let problem = terse.api("POST", &format!("/urls/{code}/try"), Some(body.clone())).json();
        assert_eq!((&problem["status"], &problem["field"]), (&json!(400), &json!(field)), "{body}");
    }
    let bad = json!({"long_url": HOME, "rules": [{"to": "https://go.example/x"}]});
    let problem = terse.api("POST", "/rules/try", Some(bad)).json();
    assert_eq!(
        (&problem["code"], &problem["field"]),
        (&json!("self_reference"), &json!("rules[0].to"))
    );
    let bad = json!({"long_url": HOME, "visitor": {"at": "x"}});
    assert_eq!(terse.api("POST", "/rules/try", Some(bad)).json()["field"], "visitor.at");
    assert_eq!(terse.anonymous("POST", &format!("/urls/{code}/try"), Some(json!({}))).status, 401);
    assert_eq!(terse.api("POST", "/urls/no-such-1/try", Some(json!({}))).status, 404);
}
