//! The look of pages, set by admins.

use terse_core::registry::prelude::*;
use terse_core::registry::{AuditAction, AuditQuery, Role};
use terse_core::{Operator, PageLanguage};

use crate::web::{Answer, OWNER, Web};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\x01";

/// The beginning of a PNG of this size.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
    [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", &sides[..], b"\x08\x06\0\0\0"].concat()
}

async fn send(web: &Web, cookie: &str, fields: &[(&str, &[u8])]) -> Answer {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend(
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n").as_bytes(),
        );
        body.extend(*value);
        body.extend(b"\r\n");
    }
    body.extend(b"--b--\r\n");
    let headers = [
        ("content-type", "multipart/form-data; boundary=b"),
        ("host", "go.example"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", cookie),
    ];
    web.call("POST /branding", &headers, body).await
}

async fn open(web: &Web, cookie: &str, path: &str) -> Answer {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    web.call(&format!("GET {path}"), &headers, "").await
}

async fn world() -> (Web, String) {
    let operator = Operator {
        name: Some("Settings Inc.".parse().unwrap()),
        abuse_contact: Some("old@example.org".parse().unwrap()),
        ..Operator::default()
    };
    let web = Web::run_by(operator);
    let admin = web.person("ada", Role::Admin).await;
    let admin = web.sign_in(admin, "terse_admin-browser").await;
    (web, admin)
}

#[tokio::test]
async fn what_an_admin_sets_is_on_every_page() {
    let (web, admin) = world().await;
    let text = open(&web, &admin, "/branding").await.text();
    assert!(text.contains("placeholder=\"Settings Inc.\"") && text.len() < 50_000, "{text}");
    let saved = send(
        &web,
        &admin,
        &[
            ("name", b"Blue <Ltd>"),
            ("accent", b"#0a5c8f"),
            ("abuse_contact", b"abuse@example.com"),
            ("label0", b"Privacy & more"),
            ("url0", b"https://example.com/privacy"),
            ("logo", PNG),
        ],
    )
    .await;
    assert_eq!(saved.header("location"), "/branding?done=1", "{}", saved.text());
    for path in ["/", "/none+", "/api/docs"] {
        let text = web.page(path).await.text();
        for words in [
            "Blue &#60;Ltd&#62;",
            "<a href=\"https://example.com/privacy\" rel=\"noreferrer\">Privacy &#38; more</a>",
            "href=\"mailto:abuse@example.com\"",
            "href=\"/assets/brand-",
            "src=\"/assets/logo-",
        ] {
            assert!(text.contains(words), "{path}: {words} in {text}");
        }
        assert!(!text.contains("Settings Inc."));
    }
    let text = open(&web, &admin, "/branding?done=1").await.text();
    assert!(text.contains("Saved.") && text.contains("value=\"#0a5c8f\""), "{text}");
    let asset = |kind: &str| {
        let at = text.find(&format!("/assets/{kind}-")).unwrap();
        text[at..].split('"').next().unwrap().to_owned()
    };
    let style = web.page(&asset("brand")).await;
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
    assert!(style.text().contains("--accent: #0a5c8f") && style.text().contains("dark"));
    let logo = web.page(&asset("logo")).await;
    assert_eq!((logo.header("content-type"), &*logo.bytes), ("image/png", PNG));
    assert_eq!(web.page("/assets/brand-000000000000.css").await.status, 404);

    // The form without a file keeps the logo; a tick removes it, and empty fields the rest.
    send(&web, &admin, &[("name", b"Green")]).await;
    let text = web.page("/").await.text();
    assert!(text.contains("/assets/logo-") && !text.contains("/assets/brand-"), "{text}");
    assert!(text.contains("Run by Green") && text.contains("mailto:old@example.org"));
    send(&web, &admin, &[("remove_logo", b"1")]).await;
    let text = web.page("/").await.text();
    assert!(!text.contains("/assets/logo-") && text.contains("Run by Settings Inc."));
    let query = AuditQuery { limit: 10, ..AuditQuery::default() };
    let lines = web.registry.audit(&query).await.unwrap();
    assert_eq!(lines.iter().filter(|line| line.act == AuditAction::BrandingChanged).count(), 3);
}

