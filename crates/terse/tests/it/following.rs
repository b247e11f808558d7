//! The response to a visit for each state of a link.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::TestTerse;

const TARGET: &str = "https://example.com/a?b=c#d";

#[test]
fn an_active_link_redirects_with_its_target_byte_for_byte() {
    let terse = TestTerse::start();
    let code = terse.create(json!({"long_url": TARGET}));
    assert_eq!(code.len(), 7);
    for method in ["GET", "HEAD"] {
        let answer = terse.send(method, &format!("/{code}"), &[], None);
        assert_eq!((answer.status, answer.location()), (302, Some(TARGET)), "{method}");
        assert_eq!(answer.header("cache-control"), Some("private, max-age=0, no-store"));
        assert_eq!(answer.header("x-robots-tag"), Some("noindex"));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert!(answer.body.is_empty() && answer.header("date").is_some());
    }
    assert_eq!(terse.get(&format!("/%{:X}{}", code.as_bytes()[0], &code[1..])).status, 302);
    for method in ["POST", "DELETE", "PUT"] {
        let answer = terse.send(method, &format!("/{code}"), &[], None);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
}

#[test]
fn a_link_with_one_or_two_characters_is_followed_on_both_paths() {
    for fast_path in [true, false] {
        let terse = TestTerse::with_fast_path(fast_path, |_| ());
        let imported = json!([{"long_url": TARGET, "short_code": "b"}]);
        terse.api("POST", "/admin/import", Some(imported));
        for alias in ["a", "Z9", "b"] {
            if alias != "b" {
                terse.create(json!({"long_url": TARGET, "custom_alias": alias}));
            }
            // The first visit reads the store, the second one the memory.
            for _ in 0..2 {
                let answer = terse.get(&format!("/{alias}"));
                assert_eq!((answer.status, answer.location()), (302, Some(TARGET)), "{alias}");
            }
            assert_eq!(terse.get(&format!("/{alias}?x=1")).status, 302, "{alias}");
            assert_eq!(terse.browse(&format!("/{alias}+")).status, 200, "{alias}");
            assert_eq!(terse.get(&format!("/{alias}/qr")).status, 200, "{alias}");
            terse.api("DELETE", &format!("/urls/{alias}"), None);
            assert_eq!(terse.get(&format!("/{alias}")).status, 404, "{alias}");
        }
        for unknown in ["/q", "/zz", "/r"] {
            assert_eq!(terse.get(unknown).status, 404, "{unknown}");
        }
        assert_eq!(terse.browse("/r/a?error=not_found").status, 404, "the page of a failure");
    }
}

#[test]
fn each_redirect_status_is_answered_as_asked_for() {
    let terse = TestTerse::start();
    for status in [301, 302, 307, 308] {
        let code = terse.create(json!({"long_url": TARGET, "redirect": status}));
        let answer = terse.get(&format!("/{code}"));
        assert_eq!((answer.status, answer.location()), (status, Some(TARGET)));
        let permanent = status == 301 || status == 308;
        assert_eq!(answer.header("cache-control") == Some("public, max-age=86400"), permanent);
    }
}

#[test]
fn a_link_with_307_or_308_answers_every_method_without_reading_the_body() {
    let terse = TestTerse::start();
    for status in [307, 308] {
        let alias = format!("keep{status}");
        terse.create(json!({"long_url": TARGET, "custom_alias": alias, "redirect": status}));
        let once = format!("once{status}");
        let limited = json!({
            "long_url": TARGET, "custom_alias": once, "redirect": status, "max_clicks": 5
        });
        terse.create(limited);
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            for code in [&alias, &once] {
                let answer = terse.send(method, &format!("/{code}"), &[], Some(b"{}"));
                assert_eq!((answer.status, answer.location()), (status, Some(TARGET)), "{method}");
            }
        }
        assert_eq!(terse.send("POST", &format!("/{once}"), &[], None).status, 410, "used up");
        // The answer comes before the body, which is never sent.
        let head = format!(
            "POST /{alias} HTTP/1.1\r\nHost: go.example\r\nContent-Length: 1000000\r\n\r\n"
        );
        let answer = terse.exchange(head.as_bytes()).expect("an answer");
        assert_eq!((answer.status, answer.location()), (status, Some(TARGET)));
    }
    assert_eq!(terse.send("POST", "/nosuch99", &[], None).status, 404);
    terse.api("PUT", "/admin/links/keep307/standing", Some(json!({"standing": "suspicious"})));
    let warning = terse.send("POST", "/keep307", &[("accept", "text/html")], Some(b"x"));
    assert_eq!((warning.status, warning.location()), (200, None));
    assert!(warning.text().contains("Suspicious link"), "{}", warning.text());
}

