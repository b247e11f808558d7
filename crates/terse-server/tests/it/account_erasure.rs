//! The erasure of an account, and the export before it.

use serde_json::{Value, json};
use terse_core::clicks::{Click, ClickTarget, LinkId};
use terse_core::registry::prelude::*;
use terse_core::registry::{
    Actor, Attribution, AuditAction, AuditQuery, EventKind, NewWebhook, Role,
};
use terse_core::{LinkReader, OwnerId, Target};

use crate::owners::{PASSWORD, acts, enrolled, key_of, shorten};
use crate::web::{OTHER, OWNER, Web};

pub(crate) async fn with_links_and_clicks(web: &Web, owner: OwnerId, key: &str, names: &[&str]) {
    for name in names {
        assert_eq!(shorten(web, key, name).await.status, 201);
        let created_at = web.store.get(&key_of(name)).await.unwrap().unwrap().created_at;
        web.clicks.add([Click::bare(
            web.clock.now(),
            ClickTarget::Link(LinkId { key: key_of(name), created_at }, owner),
        )]);
    }
}

#[tokio::test]
async fn an_erased_account_loses_everything_and_others_lose_nothing() {
    let web = Web::new();
    let (ann, key) = enrolled(&web, "ann").await;
    with_links_and_clicks(&web, ann, &key, &["ann-1", "ann-2", "ann-3", "ann-4"]).await;
    with_links_and_clicks(&web, OTHER.1, OTHER.0, &["theirs"]).await;
    assert_eq!(web.as_owner("DELETE /api/v1/urls/ann-2", &key, Value::Null).await.status, 204);
    let words = json!({ "title": "of Ann", "tags": ["ann"] });
    assert_eq!(web.as_owner("PATCH /api/v1/urls/ann-4", &key, words).await.status, 200);
    assert_eq!(
        web.api("PUT /api/v1/admin/links/ann-4/standing", json!({ "standing": "blocked" }))
            .await
            .status,
        200
    );
    let erase = "DELETE /api/v1/account";
    web.as_owner(erase, &key, json!({})).await.is_problem(400, "invalid_request", "password");
    web.as_owner(erase, &key, json!({ "confirm": "ann" })).await.is_problem(
        400,
        "invalid_request",
        "password",
    );
    web.as_owner(erase, &key, json!({ "password": "wrong horse" })).await.is_problem(
        403,
        "wrong_password",
        "password",
    );
    assert_eq!(
        web.as_owner("GET /api/v1/account", &key, Value::Null).await.status,
        200,
        "nothing has happened yet"
    );
    assert_eq!(web.as_owner(erase, &key, json!({ "password": PASSWORD })).await.status, 204);
    web.as_owner("GET /api/v1/account", &key, Value::Null).await.is_problem(
        401,
        "unauthorized",
        "Authorization",
    );
    assert_eq!(web.registry.account(ann).await.unwrap(), None);
    // The blocked link keeps its code, but no data of its former owner.
    let left = web.store.everything();
    assert_eq!(
        left.iter().map(|link| link.key.code.as_str()).collect::<Vec<_>>(),
        ["ann-4", "theirs"]
    );
    assert!(
        left[0].title.is_none()
            && left[0].tags.iter().next().is_none()
            && left[0].deleted_at.is_some()
    );
    assert_eq!(web.api("GET /api/v1/urls/ann-1", Value::Null).await.status, 404);
    let stats = web.api("GET /api/v1/stats?owner=all", Value::Null).await.json();
    assert_eq!(stats["total_clicks"], 1, "{stats}");
    assert_eq!(
        web.as_owner("GET /api/v1/urls/theirs", OTHER.0, Value::Null).await.json()["click_count"],
        1
    );
    let log = format!(
        "{:?}",
        web.registry.audit(&AuditQuery { limit: 1000, ..AuditQuery::default() }).await.unwrap()
    );
    assert!(!log.contains("\"ann\"") && !log.contains("\\\"ann\\\""), "{log}");
    assert_eq!(acts(&web).await.last(), Some(&AuditAction::UserErased));
    assert_eq!(
        enrolled(&web, "ann").await.0,
        OwnerId(ann.0 + 1),
        "the name is free, the id is not"
    );
}

#[tokio::test]
async fn an_account_without_a_password_is_erased_by_its_name() {
    let web = Web::new();
    let erase = "DELETE /api/v1/account";
    for confirm in [json!({}), json!({ "confirm": "other" }), json!({ "password": "anything" })] {
        web.as_owner(erase, OWNER.0, confirm).await.is_problem(400, "invalid_request", "confirm");
    }
    assert_eq!(web.as_owner(erase, OWNER.0, json!({ "confirm": "terse-owner" })).await.status, 204);
    assert_eq!(web.registry.account(OWNER.1).await.unwrap(), None);
    web.person("root", Role::Admin).await;
    web.as_owner(erase, "root", json!({ "confirm": "root" })).await.is_problem(
        409,
        "last_admin",
        "",
    );
}

