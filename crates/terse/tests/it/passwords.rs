//! Links with a password.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Answer, HOST, TestTerse};

const TARGET: &str = "https://secret.example.net/a?b=c#d";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const HTML: (&str, &str) = ("accept", "text/html,*/*");

/// Sends a password like the form.
fn tell(terse: &TestTerse, code: &str, password: &str) -> Answer {
    terse.send(
        "POST",
        &format!("/{code}"),
        &[FORM, HTML],
        Some(format!("password={password}").as_bytes()),
    )
}

/// Sends a cookie like a browser.
fn with_pass(terse: &TestTerse, method: &str, path: &str, pass: &str) -> Answer {
    terse.send(method, path, &[HTML, ("cookie", pass)], None)
}

/// The access cookie of a response, as it is sent back.
fn pass(answer: &Answer) -> String {
    let cookie = answer
        .header("set-cookie")
        .unwrap_or_else(|| panic!("no pass: {} {}", answer.status, answer.text()));
    cookie.split(';').next().expect("a pair").to_owned()
}

fn lock(terse: &TestTerse, alias: &str) {
    terse.create(json!({"long_url": TARGET, "custom_alias": alias, "password": "open \
        sesame", "title": "Secret title",
        "notes": "Secret notes"}));
}

#[track_caller]
fn tells_nothing(answer: &Answer) {
    let all = format!("{:?} {}", answer.headers, answer.text()).to_lowercase();
    for secret in ["secret", "argon2", "sesame"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

/// The click count, once it has reached this number.
fn clicks(terse: &TestTerse, code: &str, at_least: u64) -> u64 {
    for _ in 0..1000 {
        let stats = terse.api("GET", &format!("/urls/{code}/stats"), None).json();
        match stats["total_clicks"].as_u64() {
            Some(clicks) if clicks >= at_least => return clicks,
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    panic!("{at_least} clicks of {code} were not counted");
}

#[test]
fn a_password_is_required_and_the_target_is_not_revealed() {
    let terse = TestTerse::start();
    lock(&terse, "locked12");
    let page = terse.browse("/locked12");
    assert_eq!((page.status, page.location()), (200, None));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-robots-tag"), Some("noindex"));
    assert!(
        page.text().contains("type=\"password\"") && page.text().contains("action=\"/locked12\""),
        "{}",
        page.text()
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains("form-action http: https:") && policy.contains("default-src 'none'"),
        "{policy}"
    );
    tells_nothing(&page);
    let problem = terse.get("/locked12");
    assert_eq!((problem.status, problem.json()["code"].as_str()), (401, Some("password_needed")));
    assert_eq!(problem.header("cache-control"), Some("no-store"));
    tells_nothing(&problem);
    for (method, path) in [
        ("HEAD", "/locked12"),
        ("GET", "/locked12+"),
        ("GET", "/locked12?report"),
        ("GET", "/locked12/qr"),
        ("GET", "/r/locked12"),
        ("GET", "/r/locked12?error=not_found"),
        ("GET", "/api/v1/urls/locked12/stats"),
    ] {
        let answer = terse.send(method, path, &[HTML], None);
        assert!(matches!(answer.status, 200 | 401), "{method} {path}: {}", answer.status);
        tells_nothing(&answer);
    }
}

#[test]
fn the_right_password_leads_on_and_the_pass_does_for_a_while() {
    let terse = TestTerse::start();
    lock(&terse, "locked12");
    terse.api("PATCH", "/urls/locked12", Some(json!({"redirect": 308})));
    let wrong = tell(&terse, "locked12", "open+sesam");
    assert_eq!((wrong.status, wrong.location(), wrong.header("set-cookie")), (403, None, None));
    assert!(wrong.text().contains("not the password"));
    tells_nothing(&wrong);
    let right = tell(&terse, "locked12", "open+sesame");
    assert_eq!((right.status, right.location()), (303, Some(TARGET)));
    assert_eq!(right.header("cache-control"), Some("private, max-age=0, no-store"));
    let cookie = right.header("set-cookie").unwrap();
    assert!(
        cookie.contains("; Path=/locked12; Max-Age=600; HttpOnly; SameSite=Lax")
            && !cookie.contains("Secure"),
        "{cookie}"
    );
    let pass = pass(&right);
    for method in ["GET", "HEAD"] {
        let answer = with_pass(&terse, method, "/locked12", &pass);
        assert_eq!((answer.status, answer.location()), (308, Some(TARGET)), "{method}");
        assert_eq!(
            answer.header("cache-control"),
            Some("private, max-age=0, no-store"),
            "the response must not be cached"
        );
    }
    // The cookie is valid for this link and this password only.
    lock(&terse, "locked13");
    assert_eq!(with_pass(&terse, "GET", "/locked13", &pass).status, 200);
    terse.api("PATCH", "/urls/locked12", Some(json!({"title": "other"})));
    assert_eq!(with_pass(&terse, "GET", "/locked12", &pass).status, 308);
    terse.api("PATCH", "/urls/locked12", Some(json!({"password": "open sesame"})));
    assert_eq!(
        with_pass(&terse, "GET", "/locked12", &pass).status,
        200,
        "even the same one, given anew"
    );
    assert_eq!(tell(&terse, "locked12", "open+sesame").status, 303);
    terse.api("PATCH", "/urls/locked12", Some(json!({"password": null})));
    assert_eq!(terse.get("/locked12").status, 308);
}

#[test]
fn a_pass_ends_and_cannot_be_made_up() {
    let terse = TestTerse::with(|config| {
        config.base_url = Some(format!("https://{HOST}/").parse().unwrap());
    });
    lock(&terse, "locked12");
    let right = tell(&terse, "locked12", "open+sesame");
    assert!(right.header("set-cookie").unwrap().ends_with("; Secure"));
    let pass = pass(&right);
    terse.clock().advance(Duration::from_secs(599));
    assert_eq!(with_pass(&terse, "GET", "/locked12", &pass).status, 302);
    let mut forged = pass.clone();
    let last = forged.pop().unwrap();
    forged.insert(forged.len() - 20, if last == 'A' { 'B' } else { 'A' });
    for forged in
        [&*forged, "terse_pass=", "terse_pass=x", &pass.replace("terse_pass", "terse_past")]
    {
        let answer = with_pass(&terse, "GET", "/locked12", forged);
        assert_eq!((answer.status, answer.location()), (200, None), "{forged}");
    }
    terse.clock().advance(Duration::from_secs(1));
    assert_eq!(with_pass(&terse, "GET", "/locked12", &pass).status, 200);
}

#[test]
fn each_visit_is_counted_once_and_looking_spends_nothing() {
    let terse = TestTerse::start();
    terse.create(
        json!({"long_url": TARGET, "custom_alias": "twice123", "password": "p", "max_clicks": 2}),
    );
    for _ in 0..3 {
        assert_eq!(terse.browse("/twice123").status, 200);
        assert_eq!(tell(&terse, "twice123", "x").status, 403);
    }
    let right = tell(&terse, "twice123", "p");
    assert_eq!((right.status, right.location()), (303, Some(TARGET)));
    let pass = pass(&right);
    for _ in 0..3 {
        assert_eq!(with_pass(&terse, "HEAD", "/twice123", &pass).status, 302);
    }
    assert_eq!(with_pass(&terse, "GET", "/twice123", &pass).status, 302);
    for answer in [
        with_pass(&terse, "GET", "/twice123", &pass),
        with_pass(&terse, "HEAD", "/twice123", &pass),
        terse.get("/twice123"),
    ] {
        assert_eq!(answer.status, 410);
    }
    let late = tell(&terse, "twice123", "p");
    assert_eq!(
        (late.status, late.location()),
        (410, None),
        "the link itself says that it is used up"
    );
    // Two redirects and three HEAD requests; password pages and wrong passwords do not count.
    terse.alias("after123", "https://example.com/");
    assert_eq!(terse.get("/after123").status, 302);
    assert_eq!((clicks(&terse, "after123", 1), clicks(&terse, "twice123", 5)), (1, 5));
}

#[test]
fn guessing_is_limited_by_address_and_by_link() {
    let terse = TestTerse::with(|config| {
        config.limits.password_attempts_per_ip = "3/h".parse().unwrap();
        config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    });
    lock(&terse, "locked12");
    lock(&terse, "locked13");
    let from = |address: &str, code: &str, password: &str| {
        let body = format!("password={password}");
        terse.send(
            "POST",
            &format!("/{code}"),
            &[FORM, HTML, ("x-forwarded-for", address)],
            Some(body.as_bytes()),
        )
    };
    for _ in 0..5 {
        assert_eq!(
            from("198.51.100.1", "locked12", "open+sesame").status,
            303,
            "the right one costs nothing"
        );
    }
    for _ in 0..3 {
        assert_eq!(from("198.51.100.1", "locked12", "x").status, 403);
    }
    for (code, password) in [("locked12", "x"), ("locked12", "open+sesame"), ("locked13", "x")] {
        let answer = from("198.51.100.1", code, password);
        assert_eq!((answer.status, answer.location()), (429, None));
        assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    }
    let program = terse.send(
        "POST",
        "/locked12",
        &[FORM, ("x-forwarded-for", "198.51.100.1")],
        Some(b"password=x"),
    );
    assert_eq!((program.status, program.json()["code"].as_str()), (429, Some("rate_limited")));
    // Many addresses together are limited as well.
    let outcomes: Vec<u16> = (2..32)
        .flat_map(|n| [0; 3].map(|_| from(&format!("198.51.100.{n}"), "locked12", "x").status))
        .collect();
    // Sixty in all, three of them before. On a slow machine some come back meanwhile.
    let wrong = outcomes.iter().filter(|status| **status == 403).count();
    assert!((57..65).contains(&wrong), "{wrong}: {outcomes:?}");
    assert_eq!(
        from("198.51.100.200", "locked13", "open+sesame").status,
        303,
        "another link is another matter"
    );
    terse.clock().advance(Duration::from_secs(1200));
    assert_eq!(from("198.51.100.1", "locked12", "open+sesame").status, 303);
}

#[test]
fn what_is_no_form_of_ours_is_refused() {
    let terse = TestTerse::start();
    lock(&terse, "locked12");
    terse.alias("ordinary", TARGET);
    let answer = tell(&terse, "ordinary", "x");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(tell(&terse, "nosuch99", "x").status, 404);
    let post = |fields: &[(&str, &str)], body: &str| {
        terse.send("POST", "/locked12", fields, Some(body.as_bytes()))
    };
    for (fields, body, status) in [
        (&[FORM][..], "", 400),
        (&[FORM], "password=x&other=y", 400),
        (&[FORM], "password=x&password=y", 400),
        (&[FORM], "password=%ff", 400),
        (&[FORM], "password=", 403),
        (&[("content-type", "application/json")], "{\"password\": \"open sesame\"}", 415),
        (&[FORM, ("sec-fetch-site", "cross-site")], "password=open+sesame", 403),
        (&[FORM, ("origin", "https://evil.example")], "password=open+sesame", 403),
    ] {
        let answer = post(fields, body);
        assert_eq!((answer.status, answer.location()), (status, None), "{fields:?} {body}");
        tells_nothing(&answer);
    }
    assert_eq!(post(&[FORM], &format!("password={}", "x".repeat(5000))).status, 413);
    assert_eq!(post(&[FORM, ("origin", "http://go.example")], "password=open+sesame").status, 303);
}

#[test]
fn the_longest_password_that_can_be_set_can_be_entered() {
    let terse = TestTerse::start();
    // 1,024 bytes, each escaped in the form.
    let password = "\u{fc}".repeat(512);
    terse.create(json!({"long_url": TARGET, "custom_alias": "locked12", "password": password}));
    assert_eq!(tell(&terse, "locked12", &"%C3%BC".repeat(512)).status, 303);
    let longer = tell(&terse, "locked12", &"%C3%BC".repeat(513));
    assert!((400..500).contains(&longer.status), "{}", longer.status);
}

#[test]
fn a_suspicious_link_warns_before_and_after_its_password() {
    let terse = TestTerse::start();
    lock(&terse, "locked12");
    terse.api("PUT", "/admin/links/locked12/standing", Some(json!({"standing": "suspicious"})));
    for path in ["/locked12", "/r/locked12", "/locked12+"] {
        let page = terse.browse(path);
        assert!(
            page.status == 200 && page.text().to_lowercase().contains("suspicious"),
            "{path}: {}",
            page.text()
        );
        tells_nothing(&page);
    }
    let right = tell(&terse, "locked12", "open+sesame");
    assert_eq!((right.status, right.location()), (303, Some("/locked12")));
    let page = with_pass(&terse, "GET", "/locked12", &pass(&right));
    assert_eq!((page.status, page.location()), (200, None));
    assert!(page.text().contains("secret.example.net"), "the password reveals the host");
    for (standing, status) in [("blocked", 451), ("clear", 302)] {
        terse.api("PUT", "/admin/links/locked12/standing", Some(json!({"standing": standing})));
        assert_eq!(with_pass(&terse, "GET", "/locked12", &pass(&right)).status, status);
    }
}

#[test]
fn a_visitors_query_is_kept_while_the_password_is_typed() {
    let terse = TestTerse::start();
    terse.create(json!({
        "long_url": "https://example.com/?a=1", "custom_alias": "locked12", "password": "p",
        "forward_query": true
    }));
    let page = terse.browse("/locked12?x=%22%3Cb%3E&y=2");
    assert!(page.text().contains("action=\"/locked12?x=%22%3Cb%3E&#38;y=2\""), "{}", page.text());
    let right = terse.send("POST", "/locked12?y=2", &[FORM], Some(b"password=p"));
    assert_eq!((right.status, right.location()), (303, Some("https://example.com/?a=1&y=2")));
}
