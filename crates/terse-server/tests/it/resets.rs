//! Reset links: made by an admin, used by the holder of the account.

use serde_json::{Value, json};
use terse_core::registry::Role;

use crate::web::{Answer, KEY, OWNER, Web};

const NEW: &str = "battery+staple+9";

async fn send(web: &Web, cookie: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", "go.example"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", cookie),
    ];
    web.call(&format!("POST {path}"), &headers, body.to_owned()).await
}

async fn open(web: &Web, cookie: &str, path: &str) -> Answer {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    web.call(&format!("GET {path}"), &headers, "").await
}

/// The path of the only link with a token in a text.
fn link_in(text: &str) -> String {
    let rest = text.split("https://go.example/login/reset?token=").nth(1).expect("a link");
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c));
    format!("/login/reset?token={}", &rest[..end.unwrap_or(rest.len())])
}

#[tokio::test]
async fn a_link_of_the_page_accounts_sets_a_new_password_once() {
    let web = Web::new();
    let admin = web.person("ada", Role::Admin).await;
    let admin = web.sign_in(admin, "terse_admin-browser").await;
    let owner = web.sign_in(OWNER.1, "terse_owner-browser").await;
    let id = format!("id={}", OWNER.1.0);
    assert_eq!(send(&web, &owner, "/accounts/reset", &id).await.status, 404);
    let made = send(&web, &admin, "/accounts/reset", &id).await;
    assert_eq!(made.status, 201);
    let first = link_in(&made.text());
    assert!(made.text().contains("Send this link to terse-owner"));
    assert!(!open(&web, &admin, "/accounts").await.text().contains("token="), "shown once");
    let path = link_in(&send(&web, &admin, "/accounts/reset", &id).await.text());
    let replaced = open(&web, "", &first).await;
    assert_eq!(replaced.status, 404);
    assert!(replaced.text().contains("no longer valid"), "{}", replaced.text());
    let page = open(&web, "", &path).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("cache-control"), "no-store");
    assert!(page.text().contains("terse-owner") && !page.text().contains("<script>"));
    let token = path.split_once('=').unwrap().1;
    for (form, said) in [
        ("password=short&again=short", "at least 10 characters"),
        ("password=battery+staple&again=other", "two passwords differ"),
    ] {
        let again = send(&web, "", "/login/reset", &format!("token={token}&{form}")).await;
        assert_eq!(again.status, 400);
        assert!(again.text().contains(said), "{}", again.text());
        assert!(again.text().contains(token), "the link is not lost");
    }
    assert_eq!(open(&web, &owner, "/account").await.status, 200, "still signed in");
    let body = format!("token={token}&password={NEW}&again={NEW}");
    let done = send(&web, "", "/login/reset", &body).await;
    assert_eq!(done.header("location"), "/login?done=reset");
    assert_eq!(open(&web, &owner, "/account").await.status, 303, "signed out");
    let page = open(&web, "", "/login?done=reset").await.text();
    assert!(page.contains("Your password is changed"), "{page}");
    let signed_in = send(&web, "", "/login", &format!("name=terse-owner&password={NEW}")).await;
    assert_eq!(signed_in.header("location"), "/dashboard", "{}", signed_in.text());
    for again in [open(&web, "", &path).await, send(&web, "", "/login/reset", &body).await] {
        assert_eq!(again.status, 404);
        assert!(again.text().contains("Each reset link works once"), "{}", again.text());
    }
    for (body, status) in [("id=x", 400), ("", 400), ("id=999999", 404)] {
        assert_eq!(send(&web, &admin, "/accounts/reset", body).await.status, status, "{body}");
    }
}

#[tokio::test]
async fn the_api_makes_a_link_too_and_not_for_a_suspended_account() {
    let web = Web::new();
    let line = format!("POST /api/v1/admin/users/{}/reset_link", OWNER.1.0);
    let made = web.api(&line, Value::Null).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert!(made.json()["expires_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(open(&web, "", &link_in(&made.text())).await.status, 200);
    let suspend = format!("POST /api/v1/admin/users/{}/suspend", OWNER.1.0);
    assert_eq!(web.api(&suspend, json!({ "why": "spam" })).await.status, 200);
    assert_eq!(open(&web, "", &link_in(&made.text())).await.status, 404);
    assert_eq!(web.as_owner(&line, KEY, Value::Null).await.status, 403);
    let missing = web.api("POST /api/v1/admin/users/999999/reset_link", Value::Null).await;
    assert_eq!(missing.status, 404);
}
