//! Earlier revisions of a link, and undo.

use serde_json::{Value, json};

use crate::web::{Answer, KEY, OTHER, OWNER, Web};

const LINK: &str = "/api/v1/urls/abc";

async fn with_link() -> Web {
    let web = Web::new();
    let body = json!({"long_url": "https://example.com/1", "custom_alias": "abc", "title": "one"});
    assert_eq!(web.api("POST /api/v1/urls", body).await.status, 201);
    web
}

async fn patch(web: &Web, body: Value) {
    let answer = web.api(&format!("PATCH {LINK}"), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

async fn undo(web: &Web, body: Value) -> Answer {
    web.api(&format!("POST {LINK}/undo"), body).await
}

async fn revisions(web: &Web) -> Value {
    web.api(&format!("GET {LINK}/revisions"), Value::Null).await.json()
}

#[tokio::test]
async fn the_history_shows_each_change_and_no_password() {
    let web = with_link().await;
    assert_eq!(revisions(&web).await, json!({"revision": 1, "revisions": []}));
    patch(&web, json!({"title": null, "long_url": "https://example.com/2", "tags": ["x"]})).await;
    patch(&web, json!({"password": "open sesame"})).await;
    patch(&web, json!({"password": "shut sesame", "archived": true})).await;
    let told = revisions(&web).await;
    assert!(!told.to_string().contains("argon2") && !told.to_string().contains("sesame"), "{told}");
    let change = |field: &str, before: Value, after: Value| {
        json!({
            "field": field, "before": before, "after": after
        })
    };
    let changes: Vec<Value> =
        told["revisions"].as_array().unwrap().iter().map(|one| one["changes"].clone()).collect();
    assert_eq!(
        changes,
        [
            json!([
                change("archived", json!(false), json!(true)),
                change("has_password", json!(true), json!(true))
            ]),
            json!([change("has_password", json!(false), json!(true))]),
            json!([
                change("long_url", json!("https://example.com/1"), json!("https://example.com/2")),
                change("title", json!("one"), Value::Null),
                change("tags", json!([]), json!(["x"])),
            ]),
        ]
    );
    let numbers: Vec<u64> = told["revisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["revision"].as_u64().unwrap())
        .collect();
    assert_eq!((told["revision"].as_u64(), &numbers[..]), (Some(4), &[3, 2, 1][..]));
    assert!(told["revisions"][0]["until"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn the_last_change_is_undone_and_so_is_the_undoing() {
    let web = with_link().await;
    undo(&web, json!({})).await.is_problem(400, "invalid_request", "revision");
    patch(&web, json!({"title": "two", "notes": "n"})).await;
    let undone = undo(&web, json!({})).await;
    assert_eq!(
        (undone.status.as_u16(), undone.header("etag")),
        (200, "\"3\""),
        "{}",
        undone.text()
    );
    assert_eq!((&undone.json()["title"], &undone.json()["notes"]), (&json!("one"), &Value::Null));
    let bare = web.call(&format!("POST {LINK}/undo"), &[("authorization", KEY)], "").await;
    assert_eq!(
        (bare.status.as_u16(), &bare.json()["title"]),
        (200, &json!("two")),
        "without a body, too"
    );
    assert_eq!(
        (revisions(&web).await["revision"].as_u64(), bare.header("etag")),
        (Some(4), "\"4\"")
    );
    web.call(&format!("POST {LINK}/undo"), &[("authorization", KEY)], "{}").await.is_problem(
        415,
        "unsupported_media_type",
        "Content-Type",
    );
}

#[tokio::test]
async fn a_link_goes_back_to_any_revision_that_is_kept() {
    let web = with_link().await;
    for n in 2..5 {
        patch(&web, json!({"title": n.to_string(), "max_clicks": n})).await;
    }
    let back = undo(&web, json!({"revision": 2})).await.json();
    assert_eq!(
        (&back["title"], &back["max_clicks"], &back["revision"]),
        (&json!("2"), &json!(2), &json!(5))
    );
    let same = undo(&web, json!({"revision": 5})).await;
    assert_eq!((same.status.as_u16(), same.header("etag")), (200, "\"5\""), "nothing to do");
    for (body, field) in [
        (json!({"revision": 99}), "revision"),
        (json!({"revision": "2"}), "revision"),
        (json!({"revision": -1}), "revision"),
        (json!({"to": 2}), "to"),
    ] {
        undo(&web, body).await.is_problem(400, "invalid_request", field);
    }
    let headers = [("authorization", KEY), ("if-match", "\"4\"")];
    web.call(&format!("POST {LINK}/undo"), &headers, "").await.is_problem(
        412,
        "precondition_failed",
        "If-Match",
    );
}

#[tokio::test]
async fn undoing_is_under_all_rules() {
    let web = Web::new();
    let made = json!({"long_url": "https://odd.example/", "custom_alias": "abc", "ttl": 60});
    web.call(
        "POST /api/v1/urls",
        &[("authorization", OWNER.0), ("content-type", "application/json")],
        made.to_string(),
    )
    .await;
    patch(&web, json!({"long_url": "https://example.com/"})).await;
    let status =
        async || web.api(&format!("GET {LINK}"), Value::Null).await.json()["status"].clone();
    assert_eq!(status().await, "active");
    assert_eq!(
        undo(&web, json!({})).await.json()["status"],
        "suspicious",
        "the target is judged anew"
    );
    // A moderator's decision stays.
    patch(&web, json!({"long_url": "https://example.com/"})).await;
    web.api("PUT /api/v1/admin/links/abc/standing", json!({"standing": "blocked"})).await;
    assert_eq!(undo(&web, json!({})).await.json()["status"], "blocked");
    web.api("PUT /api/v1/admin/links/abc/standing", json!({"standing": "clear"})).await;
    // Restoring a past expiry would end the link.
    patch(&web, json!({"expires_at": null})).await;
    web.clock.advance(std::time::Duration::from_secs(61));
    undo(&web, json!({})).await.is_problem(400, "invalid_expiry", "revision");
    assert_eq!(status().await, "active");
}

#[tokio::test]
async fn another_owners_history_is_not_there() {
    let web = with_link().await;
    patch(&web, json!({"title": "two"})).await;
    for line in [format!("GET {LINK}/revisions"), format!("POST {LINK}/undo")] {
        for key in [OWNER.0, OTHER.0] {
            web.call(&line, &[("authorization", key)], "").await.is_problem(404, "not_found", "");
        }
        web.call(&line, &[], "").await.is_problem(401, "unauthorized", "Authorization");
    }
    web.api(&format!("DELETE {LINK}"), Value::Null).await;
    web.api(&format!("GET {LINK}/revisions"), Value::Null).await.is_problem(404, "not_found", "");
    undo(&web, json!({})).await.is_problem(404, "not_found", "");
}
