//! API, sign-in and dashboard on a host of their own.

use serde_json::json;

use crate::harness::{Answer, HOST, KEY, TestTerse};

const APP: &str = "app.example";

fn terse() -> TestTerse {
    TestTerse::with(|config| config.api.host = Some(APP.into()))
}

fn send(terse: &TestTerse, host: &str, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    let (method, path) = line.split_once(' ').unwrap();
    let fields = [&[("host", host), ("accept", "text/html")], fields].concat();
    terse.send(method, path, &fields, (!body.is_empty()).then_some(body.as_bytes()))
}

/// Creates a link through the host of the API.
fn alias(terse: &TestTerse, body: serde_json::Value) -> Answer {
    let key = format!("Bearer {KEY}");
    let fields = [("authorization", key.as_str()), ("content-type", "application/json")];
    send(terse, APP, "POST /api/v1/urls", &fields, &body.to_string())
}

#[test]
fn short_domains_serve_links_and_the_host_of_the_api_serves_the_rest() {
    let terse = terse();
    let made = alias(&terse, json!({"long_url": "https://example.com/", "alias": "link1"}));
    assert_eq!(made.status, 201, "{}", made.text());
    let body = made.json();
    assert_eq!(body["short_url"], format!("http://{HOST}/link1"));
    assert_eq!(body["preview_url"], format!("http://{HOST}/link1+"));
    assert_eq!(body["qr_url"], format!("http://{HOST}/link1/qr"));

    for (path, short, app) in [
        ("/link1", 302, 404),
        ("/link1+", 200, 404),
        ("/link1/qr", 200, 404),
        ("/link1?report", 200, 404),
        ("/r/link1?error=expired", 200, 404),
        ("/nosuch9", 404, 404),
        ("/", 302, 200),
        ("/login", 404, 200),
        ("/links", 404, 303),
        ("/api/docs", 404, 200),
        ("/openapi.json", 404, 200),
        ("/api/v1/urls", 404, 401),
        ("/%61pi/v1/urls", 404, 404),
        ("/favicon.svg", 200, 200),
        ("/robots.txt", 200, 200),
        ("/readyz", 200, 200),
    ] {
        for (host, status) in [(HOST, short), (APP, app), ("APP.example.", app)] {
            let answer = send(&terse, host, &format!("GET {path}"), &[], "");
            assert_eq!(answer.status, status, "{host} {path}: {}", answer.text());
        }
    }
    let home = send(&terse, HOST, "GET /", &[], "");
    assert_eq!(home.location(), Some("http://app.example/"));
    let key = format!("Bearer {KEY}");
    let refused = terse.send("POST", "/api/v1/urls", &[("authorization", &key)], Some(b"{}"));
    assert_eq!((refused.status, &refused.json()["code"]), (404, &json!("not_found")));
    assert_eq!(send(&terse, "other.example", "GET /", &[], "").status, 421);

    // Pages of links lead to the dashboard on its own host.
    for path in ["/nosuch9", "/link1+", "/link1?report"] {
        let page = send(&terse, HOST, &format!("GET {path}"), &[], "").text();
        assert!(page.contains("href=\"http://app.example/\""), "{path}: {page}");
        assert!(page.contains("href=\"http://app.example/api/docs\""), "{path}: {page}");
        for own in ["/", "/login", "/account", "/links", "/api/docs"] {
            assert!(!page.contains(&format!("href=\"{own}\"")), "{path} {own}: {page}");
        }
    }
    let document = send(&terse, APP, "GET /openapi.json", &[], "").json();
    assert_eq!(document["servers"], json!([{"url": "http://app.example"}]));
}

#[test]
fn people_sign_in_on_the_host_of_the_api() {
    let terse = terse();
    let setup = terse.setup_link().unwrap();
    assert!(setup.starts_with("http://app.example/setup?token="), "{setup}");
    let path = setup.strip_prefix("http://app.example").unwrap();
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let password = "name=ann&password=correct+horse+battery&again=correct+horse+battery";
    let token = path.split_once("token=").unwrap().1;
    let body = format!("{password}&token={token}");
    let own = [form[0], ("origin", "http://app.example")];
    let short = [form[0], ("origin", "http://go.example")];
    assert_eq!(send(&terse, HOST, "POST /setup", &own, &body).status, 404);
    assert_eq!(send(&terse, APP, "POST /setup", &short, &body).status, 403, "another site");
    let made = send(&terse, APP, "POST /setup", &own, &body);
    assert_eq!(made.status, 303, "{}", made.text());
    let cookie = made.header("set-cookie").unwrap();
    assert!(!cookie.contains("Domain="), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let account = send(&terse, APP, "GET /account", &[("cookie", &cookie)], "");
    assert_eq!(account.status, 200, "{}", account.text());
    let invited = send(
        &terse,
        APP,
        "POST /api/v1/invitations",
        &[
            ("cookie", &cookie),
            ("origin", "http://app.example"),
            ("content-type", "application/json"),
        ],
        "{}",
    );
    let url = invited.json()["url"].clone();
    assert!(url.as_str().unwrap().starts_with("http://app.example/join?token="), "{url}");
}

#[test]
fn commands_on_this_machine_still_reach_the_api_and_the_host_cannot_become_a_domain() {
    let terse = terse();
    let key = format!("Bearer {KEY}");
    let local = terse.address.to_string();
    for host in [local.as_str(), "localhost", "127.0.0.1"] {
        let answer = send(&terse, host, "GET /api/v1/urls", &[("authorization", &key)], "");
        assert_eq!(answer.status, 200, "{host}: {}", answer.text());
    }
    let fields = [("authorization", key.as_str()), ("content-type", "application/json")];
    let put = send(&terse, APP, "PUT /api/v1/domains/app.example", &fields, "{}");
    assert_eq!((put.status, &put.json()["field"]), (400, &json!("domain")), "{}", put.text());
    let block = send(
        &terse,
        APP,
        "POST /api/v1/admin/blocklist",
        &fields,
        &json!({"host": "app.example", "why": "x"}).to_string(),
    );
    assert_eq!(block.status, 400, "{}", block.text());
}

#[test]
fn a_visitor_elsewhere_is_not_local_whatever_the_host_field_says() {
    let terse = TestTerse::with(|config| {
        config.api.host = Some(APP.into());
        config.trusted_proxies = vec!["127.0.0.1".into()];
    });
    for host in ["localhost", "127.0.0.1"] {
        let visitor = [("x-forwarded-for", "203.0.113.7")];
        let answer = send(&terse, host, "GET /login", &visitor, "");
        assert_eq!(answer.status, 404, "{host}");
    }
}
