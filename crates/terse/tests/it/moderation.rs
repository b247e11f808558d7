//! Reports and moderation, with a real client.

use serde_json::{Value, json};
use terse_core::registry::BlockedHost;
use terse_testkit::wait_until;

use crate::bans::{by, wait};
use crate::harness::{Answer, TestTerse};

const WHY: &str = "it imitates a bank";
/// A server behind a trusted proxy.
fn behind_proxy() -> TestTerse {
    TestTerse::with(|config| config.trusted_proxies = vec!["127.0.0.1".into()])
}

fn report(terse: &TestTerse, code: &str, from: &str) -> u16 {
    let body = json!({"reason": "phishing"}).to_string();
    terse
        .send(
            "POST",
            &format!("/api/v1/urls/{code}/report"),
            &[("x-forwarded-for", from)],
            Some(body.as_bytes()),
        )
        .status
}

fn admin(terse: &TestTerse, path: &str) -> Value {
    let answer = terse.api("GET", &format!("/admin{path}"), None);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The audit records of a subject, the latest first.
fn acts(terse: &TestTerse, subject: &str) -> Vec<String> {
    let log = admin(terse, &format!("/audit?subject={subject}"));
    log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["act"].as_str().unwrap().to_owned())
        .collect()
}

/// Checks that a warning page does not redirect.
fn is_warning(answer: &Answer) {
    let text = answer.text();
    assert_eq!((answer.status, answer.location(), answer.header("refresh")), (200, None, None));
    assert!(
        text.contains("Suspicious link")
            && !text.contains("<script")
            && !text.contains("http-equiv"),
        "{text}"
    );
}