#[test]
fn the_page_of_an_ended_link_says_whether_it_expired_or_was_used_up() {
    let terse = TestTerse::start();
    terse.create(json!({"long_url": TARGET, "custom_alias": "expired1", "ttl": 60}));
    terse.create(json!({"long_url": TARGET, "custom_alias": "limited1", "max_clicks": 1}));
    assert_eq!(terse.get("/limited1").status, 302);
    terse.clock().advance(Duration::from_secs(60));
    for (code, detail, heading) in [
        ("expired1", "This link has expired.", "This link has expired"),
        (
            "limited1",
            "This link has been followed as often as its owner allowed.",
            "This link is used up",
        ),
    ] {
        for _ in 0..2 {
            let problem = terse.get(&format!("/{code}"));
            assert_eq!(problem.status, 410);
            assert_eq!(problem.json()["code"], "expired");
            assert_eq!(problem.json()["detail"], detail);
            for page in [format!("/{code}"), format!("/r/{code}"), format!("/{code}+")] {
                let page = terse.browse(&page);
                assert_eq!(page.status, 410);
                assert!(page.text().contains(heading), "{}", page.text());
            }
        }
    }
}

#[test]
fn a_blocked_link_names_the_operators_contact() {
    let terse = TestTerse::with(|config| {
        config.operator.abuse_contact = Some("abuse@example.org".parse().unwrap());
    });
    terse.alias("blocked1", TARGET);
    terse.api("PUT", "/admin/links/blocked1/standing", Some(json!({"standing": "blocked"})));
    let problem = terse.get("/blocked1");
    assert_eq!(problem.status, 451);
    let detail = problem.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.ends_with("contact abuse@example.org."), "{detail}");
    assert!(terse.browse("/blocked1").text().contains("mailto:abuse@example.org"));
}

#[test]
fn a_prefetch_of_a_link_with_limited_clicks_spends_nothing() {
    let terse = TestTerse::start();
    terse.create(json!({"long_url": TARGET, "custom_alias": "limited1", "max_clicks": 1}));
    terse.alias("ordinary", TARGET);
    let prefetch = |code: &str| terse.send("GET", code, &[("sec-purpose", "prefetch")], None);
    for _ in 0..3 {
        let answer = prefetch("/limited1");
        assert_eq!((answer.status, answer.location()), (503, None));
        assert!(answer.header("cache-control").unwrap().contains("no-store"));
        assert_eq!(prefetch("/ordinary").location(), Some(TARGET));
    }
    assert_eq!(terse.get("/limited1").status, 302);
    assert_eq!(terse.get("/limited1").status, 410);
}

#[test]
fn a_long_lived_permanent_redirect_is_immutable() {
    let terse = TestTerse::with(|config| {
        config.redirect.permanent_max_age = terse::config::HumanDuration::days(30);
    });
    for status in [301, 308] {
        let code = terse.create(json!({"long_url": TARGET, "redirect": status, "reuse": false}));
        let answer = terse.get(&format!("/{code}"));
        assert_eq!(answer.header("cache-control"), Some("public, max-age=2592000, immutable"));
        let brief = json!({"long_url": TARGET, "redirect": status, "ttl": 86_400, "reuse": false});
        let answer = terse.get(&format!("/{}", terse.create(brief)));
        let cached = answer.header("cache-control").unwrap();
        assert!(cached.starts_with("public") && !cached.contains("immutable"), "{cached}");
    }
}

