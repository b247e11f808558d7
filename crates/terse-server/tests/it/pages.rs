use serde_json::{Value, json};
use terse_core::registry::Role;
use terse_core::registry::prelude::*;
use terse_core::{Hosts, Logo, Operator, PageLanguage};

use crate::home_page::form;
use crate::web::{Answer, Web};

pub(crate) const NASTY: &str = "\"><script>alert(1)</script>";

pub(crate) fn is_page(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert!(
        answer
            .header("content-security-policy")
            .starts_with("default-src 'none'; style-src 'self'")
    );
    assert_eq!(answer.header("referrer-policy"), "same-origin");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    let text = answer.text();
    assert!(
        text.starts_with("<!doctype html>\n<html lang=\"en\">") && text.contains("class=\"skip\"")
    );
    assert!(!text.contains("<script>") && !text.contains(" style=") && !text.contains("onclick"));
}

#[tokio::test]
async fn a_set_up_link_that_was_used_says_so() {
    let web = Web::new();
    let used = web.page("/setup?token=terse_used").await;
    is_page(&used, 404);
    assert!(used.text().contains("This set-up link no longer works"), "{}", used.text());
    let bare = web.page("/setup").await;
    is_page(&bare, 404);
    assert!(bare.text().contains("Not found"));
}

#[tokio::test]
async fn a_problem_has_the_focus_in_its_field() {
    let web = Web::new();
    for (body, field) in [
        ("long_url=ftp%3A%2F%2Fx%2F", "long_url"),
        ("long_url=example.com&alias=a.b", "alias"),
        ("long_url=example.com&ttl=999999", "ttl"),
    ] {
        let text = form(&web, body, &[]).await.text();
        let tag = text.split(&format!("id=\"{field}\"")).nth(1).unwrap().split('>').next().unwrap();
        assert!(tag.contains("aria-invalid=\"true\"") && tag.contains(" autofocus"), "{tag}");
        assert_eq!(text.matches(" autofocus").count(), 1, "{field}");
        assert!(field == "long_url" || text.contains("<details open>"), "{field} can be seen");
    }
}

#[tokio::test]
async fn only_a_valid_session_is_shown_as_signed_in() {
    let web = Web::new();
    let ann = web.person("ann", Role::User).await;
    let cookie = web.sign_in(ann, "terse_a-browser").await;
    let shown =
        async || web.call("GET /", &[("cookie", &cookie), ("host", "go.example")], "").await.text();
    assert!(shown().await.contains("You are signed in"));
    web.registry.end_sessions(ann, None).await.unwrap();
    let text = shown().await;
    assert!(text.contains("href=\"/login\"") && !text.contains("You are signed in"), "{text}");
}

#[tokio::test]
async fn an_expired_invitation_shows_no_form() {
    let web = Web::new();
    let made = web.api("POST /api/v1/invitations", json!({})).await.json();
    let link = made["url"].as_str().unwrap().strip_prefix("https://go.example").unwrap();
    let shown = web.page(link).await;
    assert_eq!(shown.status, 200);
    assert!(shown.text().contains("Accept your invitation"));
    web.api(&format!("DELETE /api/v1/invitations/{}", made["id"].as_str().unwrap()), Value::Null)
        .await;
    let shown = web.page(link).await;
    is_page(&shown, 404);
    assert!(
        shown.text().contains("This invitation is no longer valid")
            && !shown.text().contains("<form")
    );
}

#[tokio::test]
async fn a_preview_shows_the_target_and_does_not_redirect() {
    let web = Web::new();
    let body = json!({
        "long_url": "https://xn--mnchen-3ya.de/'\"><script>", "custom_alias": "abc",
        "title": NASTY
    });
    assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
    let page = web.page("/abc+").await;
    is_page(&page, 200);
    let text = page.text();
    assert!(
        text.contains("xn--mnchen-3ya.de")
            && text.contains("münchen.de")
            && text.contains("just now")
    );
    assert!(
        text.contains("<dt>Title</dt><dd>&#34;&#62;&#60;script&#62;")
            && text.contains("rel=\"noreferrer nofollow noopener\"")
    );
    assert!(!text.contains("http-equiv"));
    assert_eq!(web.page("/abc%2B").await.status, 200);
    for path in ["/none+", "/+", "/a.b+", "/abc", "/r/none", "/no/such/page", "/assets/none.css"] {
        let answer = web.page(path).await;
        is_page(&answer, 404);
        assert!(
            !answer.text().contains("none") && !answer.text().contains("such"),
            "{path} is repeated"
        );
    }
}