#[test]
fn reports_of_three_networks_put_up_a_warning_that_a_moderator_overrides() {
    let terse = behind_proxy();
    for code in ["bad1", "good1", "fine1"] {
        terse.alias(code, &format!("https://example.com/{code}"));
        for _ in 0..5 {
            assert_eq!(terse.get(&format!("/{code}")).status, 302);
        }
    }
    for n in 1..=9 {
        assert_eq!(report(&terse, "fine1", &format!("198.51.100.{n}")), 202);
    }
    assert_eq!(terse.get("/fine1").status, 302, "one network is one reporter");
    for code in ["bad1", "good1"] {
        for (n, from) in ["198.51.100.1", "203.0.113.1", "2001:db8:1::1"].into_iter().enumerate() {
            assert_eq!(terse.get(&format!("/{code}")).status, 302, "{n} are not enough");
            assert_eq!(report(&terse, code, from), 202);
        }
        // From the cache, on every connection, without delay.
        let warned = terse.get(&format!("/{code}"));
        is_warning(&warned);
        assert!(warned.text().contains("Several visitors have reported it."));
        assert!(!warned.text().contains("phishing"), "the text of a report is not shown");
    }
    let queue = admin(&terse, "/reports");
    let counts: Vec<_> = queue["reports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["short_code"].clone(), one["count"].clone()))
        .collect();
    assert_eq!(
        counts,
        [(json!("fine1"), json!(1)), (json!("bad1"), json!(3)), (json!("good1"), json!(3))]
    );

    let confirmed = terse.api("POST", "/admin/links/bad1/confirm", Some(json!({"why": WHY})));
    assert_eq!((confirmed.status, &confirmed.json()["status"]), (200, &json!("blocked")));
    assert_eq!((terse.get("/bad1").status, terse.get("/bad1").location()), (451, None));
    let cleared =
        terse.api("POST", "/admin/links/good1/clear", Some(json!({"why": "all is well"})));
    assert_eq!((cleared.status, &cleared.json()["status"]), (200, &json!("active")));
    assert_eq!(terse.get("/good1").location(), Some("https://example.com/good1"));
    for from in ["198.51.100.1", "203.0.113.1", "2001:db8:1::1", "192.0.2.1"] {
        assert_eq!(report(&terse, "good1", from), 202);
    }
    assert_eq!(terse.get("/good1").status, 302, "cleared by a moderator");
    assert_eq!(acts(&terse, "link:/bad1"), ["report_settled", "link_judged", "link_screened"]);
    let line = admin(&terse, "/audit?subject=link:/bad1&act=link_judged")["entries"][0].clone();
    assert_eq!((&line["why"], &line["actor"]["id"]), (&json!(WHY), &json!(1)));
    assert_eq!(
        (&line["before"]["standing"], &line["after"]["standing"]),
        (&json!("suspicious"), &json!("blocked"))
    );
    assert_eq!(admin(&terse, "/reports?state=confirmed")["reports"][0]["short_code"], "bad1");
}

#[test]
fn what_was_decided_and_reported_survives_a_restart() {
    let mut terse = behind_proxy();
    for code in ["warned1", "blocked1", "open1"] {
        terse.alias(code, "https://example.com/");
    }
    for from in ["198.51.100.1", "203.0.113.1", "2001:db8:1::1"] {
        report(&terse, "warned1", from);
    }
    report(&terse, "open1", "198.51.100.1");
    terse.api("POST", "/admin/links/blocked1/confirm", Some(json!({"why": WHY})));
    terse.restart();
    is_warning(&terse.get("/warned1"));
    assert_eq!((terse.get("/blocked1").status, terse.get("/open1").status), (451, 302));
    assert_eq!(admin(&terse, "/reports")["reports"].as_array().unwrap().len(), 2);
    assert_eq!(acts(&terse, "link:/blocked1"), ["link_judged"]);
    // Another address of the same network counts as the same reporter.
    assert_eq!(report(&terse, "open1", "198.51.100.200"), 202);
    report(&terse, "open1", "203.0.113.1");
    assert_eq!(terse.get("/open1").status, 302);
    report(&terse, "open1", "192.0.2.1");
    is_warning(&terse.get("/open1"));
}

#[test]
fn a_link_is_reported_by_a_form() {
    let terse = behind_proxy();
    terse.alias("odd1", "https://example.com/");
    assert_eq!(terse.get("/odd1").status, 302);
    let form = terse.browse("/odd1?report");
    assert_eq!((form.status, form.location()), (200, None));
    assert!(
        form.text().contains("action=\"/odd1?report\"") && form.text().contains("method=\"post\""),
        "{}",
        form.text()
    );
    assert!(terse.browse("/odd1+").text().contains("href=\"/odd1?report\""));
    for (from, want) in [("198.51.100.1", 302), ("203.0.113.1", 302), ("192.0.2.1", 200)] {
        let fields = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("x-forwarded-for", from),
            ("sec-fetch-site", "same-origin"),
        ];
        let sent = terse.send("POST", "/odd1?report", &fields, Some(b"reason=spam&text="));
        assert_eq!((sent.status, sent.location()), (303, Some("/r/odd1/report?sent")));
        let thanks = terse.browse(sent.location().unwrap());
        assert!(thanks.status == 200 && thanks.text().contains("Thank you"));
        assert_eq!(terse.get("/odd1").status, want, "{from}");
    }
    assert_eq!(terse.browse("/nothing1?report").status, 404);
    let elsewhere = terse.send(
        "POST",
        "/odd1",
        &[("content-type", "application/x-www-form-urlencoded")],
        Some(b"reason=spam"),
    );
    assert_eq!((elsewhere.status, elsewhere.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(terse.get("/odd1?report=1").status, 200, "that is a visit");
}

/// Where the button of a warning page leads.
fn button(page: &str) -> String {
    let (before, _) =
        page.split_once("\" rel=\"noreferrer noopener nofollow\">Continue to").unwrap();
    before.rsplit("href=\"").next().unwrap().replace("&#38;", "&").replace("&amp;", "&")
}

#[test]
fn continuing_from_a_warning_is_counted_and_redirects() {
    let terse = TestTerse::with(|config| config.trusted_proxies = vec!["127.0.0.1".into()]);
    let warn = |code: &str| {
        let path = format!("/admin/links/{code}/standing");
        assert_eq!(terse.api("PUT", &path, Some(json!({"standing": "suspicious"}))).status, 200);
    };
    let metric = |name: &str| -> f64 {
        let text = terse.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}")).parse().expect("a number")
    };
    let visit = |path: &str, from: &str| {
        terse.send("GET", path, &[("accept", "text/html"), ("x-forwarded-for", from)], None)
    };
    terse.create(json!({
        "long_url": "https://example.com/?a=1", "custom_alias": "odd1", "forward_query": true
    }));
    warn("odd1");
    let (warned, clicks) = (
        metric(r#"terse_redirects_total{outcome="warned"}"#),
        metric(r#"terse_clicks_total{what="journaled"}"#),
    );
    let page = visit("/odd1?x=1&y=%22", "192.0.2.1");
    assert_eq!((page.status, page.location()), (200, None));
    assert_eq!(metric(r#"terse_redirects_total{outcome="warned"}"#), warned + 1.0);
    assert_eq!(metric(r#"terse_clicks_total{what="journaled"}"#), clicks + 1.0, "a view");
    let on = button(&page.text());
    assert!(on.starts_with("/odd1/go?pass="), "{on}");
    let went = visit(&on, "192.0.2.1");
    assert_eq!((went.status, went.location()), (302, Some("https://example.com/?a=1&x=1&y=%22")));
    assert!(went.header("cache-control").unwrap().contains("no-store"));
    assert_eq!(metric("terse_warnings_passed_total"), 1.0);
    assert_eq!(metric(r#"terse_clicks_total{what="journaled"}"#), clicks + 2.0, "a click");
    let begun = std::time::Instant::now();
    let stats = loop {
        let stats = terse.api("GET", "/urls/odd1/stats", None).json();
        if stats["total_clicks"] == 1 || begun.elapsed() > std::time::Duration::from_secs(30) {
            break stats;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let counted = ["total_clicks", "warned", "went_on"].map(|name| stats[name].as_u64());
    assert_eq!(counted, [Some(1); 3], "the page was seen once, and the visitor went on");
    // The pass is not for others, and not forever.
    let again = (303, Some("/odd1"));
    let strange = visit(&on, "192.0.2.2");
    assert_eq!((strange.status, strange.location()), again);
    for path in ["/odd1/go", "/odd1/go?pass=", "/odd1/go?pass=AAAA", "/odd1/go?x=1"] {
        let answer = visit(path, "192.0.2.1");
        assert_eq!((answer.status, answer.location()), again, "{path}");
    }
    terse.clock().advance(std::time::Duration::from_secs(3600));
    let late = visit(&on, "192.0.2.1");
    assert_eq!((late.status, late.location()), again);
    // Clicks are still limited behind a warning, and a blocked link stays blocked.
    terse.create(json!({
        "long_url": "https://example.com/once", "custom_alias": "once1", "max_clicks": 1
    }));
    warn("once1");
    let on = button(&visit("/once1", "192.0.2.1").text());
    assert_eq!(visit(&on, "192.0.2.1").location(), Some("https://example.com/once"));
    assert_eq!(visit(&on, "192.0.2.1").status, 410);
    let on = button(&visit("/odd1", "192.0.2.1").text());
    terse.api("PUT", "/admin/links/odd1/standing", Some(json!({"standing": "blocked"})));
    assert_eq!(visit(&on, "192.0.2.1").status, 451);
    assert_eq!(metric("terse_warnings_passed_total"), 2.0);
}

#[test]
fn reports_are_limited_by_address() {
    let terse = TestTerse::with(|config| {
        config.trusted_proxies = vec!["127.0.0.1".into()];
        config.limits.report_per_ip = "2/h".parse().unwrap();
    });
    terse.alias("many1", "https://example.com/");
    assert_eq!([(); 3].map(|()| report(&terse, "many1", "198.51.100.1")), [202, 202, 429]);
    assert_eq!(report(&terse, "many1", "198.51.100.2"), 202);
}

#[test]
fn the_warning_page_names_the_real_host_and_never_forwards() {
    let terse = behind_proxy();
    terse.alias("idn1", "https://münchen.example/weg?x=1");
    for from in ["198.51.100.1", "203.0.113.1", "192.0.2.1"] {
        report(&terse, "idn1", from);
    }
    for answer in [terse.get("/idn1"), terse.browse("/idn1"), terse.browse("/r/idn1")] {
        is_warning(&answer);
        let text = answer.text();
        for part in [
            "xn--mnchen-3ya.example",
            "münchen.example",
            "Several visitors have reported it.",
            "href=\"/idn1?report\"",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        // One heading for the section, a skip link, and two plain links.
        assert!(
            text.contains("<section class=\"warn\" aria-labelledby=\"warning\">")
                && text.contains("id=\"warning\"")
        );
        assert!(text.contains("href=\"#main\"") && text.contains("<html lang=\"en\">"));
        let back = text.find("Back to safety").unwrap();
        assert!(
            back < text.find("Continue to xn--mnchen-3ya.example").unwrap(),
            "the safe way comes first"
        );
        assert!(text.contains("rel=\"noreferrer noopener nofollow\"") && !text.contains("onclick"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn a_blocked_host_is_refused_and_links_to_it_are_taken_down_until_it_is_unblocked() {
    let mut terse = TestTerse::start();
    terse.alias("hot1", "https://a.b.bad.example.net/");
    terse.alias("other1", "https://notbad.example.net/");
    for _ in 0..5 {
        assert_eq!(terse.get("/hot1").status, 302);
    }
    let blocked =
        terse.api("POST", "/admin/blocklist", Some(json!({"host": "BAD.example.net", "why": WHY})));
    assert_eq!((blocked.status, &blocked.json()["host"]), (201, &json!("bad.example.net")));
    assert_eq!(
        terse.get("/hot1").status,
        451,
        "remembered, and taken down all the same when the call returns"
    );
    let make = |terse: &TestTerse| {
        terse.anonymous("POST", "/urls", Some(json!({"long_url": "https://bad.example.net/"})))
    };
    assert_eq!(
        (make(&terse).status, &make(&terse).json()["code"]),
        (422, &json!("blocked_destination"))
    );
    assert!(!make(&terse).text().contains("moderators"), "the response does not name the source");
    assert_eq!(terse.get("/other1").status, 302);
    for host in ["go.example", "net", "co.uk"] {
        assert_eq!(
            terse.api("POST", "/admin/blocklist", Some(json!({"host": host, "why": WHY}))).status,
            400,
            "{host}"
        );
    }
    terse.restart();
    assert_eq!((make(&terse).status, terse.get("/hot1").status), (422, 451), "from the start");
    assert_eq!(terse.api("DELETE", "/admin/blocklist/bad.example.net", None).status, 204);
    assert_eq!(make(&terse).status, 201);
    wait_until("the link works again", || terse.get("/hot1").status == 302);
    // A change by another node: this node is not notified.
    let blocked =
        BlockedHost { host: "bad.example.net".into(), at: terse.clock().now(), why: None };
    wait(terse.registry().block_host(blocked, by())).unwrap();
    wait_until("the link is taken down again", || terse.get("/hot1").status == 451);
    assert_eq!(
        acts(&terse, "host:bad.example.net"),
        ["host_blocked", "host_unblocked", "host_blocked"]
    );
}