#[test]
fn a_stable_link_becomes_permanent_where_the_operator_wants_that() {
    let links = [
        ("plain", json!({}), 301),
        ("other", json!({"redirect": 307}), 307),
        ("ending", json!({"ttl": 864_000}), 302),
        ("limited", json!({"max_clicks": 100}), 302),
        ("forwards", json!({"forward_query": true}), 302),
        ("ruled", json!({"rules": [{"device": "mobile", "to": "https://example.com/m"}]}), 302),
        ("flagged", json!({"long_url": "https://user@example.com/"}), 302),
    ];
    for after in [0, 3600] {
        let terse = TestTerse::with(|config| {
            config.redirect.permanent_after = terse::config::HumanDuration::secs(after);
            config.safety.warn_on = vec![];
        });
        for (alias, more, _) in &links {
            let mut body = json!({"long_url": TARGET, "custom_alias": alias});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            terse.create(body);
            let status = terse.get(&format!("/{alias}")).status;
            assert_eq!(status, if *alias == "other" { 307 } else { 302 }, "{alias} is new");
        }
        let password = "open sesame";
        let locked = json!({"long_url": TARGET, "custom_alias": "locked", "password": password});
        terse.create(locked);
        terse.clock().advance(Duration::from_secs(3600));
        for (alias, _, status) in &links {
            let want = if after == 0 && *status == 301 { 302 } else { *status };
            let answer = terse.get(&format!("/{alias}"));
            assert_eq!(answer.status, want, "{alias} after {after} s");
            let public = answer.header("cache-control").unwrap().starts_with("public");
            assert_eq!(public, want == 301, "{alias}");
        }
        // A visitor who knows the password gets no permanent redirect, either.
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let sent = terse.send("POST", "/locked", &form, Some(b"password=open+sesame"));
        assert_eq!((sent.status, sent.location()), (303, Some(TARGET)));
        let pass = sent.header("set-cookie").unwrap().split(';').next().unwrap();
        let opened = terse.send("GET", "/locked", &[("cookie", pass)], None);
        assert_eq!((opened.status, opened.location()), (302, Some(TARGET)));
        // A change begins the time anew.
        let change = json!({"long_url": "https://example.com/changed"});
        assert_eq!(terse.api("PATCH", "/urls/plain", Some(change)).status, 200);
        assert_eq!(terse.get("/plain").status, 302);
    }
}

