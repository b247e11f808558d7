//! The account page: API keys and their use, and the browsers that are signed in.

use serde_json::{Value, json};
use terse_core::Timestamp;
use terse_core::registry::prelude::*;
use terse_core::registry::{KeyUsage, NewKey};

use crate::web::{Answer, OWNER, Web};

async fn open(web: &Web, cookie: &str, path: &str) -> Answer {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    web.call(&format!("GET {path}"), &headers, "").await
}

/// The item of a list of the page that begins with this bold text.
fn item<'a>(text: &'a str, name: &str) -> &'a str {
    let rest = text.split(&format!("<b>{name}</b>")).nth(1);
    rest.unwrap_or_else(|| panic!("{name} in {text}")).split("</li>").next().unwrap()
}

#[tokio::test]
async fn a_key_is_listed_with_its_plan_its_requests_and_its_last_use() {
    let web = Web::new();
    let cookie = web.sign_in(OWNER.1, "terse_a-browser").await;
    let mut keys = Vec::new();
    for name in ["newsletter", "once", "spare"] {
        let change = |key: &mut NewKey| {
            key.name = name.to_owned();
            key.plan = (name != "once").then(|| "100/h".to_owned());
        };
        keys.push(web.give_key(OWNER.1, &format!("terse_{name}"), change).await);
    }
    let last_at = Timestamp::from_ms(web.clock.now().as_ms() - 7_300_000);
    let used = |key, requests| KeyUsage { key, last_at, requests };
    web.registry.add_key_usage(&[used(keys[0], 1204), used(keys[1], 1)]).await.unwrap();
    let text = open(&web, &cookie, "/account").await.text();
    for (name, shown, absent) in [
        ("newsletter", &["1,204 requests", "last used 2 hours ago", "100/h"][..], "never used"),
        ("once", &["1 request", "last used 2 hours ago"], "1 requests"),
        ("spare", &["never used", "100/h"], "last used"),
    ] {
        let item = item(&text, name);
        for words in shown {
            assert!(item.contains(words), "{name}: {words} in {item}");
        }
        assert!(!item.contains(absent), "{name}: {absent} in {item}");
    }
    assert!(!item(&text, "once").contains("100/h"), "a key without a plan has none");
    // The API tells the same.
    let list = web.as_owner("GET /api/v1/keys", OWNER.0, Value::Null).await.json();
    let found = list["keys"].as_array().unwrap().iter();
    let fields = ["name", "requests", "last_used_at", "plan"];
    let found: Vec<Value> = found.map(|key| json!(fields.map(|name| &key[name]))).collect();
    let last_at = last_at.to_string();
    let want = json!([
        ["a key", 0, null, null],
        ["newsletter", 1204, last_at, "100/h"],
        ["once", 1, last_at, null],
        ["spare", 0, null, "100/h"],
    ]);
    assert_eq!(Value::Array(found), want);
}

#[tokio::test]
async fn the_browsers_of_an_account_are_named_and_one_is_signed_out() {
    let web = Web::new();
    let firefox = Some("Firefox on Windows");
    let here = web.sign_in_with(OWNER.1, "terse_here", firefox).await;
    let other = web.sign_in(OWNER.1, "terse_other").await;
    let nasty = web.sign_in_with(OWNER.1, "terse_nasty", Some("<script>")).await;
    let text = open(&web, &here, "/account").await.text();
    let (this, unknown) = (item(&text, "Firefox on Windows"), item(&text, "Unknown browser"));
    assert!(this.contains("this browser") && !this.contains("Sign out"), "{this}");
    assert!(!unknown.contains("this browser") && unknown.contains("Sign out"), "{unknown}");
    assert!(text.contains("<b>&#60;script&#62;</b>") && !text.contains("<script>"), "{text}");

    let list = web.signed_in("GET /api/v1/account/sessions", &here, Value::Null).await.json();
    let sessions = list["sessions"].as_array().unwrap();
    let named = |name: Value| sessions.iter().find(|session| session["browser"] == name).unwrap();
    assert_eq!(sessions.len(), 3, "{list}");
    assert_eq!(named(json!("Firefox on Windows"))["current"], true);
    assert_eq!(named(Value::Null)["current"], false);

    let (_, id) = unknown.split_once("name=\"id\" value=\"").unwrap();
    let body = format!("id={}", id.split('"').next().unwrap());
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", "go.example"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", &*here),
    ];
    let ended = web.call("POST /account/sessions/revoke", &headers, body).await;
    assert_eq!(ended.header("location"), "/account?done=session");
    assert_eq!(open(&web, &other, "/account").await.status, 303, "it is signed out");
    assert_eq!(open(&web, &nasty, "/account").await.status, 200, "the others stay");
    let text = open(&web, &here, "/account?done=session").await.text();
    assert!(text.contains("That browser is signed out."), "{text}");
    assert!(!text.contains("Unknown browser"), "{text}");
}
