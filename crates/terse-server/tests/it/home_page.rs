//! The form on the home page.

use serde_json::json;
use terse_core::registry::Scope;

use crate::pages::{NASTY, is_page};
use crate::web::{Answer, OWNER, Web};

pub(crate) async fn form(web: &Web, body: &str, headers: &[(&str, &str)]) -> Answer {
    let mut all =
        vec![("content-type", "application/x-www-form-urlencoded"), ("host", "go.example")];
    all.extend(headers);
    web.call("POST /", &all, body.to_owned()).await
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
    for shown in [
        "id=\"short\" href=\"https://go.example/mine\"",
        "https://example.com/a?b=1",
        "data-share=\"https://go.example/mine\" hidden>Share</button>",
        "class=\"qr\"",
        "Expires <time",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
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
async fn a_read_only_key_creates_no_links_through_the_form() {
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
            && home.text().contains("ask an admin of this server for one")
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