#[test]
fn a_browser_at_an_unknown_host_gets_a_page_that_says_how_to_allow_it() {
    let terse = TestTerse::start();
    for path in ["/", "/ok1234", "/login", "/api/v1/urls"] {
        let host = ("host", "strange.example:8080");
        let page = terse.send("GET", path, &[host, ("accept", "text/html,*/*")], None);
        assert_eq!(page.status, 421, "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        for word in ["go.example", "base_url", "TERSE_BASE_URL", "domains"] {
            assert!(page.text().contains(word), "{word} in {}", page.text());
        }
        assert!(!page.text().contains("strange"), "anyone can send any host");
        let problem = terse.send("GET", path, &[host], None);
        assert_eq!((problem.status, problem.json()["code"].as_str()), (421, Some("unknown_host")));
        let id = problem.json()["request_id"].as_str().map(str::to_owned);
        assert_eq!((id.as_deref(), id.is_some()), (problem.header("x-request-id"), true));
        let sent = ("x-request-id", "from-the-proxy.1");
        let problem = terse.send("GET", path, &[host, sent], None);
        assert_eq!(problem.json()["request_id"], sent.1);
        assert_eq!(problem.header("x-request-id"), Some(sent.1));
    }
    let page = terse.send("GET", "/", &[("host", "x.example"), ("accept", "text/html")], None);
    let text = page.text();
    let style = text.split("href=\"").find(|part| part.starts_with("/assets/")).expect("a style");
    let style = style.split('"').next().unwrap();
    assert_eq!(terse.send("GET", style, &[("host", "x.example")], None).status, 200, "{style}");
    let page = terse.send("POST", "/nosuch/x", &[("accept", "text/html")], None);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn every_problem_of_a_request_that_is_not_a_visit_has_its_id() {
    let mut terse = TestTerse::start();
    let locked = json!({"long_url": TARGET, "alias": "locked1", "password": "one two three"});
    terse.create(locked);
    terse.alias("plain1", TARGET);
    let form = ("content-type", "application/x-www-form-urlencoded");
    for (method, path, fields, body, status) in [
        ("GET", "/%zz", vec![], None, 400),
        ("GET", "/api/v1/nothing", vec![], None, 404),
        ("GET", "/locked1", vec![], None, 401),
        ("POST", "/locked1", vec![form], Some("password=wrong"), 403),
        ("POST", "/plain1", vec![], None, 405),
    ] {
        let answer = terse.send(method, path, &fields, body.map(str::as_bytes));
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let id = answer.json()["request_id"].as_str().map(str::to_owned);
        assert_eq!((id.as_deref(), id.is_some()), (answer.header("x-request-id"), true), "{path}");
    }
    let visit = terse.get("/nosuch9");
    assert_eq!((visit.status, &visit.json()["request_id"]), (404, &Value::Null));
    assert!(visit.text().contains("\"request_id\":null"));
    // A node without the API says so, with an id.
    terse.config.roles.api = false;
    terse.restart();
    let refused = terse.send("GET", "/api/v1/urls", &[], None);
    assert_eq!(refused.json()["request_id"].as_str(), refused.header("x-request-id"));
    assert_eq!((refused.status, refused.header("x-request-id").is_some()), (404, true));
}

#[test]
fn failures_are_pages_for_browsers_and_problems_for_programs() {
    let terse = TestTerse::start();
    terse.create(json!({"long_url": TARGET, "custom_alias": "expired1", "ttl": 60}));
    terse.alias("deleted1", TARGET);
    terse.alias("blocked1", TARGET);
    terse.create(
        json!({"long_url": TARGET, "custom_alias": "later-on", "valid_from": "2999-01-01"}),
    );
    terse.create(json!({"long_url": TARGET, "custom_alias": "limited1", "max_clicks": 1}));
    assert_eq!(terse.api("DELETE", "/urls/deleted1", None).status, 204);
    assert_eq!(
        terse
            .api("PUT", "/admin/links/blocked1/standing", Some(json!({"standing": "blocked"})))
            .status,
        200
    );
    assert_eq!(terse.get("/limited1").status, 302);
    assert_eq!(terse.get("/expired1").status, 302);
    terse.clock().advance(Duration::from_secs(60));
    for (code, status, word) in [
        ("nosuch9", 404, "not_found"),
        ("no-such-9", 404, "not_found"),
        ("deleted1", 404, "not_found"),
        ("later-on", 404, "not_found"),
        ("expired1", 410, "expired"),
        ("limited1", 410, "expired"),
        ("blocked1", 451, "blocked"),
    ] {
        for _ in 0..2 {
            let problem = terse.get(&format!("/{code}"));
            assert_eq!(
                (problem.status, problem.json()["code"].as_str()),
                (status, Some(word)),
                "{code}"
            );
            assert_eq!(problem.header("content-type"), Some("application/problem+json"));
            let page = terse.browse(&format!("/{code}"));
            assert_eq!(page.status, status, "{code}");
            assert!(
                page.text().contains("<!doctype html>") || page.text().contains("<!DOCTYPE html>"),
                "{}",
                page.text()
            );
            for answer in [problem, page] {
                assert!(
                    answer.location().is_none() && !answer.text().contains("example.com/a"),
                    "{code}"
                );
            }
        }
    }
}

#[test]
fn in_page_mode_failures_lead_to_their_page() {
    let terse =
        TestTerse::with(|config| config.redirect.errors = terse::config::ErrorAnswers::Page);
    terse.create(json!({"long_url": TARGET, "custom_alias": "expired1", "ttl": 60}));
    terse.clock().advance(Duration::from_secs(60));
    for (code, word, status) in [("nosuch9", "not_found", 404), ("expired1", "expired", 410)] {
        let answer = terse.get(&format!("/{code}"));
        let page = format!("/r/{code}?error={word}");
        assert_eq!((answer.status, answer.location()), (302, Some(&*page)));
        assert_eq!(terse.browse(&page).status, status);
    }
}

#[test]
fn a_suspicious_link_shows_a_warning_and_never_forwards() {
    let terse = TestTerse::start();
    terse.alias("flagged1", "https://münchen.example.net/x");
    terse.api("PUT", "/admin/links/flagged1/standing", Some(json!({"standing": "suspicious"})));
    let page = terse.browse("/flagged1");
    assert_eq!((page.status, page.location(), page.header("refresh")), (200, None, None));
    assert!(
        page.text().contains("münchen.example.net")
            && page.text().contains("xn--mnchen-3ya.example.net"),
        "{}",
        page.text()
    );
    assert!(!page.text().contains("http-equiv"));
}

#[test]
fn a_change_is_seen_by_the_next_visitor() {
    let terse = TestTerse::start();
    terse.alias("my-link", TARGET);
    assert_eq!(terse.get("/my-link").location(), Some(TARGET));
    let new = "https://example.com/new";
    assert_eq!(terse.api("PATCH", "/urls/my-link", Some(json!({"long_url": new}))).status, 200);
    assert_eq!(terse.get("/my-link").location(), Some(new));
    assert_eq!(terse.api("DELETE", "/urls/my-link", None).status, 204);
    assert_eq!(terse.get("/my-link").status, 404);
    assert_eq!(terse.api("POST", "/urls/my-link/restore", None).status, 200);
    assert_eq!(terse.get("/my-link").location(), Some(new));
}

#[test]
fn a_code_that_was_visited_before_it_was_made_works_at_once() {
    let terse = TestTerse::start();
    assert_eq!(terse.get("/later-made").status, 404);
    terse.alias("later-made", TARGET);
    assert_eq!(terse.get("/later-made").status, 302);
}

#[test]
fn links_survive_a_restart_and_another_base_url() {
    let mut terse = TestTerse::start();
    terse.alias("my-link", TARGET);
    let code = terse.create(json!({"long_url": TARGET}));
    terse.config.base_url = Some("https://other.example/".parse().unwrap());
    terse.restart();
    for code in ["my-link", &code] {
        let answer = terse.send("GET", &format!("/{code}"), &[("host", "other.example")], None);
        assert_eq!((answer.status, answer.location()), (302, Some(TARGET)));
    }
}

#[test]
fn domains_are_name_spaces_of_their_own() {
    let terse = TestTerse::with(|config| config.domains = vec!["b.example".into()]);
    terse.alias("my-link", "https://example.com/a");
    terse.create(json!({
        "long_url": "https://example.com/b", "custom_alias": "my-link", "domain": "b.example"
    }));
    let at = |host| terse.send("GET", "/my-link", &[("host", host)], None);
    assert_eq!(at("go.example").location(), Some("https://example.com/a"));
    assert_eq!(at("b.example").location(), Some("https://example.com/b"));
    assert_eq!(at("c.example").status, 421);
}

#[test]
fn a_first_start_that_fails_does_not_swallow_the_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let mut config =
        terse::Config { data_dir: folder.path().join("data"), ..terse::Config::default() };
    config.listen = taken.local_addr().unwrap().into();
    assert!(terse::serve::Server::start(&config, terse_core::Clock::default()).is_err());
    config.listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into();
    let server = terse::serve::Server::start(&config, terse_core::Clock::default()).unwrap();
    assert!(server.fresh_key().is_some());
    server.stop(Duration::from_secs(5));
}