#[tokio::test]
async fn an_erasure_that_was_cut_off_is_finished_later() {
    let web = Web::new();
    with_links_and_clicks(&web, OWNER.1, OWNER.0, &["one", "two"]).await;
    web.clicks.away.store(true, std::sync::atomic::Ordering::Relaxed);
    let asked =
        web.as_owner("DELETE /api/v1/account", OWNER.0, json!({ "confirm": "terse-owner" })).await;
    assert_eq!(asked.status, 202, "begun, and not ended");
    web.as_owner("GET /api/v1/account", OWNER.0, Value::Null).await.is_problem(
        403,
        "suspended",
        "",
    );
    let user = format!("/api/v1/admin/users/{}", OWNER.1.0);
    let shown = web.api(&format!("GET {user}"), Value::Null).await.json();
    assert_eq!(shown["suspended"]["erasing"], true, "{shown}");
    assert!(!shown.to_string().contains("\\u0001"), "{shown}");
    for (line, body) in
        [("PATCH", json!({ "suspended": false })), ("PATCH", json!({ "name": "kept" }))]
    {
        web.api(&format!("{line} {user}"), body).await.is_problem(409, "conflict", "");
    }
    web.api(&format!("POST {user}/reinstate"), json!({})).await.is_problem(409, "conflict", "");
    assert!(web.finish_erasures().await.is_err(), "the clicks are still away");
    web.clicks.away.store(false, std::sync::atomic::Ordering::Relaxed);
    // An account that is only suspended is not erased, whatever the reason says.
    let other = format!("POST /api/v1/admin/users/{}/suspend", OTHER.1.0);
    web.api(&other, json!({ "why": "\u{1}the account is being erased" })).await.is_problem(
        400,
        "invalid_request",
        "why",
    );
    assert_eq!(web.api(&other, json!({ "why": "the account is being erased" })).await.status, 200);
    assert_eq!(web.finish_erasures().await.unwrap(), 1);
    assert_eq!(web.finish_erasures().await.unwrap(), 0);
    assert!(
        web.registry.account(OWNER.1).await.unwrap().is_none()
            && web.registry.account(OTHER.1).await.unwrap().is_some()
    );
    assert!(web.store.everything().is_empty());
    assert_eq!(web.api("GET /api/v1/stats?owner=all", Value::Null).await.json()["total_clicks"], 0);
}

#[tokio::test]
async fn an_erasure_that_is_cut_off_after_any_step_can_be_finished() {
    for step in 0.. {
        let web = Web::new();
        with_links_and_clicks(&web, OWNER.1, OWNER.0, &["one", "two", "three"]).await;
        with_links_and_clicks(&web, OTHER.1, OTHER.0, &["theirs"]).await;
        assert_eq!(web.as_owner("DELETE /api/v1/urls/two", OWNER.0, Value::Null).await.status, 204);
        *web.store.left.lock().unwrap() = Some(step);
        let asked = web
            .as_owner("DELETE /api/v1/account", OWNER.0, json!({ "confirm": "terse-owner" }))
            .await;
        *web.store.left.lock().unwrap() = None;
        // The account is closed at once, whichever step failed.
        assert!(
            !web.as_owner("GET /api/v1/urls", OWNER.0, Value::Null).await.status.is_success(),
            "{step}"
        );
        web.finish_erasures().await.unwrap();
        assert_eq!(web.registry.account(OWNER.1).await.unwrap(), None, "{step}");
        let left = web.store.everything();
        assert!(left.len() == 1 && left[0].owner == OTHER.1, "{step}: {left:?}");
        assert_eq!(
            web.api("GET /api/v1/stats?owner=all", Value::Null).await.json()["total_clicks"],
            1,
            "{step}"
        );
        if asked.status == 204 {
            assert!(step > 5, "the store was asked {step} times only");
            return;
        }
        assert_eq!(asked.status, 202, "{step}");
    }
}

#[tokio::test]
async fn an_export_has_all_of_ones_own_and_nothing_of_others() {
    let web = Web::new();
    with_links_and_clicks(&web, OWNER.1, OWNER.0, &["mine", "gone"]).await;
    with_links_and_clicks(&web, OTHER.1, OTHER.0, &["theirs"]).await;
    assert_eq!(web.as_owner("DELETE /api/v1/urls/gone", OWNER.0, Value::Null).await.status, 204);
    web.sign_in(OWNER.1, "secret-cookie").await;
    for (owner, url) in
        [(OWNER.1, "https://hook.example/mine"), (OTHER.1, "https://hook.example/theirs")]
    {
        let (url, events) = (Target::from_stored(url.into()), EventKind::ALL.into_iter().collect());
        let by = Attribution { actor: Actor::Owner(owner), at: web.clock.now(), why: None };
        web.registry
            .add_webhook(NewWebhook { owner, url, events, created_at: web.clock.now() }, by)
            .await
            .unwrap();
    }
    let export = web.as_owner("GET /api/v1/account/export", OWNER.0, Value::Null).await;
    assert_eq!(
        (export.status.as_u16(), export.header("content-type")),
        (200, "application/x-ndjson")
    );
    assert!(export.header("content-disposition").contains("attachment"));
    let lines: Vec<Value> =
        export.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "account", "key", "webhook", "session", "link", "click", "link", "click", "audit",
            "audit", "audit", "end"
        ]
    );
    assert_eq!(
        (&lines[2]["url"], &lines[2]["secret"]),
        (&json!("https://hook.example/mine"), &Value::Null)
    );
    assert!(
        lines.iter().any(|line| line["act"] == "webhook_added" && line["by"] == "you"),
        "{}",
        export.text()
    );
    assert_eq!(
        (&lines[4]["short_code"], &lines[5]["short_code"], &lines[6]["short_code"]),
        (&json!("mine"), &json!("mine"), &json!("gone"))
    );
    assert!(
        !export.text().contains("theirs")
            && !export.text().contains("secret-cookie")
            && !export.text().contains(OWNER.0)
    );
    web.clicks.away.store(true, std::sync::atomic::Ordering::Relaxed);
    let response = web.open("/api/v1/account/export", OWNER.0).await;
    assert!(
        axum::body::to_bytes(response.into_body(), usize::MAX).await.is_err(),
        "broken off, not ended"
    );
}