#[tokio::test]
async fn a_link_that_does_not_redirect_has_its_page() {
    let web = Web::new();
    let target = "https://secret.example/path";
    let body = json!({"long_url": target, "custom_alias": "abc", "ttl": 60});
    assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
    let active = web.page("/r/abc?error=expired").await;
    is_page(&active, 200);
    assert!(active.text().contains("Link preview"));
    let standing = async |word: &str| {
        let answer =
            web.api("PUT /api/v1/admin/links/abc/standing", json!({"standing": word})).await;
        assert_eq!(answer.status, 200);
    };
    standing("suspicious").await;
    let warning = web.page("/r/abc").await;
    is_page(&warning, 200);
    assert!(
        warning.text().contains("Suspicious link")
            && warning.text().contains("<p class=\"host\">secret.example</p>")
    );
    assert!(web.page("/abc+").await.text().contains("<dd class=\"bad\">Suspicious</dd>"));
    standing("blocked").await;
    for path in ["/r/abc", "/abc+"] {
        let blocked = web.page(path).await;
        is_page(&blocked, 451);
        assert!(!blocked.text().contains("secret"));
    }
    assert_eq!(web.page("/abc/qr").await.status, 404);
    standing("clear").await;
    web.clock.advance(std::time::Duration::from_secs(61));
    for path in ["/r/abc", "/abc+"] {
        is_page(&web.page(path).await, 410);
    }
    web.store.away.store(true, std::sync::atomic::Ordering::Relaxed);
    let away = web.page("/abc+").await;
    is_page(&away, 503);
    assert_eq!(away.header("retry-after"), "1");
}

#[tokio::test]
async fn a_warning_names_the_host_and_the_reason_and_does_nothing_by_itself() {
    let web = Web::new();
    for (target, alias) in [("https://odd.example/p?q=1", "odd"), ("https://ödd.example/", "uni")]
    {
        let body = json!({"long_url": target, "custom_alias": alias});
        let made = web.anonymous("POST /api/v1/urls", body).await;
        assert_eq!(
            (made.status.as_u16(), &made.json()["status"]),
            (201, &json!("suspicious")),
            "{}",
            made.text()
        );
        assert_eq!(made.json()["flags"], json!(["odd", "unheard_of"]));
    }
    let page = web.page("/r/odd").await;
    is_page(&page, 200);
    let text = page.text();
    assert!(
        text.contains("<li>It is &#60;odd&#62;.</li>") && !text.contains("unheard_of"),
        "{text}"
    );
    let on = r#"" rel="noreferrer noopener nofollow">Continue to odd.example</a>"#;
    assert!(text.contains(on), "{text}");
    for active in ["<script", "http-equiv", "onload", "<form", "<iframe", "<img"] {
        assert!(!text.contains(active), "{active}");
    }
    assert_eq!((page.header("location"), page.header("refresh")), ("", ""));
    assert!(web.page("/odd+").await.text().contains("<li>It is &#60;odd&#62;.</li>"));
    let both = web.page("/r/uni").await.text();
    assert!(both.contains("<p class=\"host\">xn--dd-eka.example</p>"), "{both}");
    assert!(both.contains("<b>ödd.example</b>"), "{both}");
}

#[tokio::test]
async fn the_preview_says_that_a_link_divides_its_visitors() {
    let web = Web::new();
    let rules = json!([{"to": [
        {"url": "https://example.com/a", "weight": 3}, {"url": "https://example.com/b"}
    ]}]);
    let body = json!({"long_url": "https://example.com/", "alias": "parts", "rules": rules});
    assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
    let text = web.page("/parts+").await.text();
    assert!(text.contains("This link divides its visitors among several targets."), "{text}");
    assert!(!text.contains("device, place or time") && !text.contains("depends on"), "{text}");
}

#[test]
fn a_field_in_focus_does_not_look_like_one_with_an_error() {
    let css = include_str!("../../assets/terse.css");
    let app = include_str!("../../assets/app.css");
    let rules: Vec<(&str, &str)> = css
        .lines()
        .chain(app.lines())
        .filter_map(|line| line.split_once('{'))
        .filter(|(selector, _)| selector.contains(":focus"))
        .collect();
    assert!(
        rules
            .iter()
            .any(|(of, style)| of.starts_with(":focus-visible") && style.contains("--text"))
    );
    for (selector, style) in rules {
        let is_error = selector.contains("aria-invalid");
        let looks_bad = ["--bad", "--accent", "red", "#c8401a", "#b3261e"];
        let looks_bad = looks_bad.iter().any(|colour| style.contains(colour));
        assert_eq!(looks_bad, is_error, "{selector}{style}");
    }
}