#[test]
fn the_warning_of_a_further_domain_is_its_own_over_http_2() {
    let terse = TestTerse::with(|config| config.domains = vec!["b.example".into()]);
    terse.alias("flagged1", "https://primary.example.net/");
    terse.create(json!({
        "long_url": "https://further.example.net/", "alias": "flagged1", "domain": "b.example"
    }));
    let moderated = terse.api(
        "PUT",
        "/admin/links/flagged1/standing?domain=b.example",
        Some(json!({"standing": "suspicious"})),
    );
    assert_eq!(moderated.status, 200, "{}", moderated.text());
    let url = format!("http://b.example:{}/flagged1", terse.address.port());
    let resolve = format!("b.example:{}:127.0.0.1", terse.address.port());
    let curl = ["-s", "--http2-prior-knowledge", "--resolve", &resolve, &url];
    let page = std::process::Command::new("curl").args(curl).output().expect("curl runs");
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(
        page.contains("further.example.net") && !page.contains("primary.example.net"),
        "{page}"
    );
}

#[test]
fn the_first_key_is_shown_once_and_works() {
    let mut terse = TestTerse::with(|config| config.admin_key = None);
    let key = terse.fresh_key().expect("a key at the first start");
    let list = |terse: &TestTerse| {
        terse
            .send("GET", "/api/v1/urls", &[("authorization", &format!("Bearer {key}"))], None)
            .status
    };
    assert_eq!(list(&terse), 200);
    terse.restart();
    assert_eq!(terse.fresh_key(), None);
    assert_eq!(list(&terse), 200);
}