#[tokio::test]
async fn what_is_wrong_is_said_beside_its_field_and_changes_nothing() {
    let (web, admin) = world().await;
    let big = [PNG, &[0; 70_000]].concat();
    let wide = png_header(513, 1);
    for (field, value, words) in [
        ("accent", &b"#ffee00"[..], "too light to be read"),
        ("accent", b"blue", "Must be a colour of six hexadecimal digits"),
        ("name", &[b'x'; 65], "Must have 1 to 64 characters"),
        ("abuse_contact", b"nobody", "Must be an email address"),
        ("url0", b"https://example.com/", "Every link needs a label"),
        ("logo", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "Must be a PNG, JPEG or WebP"),
        ("logo", b"GIF89a", "Must be a PNG, JPEG or WebP"),
        ("logo", &big, "Must have at most 64 KiB"),
        ("logo", &wide, "A PNG must have at most 512 by 512 pixels"),
    ] {
        let answer = send(&web, &admin, &[(field, value), ("name", b"Typed")]).await;
        let text = answer.text();
        assert_eq!(answer.status, 400, "{field} {text}");
        assert!(text.contains(words) && text.contains("aria-describedby=\"problem"), "{text}");
    }
    let links = [("label0", &b"Privacy"[..]), ("url0", b"http://example.com/")];
    assert!(send(&web, &admin, &links).await.text().contains("must be an https:// URL"));
    assert_eq!(web.registry.branding().await.unwrap(), terse_core::Branding::default());
}

#[tokio::test]
async fn the_qr_code_as_png_has_a_logo_that_can_be_drawn() {
    let (web, admin) = world().await;
    let link = serde_json::json!({"long_url": "https://example.com/", "custom_alias": "abc"});
    assert_eq!(web.api("POST /api/v1/urls", link).await.status, 201);
    for (logo, in_png) in [(png_header(512, 512), true), (b"\xff\xd8\xff\xe0".to_vec(), false)] {
        let saved = send(&web, &admin, &[("logo", &logo)]).await;
        assert_eq!(saved.header("location"), "/branding?done=1", "{}", saved.text());
        let text = open(&web, &admin, "/links/abc/qr?logo=true").await.text();
        let query = |format: &str| {
            let at = text.rfind(&format!("qr?format={format}")).unwrap();
            text[at..].split('"').next().unwrap().to_owned()
        };
        assert!(query("svg").contains("logo=true"), "{text}");
        assert_eq!(query("png").contains("logo=true"), in_png, "{text}");
        assert_eq!(text.contains("The PNG is without the logo"), !in_png, "{text}");
        if !in_png {
            let refused = web.page("/abc/qr?format=png&logo=true").await;
            refused.is_problem(400, "invalid_request", "logo");
        }
    }
}

#[tokio::test]
async fn only_admins_set_it_from_our_own_page() {
    let (web, admin) = world().await;
    let user = web.sign_in(OWNER.1, "terse_user-browser").await;
    assert_eq!(send(&web, &user, &[("name", b"Mine")]).await.status, 404);
    assert_eq!(open(&web, &user, "/branding").await.status, 404);
    let headers = [
        ("content-type", "multipart/form-data; boundary=b"),
        ("host", "go.example"),
        ("origin", "https://evil.example"),
        ("cookie", &*admin),
    ];
    assert_eq!(web.call("POST /branding", &headers, "--b--").await.status, 403);
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", "go.example"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", &*admin),
    ];
    assert_eq!(web.call("POST /branding", &headers, "name=Mine").await.status, 415);
    let huge = vec![b'x'; 200_000];
    assert_eq!(send(&web, &admin, &[("logo", &huge)]).await.status, 413);
    assert!(web.page("/").await.text().contains("Settings Inc."));
}

#[test]
fn pages_of_the_redirect_plane_have_the_branding() {
    let hosts =
        terse_core::Hosts::new(&"https://go.example/".parse().unwrap(), &[], vec![]).unwrap();
    let operator = Operator { accent: Some("#123456".parse().unwrap()), ..Operator::default() };
    let pages = terse_server::pages(&operator, &hosts, PageLanguage::English);
    assert!(pages.not_found.contains("/assets/brand-"));
}