#[tokio::test]
async fn a_page_is_found_by_the_host_it_was_asked_on() {
    let web = Web::new();
    let body =
        json!({"long_url": "https://example.com/", "custom_alias": "abc", "domain": "b.example"});
    assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
    assert_eq!(web.page("/abc+").await.status, 404);
    assert_eq!(web.call("GET /abc+", &[("host", "B.example:443")], "").await.status, 200);
}

#[tokio::test]
async fn head_answers_like_get() {
    let web = Web::new();
    assert_eq!(
        web.api(
            "POST /api/v1/urls",
            json!({"long_url": "https://example.com/", "custom_alias": "abc"})
        )
        .await
        .status,
        201
    );
    for path in [
        "/",
        "/abc+",
        "/r/abc",
        "/abc/qr",
        "/robots.txt",
        "/favicon.ico",
        "/api/docs",
        "/openapi.json",
        "/none+",
    ] {
        let (get, head) = (
            web.page(path).await,
            web.call(&format!("HEAD {path}"), &[("accept", "text/html")], "").await,
        );
        assert_eq!((head.status, head.bytes.len()), (get.status, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
}

#[tokio::test]
async fn assets_are_named_after_their_content_and_kept() {
    let web = Web::new();
    let home = web.page("/").await.text();
    for (mark, kind) in [
        ("href=\"/assets/", "text/css; charset=utf-8"),
        ("src=\"/assets/", "text/javascript; charset=utf-8"),
    ] {
        let start = home.find(mark).unwrap() + mark.len() - "/assets/".len();
        let path = home[start..].split('"').next().unwrap();
        let asset = web.page(path).await;
        assert_eq!((asset.status.as_u16(), asset.header("content-type")), (200, kind));
        assert_eq!(asset.header("cache-control"), "public, max-age=31536000, immutable");
    }
    assert!(web.page("/robots.txt").await.text().contains("Disallow: /api/"));
    assert_eq!(web.page("/favicon.ico").await.header("content-type"), "image/svg+xml");
}

#[tokio::test]
async fn what_is_not_there_is_a_page_for_people_and_a_problem_for_programs() {
    let web = Web::new();
    is_page(&web.page("/no/such").await, 404);
    web.call("GET /no/such", &[], "").await.is_problem(404, "not_found", "");
    web.page("/api/v1/nothing").await.is_problem(404, "not_found", "");
    web.page("/api").await.is_problem(404, "not_found", "");
    for path in ["/%ff+", "/r/%ff", "/assets/%ff", "/a%2Fb+"] {
        is_page(&web.page(path).await, 404);
    }
    for path in ["/api/v1/urls/%ff", "/api/v1/urls/a%2Fb", "/%ff/qr"] {
        web.api(&format!("GET {path}"), Value::Null).await.is_problem(404, "not_found", "");
    }
    let answer = web.call("PUT /api/v1/urls", &[], "").await;
    answer.is_problem(405, "method_not_allowed", "");
    let mut allow: Vec<_> = answer.header("allow").split(',').collect();
    allow.sort_unstable();
    assert_eq!(allow, ["GET", "HEAD", "POST"]);
    is_page(&web.call("DELETE /", &[("accept", "text/html")], "").await, 405);
    assert!(
        web.stats
            .requests()
            .iter()
            .any(|(route, class, count)| (&**route, *class, *count) == ("/api/v1/urls", 4, 1))
    );
    assert!(web.stats.requests().iter().any(|(route, ..)| &**route == "other"));
}

#[test]
fn pages_for_the_redirect_plane_are_ready() {
    let hosts = Hosts::new(&"https://go.example/".parse().unwrap(), &[], vec![]).unwrap();
    let pages = terse_server::pages(&operator(), &hosts, PageLanguage::English);
    for (page, words) in [
        (&pages.not_found, "Not found"),
        (&pages.gone, "has expired"),
        (&pages.blocked, "is blocked"),
        (&pages.unavailable, "Temporarily unavailable"),
    ] {
        assert!(page.starts_with("<!doctype html>") && page.contains(words));
        assert!(page.contains("Run by Example &#38; Sons") && page.contains("href=\"/account\""));
    }
}

fn operator() -> Operator {
    Operator {
        name: Some("Example & Sons".parse().unwrap()),
        logo: Some(Logo::parse(b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec()).unwrap()),
        imprint: Some("https://example.org/imprint".parse().unwrap()),
        abuse_contact: Some("abuse@example.org".parse().unwrap()),
        security_contact: Some("https://example.org/security".parse().unwrap()),
        ..Operator::default()
    }
}

#[tokio::test]
async fn public_pages_say_who_runs_the_server_and_whom_to_contact() {
    let web = Web::run_by(operator());
    for path in ["/", "/login", "/api/docs", "/none+"] {
        let text = web.page(path).await.text();
        for words in [
            "· Example &#38; Sons</title>",
            "Run by Example &#38; Sons",
            "<a href=\"https://example.org/imprint\" rel=\"noreferrer\">Imprint</a>",
            "<a href=\"mailto:abuse@example.org\" rel=\"noreferrer\">Report abuse</a>",
            "<a href=\"https://example.org/security\" rel=\"noreferrer\">Report a security problem</a>",
        ] {
            let words = if path == "/" {
                words.replace("· Example &#38; Sons<", "<")
            } else {
                words.into()
            };
            assert!(text.contains(&words), "{path}: {words}");
        }
    }
    let text = web.page("/").await.text();
    let logo = text.split("<img src=\"").nth(1).unwrap().split('"').next().unwrap();
    let picture = web.page(logo).await;
    assert_eq!((picture.status.as_u16(), picture.header("content-type")), (200, "image/svg+xml"));
    assert!(picture.header("content-security-policy").ends_with("sandbox"));
    assert!(picture.header("cache-control").contains("immutable"));
    let contact = web.page("/.well-known/security.txt").await;
    assert_eq!(contact.header("content-type"), "text/plain; charset=utf-8");
    assert!(contact.text().starts_with("Contact: https://example.org/security\nExpires: 20"));

    // The full stop belongs to the name terse, not to that of an operator.
    let named = Web::run_by(Operator { logo: None, ..operator() });
    assert!(named.page("/").await.text().contains("home\">Example &#38; Sons</a>"));

    let unknown = Web::new();
    assert_eq!(unknown.page("/.well-known/security.txt").await.status, 404);
    let text = unknown.page("/").await.text();
    assert!(!text.contains("Run by") && !text.contains("<img"), "{text}");
}

#[tokio::test]
async fn the_page_of_an_ended_or_blocked_link_names_a_contact() {
    let words = [
        (410, "If you have questions about this link, contact"),
        (451, "If you think that this is a mistake, contact"),
    ];
    for (web, contact) in [
        (Web::run_by(operator()), "<a href=\"mailto:abuse@example.org\""),
        (Web::new(), "the operator of this server."),
    ] {
        let body = json!({"long_url": "https://example.com/", "custom_alias": "abc", "ttl": 60});
        assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
        let block = json!({"standing": "blocked"});
        web.api("PUT /api/v1/admin/links/abc/standing", block).await;
        let check = async |(status, words): (u16, &str)| {
            let shown = web.page("/r/abc").await;
            is_page(&shown, status);
            assert!(shown.text().contains(&format!("{words} {contact}")), "{}", shown.text());
        };
        check(words[1]).await;
        web.api("PUT /api/v1/admin/links/abc/standing", json!({"standing": "clear"})).await;
        web.clock.advance(std::time::Duration::from_secs(61));
        check(words[0]).await;
    }
}

#[tokio::test]
async fn the_way_to_the_account_is_on_every_page() {
    let web = Web::new();
    let ann = web.person("ann", Role::User).await;
    let cookie = web.sign_in(ann, "terse_a-browser").await;
    for path in ["/", "/api/docs", "/none+", "/no/such/page", "/r/none"] {
        let ask = format!("GET {path}");
        let html = ("accept", "text/html");
        let out = web.call(&ask, &[html, ("host", "go.example")], "").await.text();
        assert!(out.contains("<a href=\"/login\">Sign in</a>"), "{path}: {out}");
        let signed_in = [html, ("host", "go.example"), ("cookie", &cookie)];
        let shown = web.call(&ask, &signed_in, "").await.text();
        assert!(shown.contains("<a href=\"/account\">Account</a>"), "{path}: {shown}");
    }
}