#[test]
fn an_expired_link_of_an_owner_is_kept_for_a_year() {
    let terse = TestTerse::with(|config| config.links.reap_every = "1s".parse().unwrap());
    terse.create(json!({"long_url": TARGET, "custom_alias": "expired1", "ttl": 60}));
    let strangers = json!({"long_url": TARGET, "custom_alias": "strangers1", "ttl": 60});
    terse.anonymous("POST", "/urls", Some(strangers));
    // The reaper marks what has expired; the time until it is purged counts from that mark.
    for (days, what, count, status) in
        [(1, "expired", 2, 410), (9, "purged", 1, 410), (358, "purged", 2, 404)]
    {
        terse.clock().advance(Duration::from_hours(days * 24));
        let line = format!("terse_reaped_total{{what=\"{what}\"}} {count}\n");
        let begun = std::time::Instant::now();
        while !terse.get("/metrics").text().contains(&line) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", terse.get("/metrics").text());
            std::thread::sleep(Duration::from_millis(100));
        }
        if what == "purged" {
            assert_eq!(terse.get("/strangers1").status, 404);
        }
        assert_eq!(terse.get("/expired1").status, status);
        let stats = terse.api("GET", "/urls/expired1/stats", None).status;
        assert_eq!(stats == 200, status == 410, "{stats}");
    }
}

