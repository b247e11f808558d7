use serde_json::{Value, json};
use terse_core::registry::prelude::*;
use terse_core::registry::{Role, Scope};
use terse_core::{Hosts, Logo, Operator, PageLanguage};

use crate::web::{Answer, OWNER, Web};

const NASTY: &str = "\"><script>alert(1)</script>";

async fn form(web: &Web, body: &str, headers: &[(&str, &str)]) -> Answer {
    let mut all =
        vec![("content-type", "application/x-www-form-urlencoded"), ("host", "go.example")];
    all.extend(headers);
    web.call("POST /", &all, body.to_owned()).await
}

fn is_page(answer: &Answer, status: u16) {
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
async fn the_home_page_shortens_without_a_script() {
    let web = Web::new();
    let home = web.page("/").await;
    is_page(&home, 200);
    assert!(home.text().contains("<form class=\"shorten\" method=\"post\" action=\"/\""));
    assert!(home.text().contains("href=\"/api/docs\""));
    let made = form(
        &web,
        "long_url=example.com%2Fa%3Fb%3D1&alias=mine&ttl=3600",
        &[("sec-fetch-site", "same-origin")],
    )
    .await;
    assert_eq!((made.status.as_u16(), made.header("location")), (303, "/?made=mine"));
    assert_eq!(made.header("cache-control"), "no-store");
    let made = web.page("/?made=mine").await;
    is_page(&made, 200);
    let text = made.text();
    assert!(
        text.contains("https://go.example/<") || text.contains("href=\"https://go.example/mine\""),
        "{text}"
    );
    assert!(
        text.contains("https://example.com/a?b=1")
            && text.contains("class=\"qr\"")
            && text.contains("Expires <time")
    );
    let taken = form(&web, "long_url=https%3A%2F%2Fexample.com%2F&alias=mine&ttl=", &[]).await;
    is_page(&taken, 409);
    assert!(
        taken.text().contains("This alias is taken.") && taken.text().contains("value=\"mine\"")
    );
}

#[tokio::test]
async fn a_refused_form_keeps_what_was_typed_and_says_what_is_wrong() {
    let web = Web::new();
    let typed: String =
        url::form_urlencoded::byte_serialize(format!("ftp://x/{NASTY}").as_bytes()).collect();
    let answer = form(&web, &format!("long_url={typed}"), &[]).await;
    is_page(&answer, 400);
    let text = answer.text();
    assert!(
        text.contains("role=\"alert\"")
            && text.contains("aria-invalid=\"true\"")
            && text.contains("ftp://x/&#34;&#62;&#60;script&#62;")
    );
    for (body, status) in [
        ("", 400),
        ("long_url=", 400),
        ("long_url=http%3A%2F%2F127.0.0.1", 422),
        ("long_url=example.com&ttl=999999", 400),
        ("long_url=example.com&other=1", 400),
        ("long_url=a&long_url=b", 400),
        ("long_url=%ff", 400),
    ] {
        is_page(&form(&web, body, &[]).await, status);
    }
    is_page(&form(&web, &format!("long_url={}", "a".repeat(70_000)), &[]).await, 413);
    is_page(
        &web.call("POST /", &[("content-type", "text/plain")], "long_url=example.com").await,
        415,
    );
    web.store.away.store(true, std::sync::atomic::Ordering::Relaxed);
    is_page(&form(&web, "long_url=example.com", &[]).await, 503);
}

#[tokio::test]
async fn other_sites_cannot_use_the_form() {
    let web = Web::new();
    for headers in [
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
        [("origin", "https://evil.example")],
        [("origin", "null")],
    ] {
        is_page(&form(&web, "long_url=example.com", &headers).await, 403);
    }
    let own = form(&web, "long_url=example.com", &[("origin", "https://go.example")]).await;
    assert_eq!(own.status, 303);
}

#[tokio::test]
async fn a_key_that_only_looks_makes_no_links_by_the_form_either() {
    let web = Web::new();
    for (key, scope, status) in [
        ("terse_r", Scope::Read, 403),
        ("terse_c", Scope::Create, 303),
        ("terse_f", Scope::Full, 303),
    ] {
        web.give_key(OWNER.1, key, |new| new.scope = scope).await;
        let made = form(&web, "long_url=https://example.com/", &[("authorization", key)]).await;
        assert_eq!(made.status, status, "{key}");
    }
}

#[tokio::test]
async fn a_closed_home_page_says_so() {
    let web = Web::with(|rules| rules.anonymous_create = false);
    let home = web.page("/").await;
    is_page(&home, 200);
    assert!(
        home.text().contains("need an account")
            && home.text().contains("<a class=\"button\" href=\"/login\">Sign in</a>")
            && home.text().contains("ask the administrator of this server for one")
            && !home.text().contains("<form")
            && !home.text().contains("Paste a long link")
    );
    is_page(&form(&web, "long_url=example.com", &[]).await, 401);
}

#[tokio::test]
async fn the_result_page_shows_no_more_than_the_preview() {
    let web = Web::new();
    for body in [
        json!({"long_url": "https://example.com/1", "custom_alias": "locked", "password": "sesame!"}),
        json!({"long_url": "https://example.com/2", "custom_alias": "over", "ttl": 60}),
        json!({"long_url": "https://example.com/3", "custom_alias": "later",
            "valid_from": "2999-01-01"}),
    ] {
        assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
    }
    web.clock.advance(std::time::Duration::from_secs(61));
    for code in ["locked", "over"] {
        let shown = web.page(&format!("/?made={code}")).await;
        is_page(&shown, 200);
        assert!(!shown.text().contains("example.com/1\"") && !shown.text().contains("Your short"));
    }
    for code in ["none", "a.b", "", "later"] {
        is_page(&web.page(&format!("/?made={code}")).await, 404);
    }
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
async fn only_a_session_that_holds_is_called_signed_in() {
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
async fn an_invitation_that_is_over_says_so_before_anything_is_typed() {
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
async fn a_preview_tells_but_never_follows() {
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
async fn a_link_that_is_over_or_blocked_names_a_contact() {
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

#[tokio::test]
async fn a_qr_code_can_be_read_back() {
    let web = Web::new();
    let code = "a".repeat(64);
    for alias in ["abc", &code] {
        assert_eq!(
            web.api(
                "POST /api/v1/urls",
                json!({"long_url": "https://example.com/", "custom_alias": alias})
            )
            .await
            .status,
            201
        );
        let want = format!("https://go.example/{alias}");
        for query in [
            "",
            "size=64&margin=16",
            "size=300&margin=0&level=H",
            "size=2048&level=L&fg=%230a1b2c&bg=ffeedd",
            "level=Q",
        ] {
            let png = web.page(&format!("/{alias}/qr?format=png&{query}")).await;
            assert_eq!((png.status.as_u16(), png.header("content-type")), (200, "image/png"));
            assert_eq!(read(&from_png(&png.bytes)), want, "png {query}");
            let svg = web.page(&format!("/{alias}/qr?{query}")).await;
            assert_eq!((svg.status.as_u16(), svg.header("content-type")), (200, "image/svg+xml"));
            assert_eq!(read(&from_svg(&svg.text())), want, "svg {query}");
        }
    }
    let answer = web.page("/abc/qr?format=png&size=500").await;
    assert_eq!(answer.header("cache-control"), "public, max-age=86400");
    assert_eq!(from_png(&answer.bytes).len(), 500);
    let again = web
        .call("GET /abc/qr?format=png&size=500", &[("if-none-match", answer.header("etag"))], "")
        .await;
    assert_eq!((again.status.as_u16(), again.bytes.len()), (304, 0));
    for (query, field) in [
        ("format=gif", "format"),
        ("size=63", "size"),
        ("size=2049", "size"),
        ("margin=17", "margin"),
        ("margin=-1", "margin"),
        ("level=m", "level"),
        ("fg=red", "fg"),
        ("bg=%23fff", "bg"),
        ("fg=ffffff&bg=000000", "fg"),
        ("fg=cccccc", "fg"),
        ("fg=000000&bg=111111", "fg"),
        ("logo=yes", "logo"),
        ("logo=true", "logo"),
        ("logo=true&level=M", "level"),
        ("x=1", "x"),
    ] {
        web.page(&format!("/abc/qr?{query}")).await.is_problem(400, "invalid_request", field);
    }
    web.page("/none/qr").await.is_problem(404, "not_found", "");
    assert_eq!(web.api("DELETE /api/v1/urls/abc", Value::Null).await.status, 204);
    web.page("/abc/qr").await.is_problem(404, "not_found", "");
}

/// A green square of 32 pixels with a transparent border.
fn logo_png() -> Vec<u8> {
    let inside = |n: usize| (4..28).contains(&n);
    let pixels: Vec<u8> = (0..32 * 32)
        .flat_map(|n| match inside(n / 32) && inside(n % 32) {
            true => [0, 200, 0, 255],
            false => [9, 9, 9, 0],
        })
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 32, 32);
    encoder.set_color(png::ColorType::Rgba);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

#[tokio::test]
async fn a_qr_code_with_the_logo_in_the_middle_can_be_read_back() {
    let logo = Some(Logo::parse(logo_png()).unwrap());
    let web = Web::run_by(Operator { logo, ..Operator::default() });
    let code = "a".repeat(64);
    for alias in ["abc", &code] {
        let link = json!({"long_url": "https://example.com/", "custom_alias": alias});
        assert_eq!(web.api("POST /api/v1/urls", link).await.status, 201);
        let want = format!("https://go.example/{alias}");
        for query in ["size=300", "size=1024&margin=2&fg=0a1b2c&bg=ffeedd"] {
            let png = web.page(&format!("/{alias}/qr?format=png&logo=true&{query}")).await;
            assert_eq!(png.status, 200, "{}", png.text());
            let mut reader =
                png::Decoder::new(std::io::Cursor::new(&png.bytes)).read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut pixels).unwrap();
            assert_eq!(info.color_type, png::ColorType::Rgb);
            let width = info.width as usize;
            let middle = &pixels[3 * (width / 2 * width + width / 2)..][..3];
            assert_eq!(middle, [0, 200, 0], "the logo is there");
            let rows: Vec<Vec<bool>> = pixels
                .chunks(3 * width)
                .map(|row| row.chunks(3).map(|pixel| pixel[1] < 100).collect())
                .collect();
            assert_eq!(read(&rows), want, "png {query}");
            let svg = web.page(&format!("/{alias}/qr?logo=true&{query}")).await.text();
            assert!(svg.contains("href=\"data:image/png;base64,"), "{svg}");
        }
    }
    let logo = Some(Logo::parse(b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec()).unwrap());
    let web = Web::run_by(Operator { logo, ..Operator::default() });
    let link = json!({"long_url": "https://example.com/", "custom_alias": "abc"});
    assert_eq!(web.api("POST /api/v1/urls", link).await.status, 201);
    assert_eq!(web.page("/abc/qr?logo=true").await.status, 200);
    let refused = web.page("/abc/qr?logo=true&format=png").await;
    refused.is_problem(400, "invalid_request", "logo");
}

/// Rows of dark pixels.
fn from_png(bytes: &[u8]) -> Vec<Vec<bool>> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Indexed, png::BitDepth::One));
    let palette = reader.info().palette.clone().unwrap();
    let dark = [palette[0] < 128, palette[3] < 128];
    assert_ne!(dark[0], dark[1], "ink and paper differ");
    let pixel = |row: &[u8], x: usize| dark[usize::from(row[x / 8] & (0x80 >> (x % 8)) != 0)];
    pixels
        .chunks(info.line_size)
        .map(|row| (0..info.width as usize).map(|x| pixel(row, x)).collect())
        .collect()
}

/// Draws the path of runs again, each module four pixels wide.
fn from_svg(text: &str) -> Vec<Vec<bool>> {
    let across: usize =
        text.split("viewBox=\"0 0 ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let mut rows = vec![vec![false; across * 4]; across * 4];
    assert!(
        text.contains("fill=\"#000000\" d=\"M") || text.contains("fill=\"#0a1b2c\" d=\"M"),
        "the runs are in ink"
    );
    let path = text.rsplit(" d=\"").next().unwrap().split('"').next().unwrap();
    for run in path.split('z').filter(|run| !run.is_empty()) {
        let (x, rest) = run.strip_prefix('M').unwrap().split_once(' ').unwrap();
        let (y, rest) = rest.split_once('h').unwrap();
        let length: usize = rest.split('v').next().unwrap().parse().unwrap();
        let (x, y): (usize, usize) = (x.parse().unwrap(), y.parse().unwrap());
        for row in &mut rows[y * 4..y * 4 + 4] {
            row[x * 4..(x + length) * 4].fill(true);
        }
    }
    rows
}

/// Reads the code with a quiet zone around it, large enough for the decoder.
fn read(rows: &[Vec<bool>]) -> String {
    let (zone, zoom) = (40, if rows.len() < 200 { 4 } else { 1 });
    let size = rows.len() * zoom + 2 * zone;
    let dark = |x: usize, y: usize| {
        let inside = |n: usize| n.checked_sub(zone).map(|n| n / zoom).filter(|n| *n < rows.len());
        inside(x).zip(inside(y)).is_some_and(|(x, y)| rows[y][x])
    };
    let mut image = rqrr::PreparedImage::prepare_from_bitmap(size, size, dark);
    let grids = image.detect_grids();
    assert_eq!(grids.len(), 1, "one code is seen");
    grids[0].decode().unwrap().1
}