#[test]
fn ended_links_are_purged_after_the_grace_time_and_their_aliases_quarantined() {
    let terse = TestTerse::with(|config| {
        config.links.reap_every = "1s".parse().unwrap();
        config.links.keep_expired = config.links.grace;
    });
    terse.create(json!({"long_url": TARGET, "custom_alias": "expired1", "ttl": 60}));
    terse.create(json!({"long_url": TARGET, "custom_alias": "unclaimed1", "ttl": 60}));
    terse.anonymous(
        "POST",
        "/urls",
        Some(json!({"long_url": TARGET, "custom_alias": "strangers1", "ttl": 60})),
    );
    terse.alias("deleted1", TARGET);
    terse.alias("blocked1", TARGET);
    terse.alias("staying1", TARGET);
    terse.api("DELETE", "/urls/deleted1", None);
    terse.api("PUT", "/admin/links/blocked1/standing", Some(json!({"standing": "blocked"})));
    terse.api("DELETE", "/urls/blocked1", None);
    terse.clock().advance(Duration::from_hours(24));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(terse.get("/expired1").status, 410, "marked, but kept for its grace time");
    assert_eq!(terse.api("POST", "/urls/deleted1/restore", None).status, 200);
    terse.api("DELETE", "/urls/deleted1", None);
    terse.clock().advance(Duration::from_hours(8 * 24));
    let purged = || terse.get("/metrics").text().contains("terse_reaped_total{what=\"purged\"} 4");
    for _ in 0..100 {
        if purged() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(purged(), "{}", terse.get("/metrics").text());
    assert_eq!((terse.get("/expired1").status, terse.get("/staying1").status), (404, 302));
    assert_eq!(terse.api("POST", "/urls/deleted1/restore", None).status, 404);
    let again = |alias: &str| {
        terse.api("POST", "/urls", Some(json!({"long_url": TARGET, "alias": alias}))).status
    };
    // An alias is quarantined for its owner for a year.
    let taken = |alias: &str| {
        let answer =
            terse.anonymous("POST", "/urls", Some(json!({"long_url": TARGET, "alias": alias})));
        answer.status == 409 && answer.json()["code"] == "alias_taken"
    };
    for alias in ["expired1", "Expired1", "deleted1", "unclaimed1", "strangers1", "STRANGERS1"] {
        assert!(taken(alias), "{alias}");
    }
    assert_eq!(again("strangers1"), 409);
    // A dry run of an import foresees that; the operator's own alias is free to the operator.
    let rows = ["strangers1", "Strangers1", "unclaimed1", "staying1", "never-used1"]
        .map(|code| json!({"long_url": TARGET, "short_code": code}));
    let tried = terse.api("POST", "/admin/import?dry_run=true", Some(json!(rows))).json();
    let statuses: Vec<_> = (0..5).map(|n| tried["results"][n]["status"].clone()).collect();
    assert_eq!(statuses, [409, 409, 201, 200, 201], "{tried}");
    assert_eq!((again("expired1"), again("deleted1"), again("blocked1")), (201, 201, 409));
    terse.clock().advance(Duration::from_hours(364 * 24));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(taken("unclaimed1") && taken("strangers1"));
    terse.clock().advance(Duration::from_hours(2 * 24));
    for alias in ["unclaimed1", "strangers1"] {
        let begun = std::time::Instant::now();
        while taken(alias) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{alias} is never let go");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(terse.get(&format!("/{alias}")).status, 302);
    }
    assert!(taken("blocked1"), "a blocked one is held for ever");
}

#[test]
fn an_archived_link_goes_on_working_and_an_undone_change_is_seen_by_the_next_visitor() {
    let mut terse = TestTerse::start();
    terse.alias("my-link", TARGET);
    terse.api("PATCH", "/urls/my-link", Some(json!({"archived": true})));
    assert_eq!(terse.get("/my-link").location(), Some(TARGET));
    assert_eq!(terse.api("GET", "/urls", None).json()["links"], json!([]));
    let new = "https://example.com/new";
    terse.api("PATCH", "/urls/my-link", Some(json!({"long_url": new})));
    assert_eq!(terse.get("/my-link").location(), Some(new));
    // Undo skips a moderation in between.
    for standing in ["suspicious", "clear"] {
        terse.api("PUT", "/admin/links/my-link/standing", Some(json!({"standing": standing})));
    }
    terse.restart();
    let undone = terse.api("POST", "/urls/my-link/undo", None);
    assert_eq!(
        (undone.status, undone.json()["archived"].as_bool()),
        (200, Some(true)),
        "{}",
        undone.text()
    );
    assert_eq!(terse.get("/my-link").location(), Some(TARGET));
    let first = terse.api("POST", "/urls/my-link/undo", Some(json!({"revision": 1})));
    assert_eq!(
        (first.json()["archived"].as_bool(), first.json()["long_url"].as_str()),
        (Some(false), Some(TARGET))
    );
}
