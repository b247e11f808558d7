//! Accounts, their keys and their erasure.

use serde_json::{Value, json};
use terse_core::clicks::{Click, ClickTarget, LinkId};
use terse_core::limits::Limit;
use terse_core::registry::prelude::*;
use terse_core::registry::{
    AccountName, Actor, Attribution, AuditAction, AuditQuery, EventKind, NewWebhook, Role, Scope,
};
use terse_core::{Code, Domain, LinkKey, LinkReader, OwnerId, Target, Timestamp};
use terse_server::RateLimits;

use crate::web::{Answer, KEY, MODERATOR, OTHER, OWNER, Web};

const PASSWORD: &str = "correct horse";

fn key_of(code: &str) -> LinkKey {
    LinkKey { domain: Domain::primary(), code: Code::parse(code).unwrap() }
}

async fn acts(web: &Web) -> Vec<AuditAction> {
    let lines =
        web.registry.audit(&AuditQuery { limit: 1000, ..AuditQuery::default() }).await.unwrap();
    lines.iter().rev().map(|line| line.act).collect()
}

/// An account with a password, created by the operator.
async fn enrolled(web: &Web, name: &str) -> (OwnerId, String) {
    let made =
        web.api("POST /api/v1/admin/users", json!({ "name": name, "password": PASSWORD })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_u64().unwrap();
    let key = web
        .api(
            &format!("POST /api/v1/admin/users/{id}/keys"),
            json!({ "name": "all", "scope": "full" }),
        )
        .await;
    assert_eq!(key.status, 201, "{}", key.text());
    (OwnerId(id), key.json()["key"].as_str().unwrap().to_owned())
}

async fn shorten(web: &Web, key: &str, alias: &str) -> Answer {
    web.as_owner(
        "POST /api/v1/urls",
        key,
        json!({ "long_url": format!("https://example.com/{alias}"), "alias": alias }),
    )
    .await
}

#[tokio::test]
async fn a_key_is_shown_once_and_opens_what_it_is_for_until_it_is_revoked() {
    let web = Web::new();
    for (scope, get, post) in [("create", 403, 201), ("read", 200, 403), ("full", 200, 201)] {
        let wish = json!({
            "name": " news letter ", "scope": scope, "expires_at": "2099-01-31", "plan": "5/min"
        });
        let made = web.as_owner("POST /api/v1/keys", OWNER.0, wish).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let made = made.json();
        let key = made["key"].as_str().unwrap();
        assert!(
            key.starts_with(made["prefix"].as_str().unwrap())
                && made["prefix"].as_str().unwrap().len() == 12,
            "{made}"
        );
        assert_eq!(
            (&made["name"], &made["scope"], &made["plan"]),
            (&json!("news letter"), &json!(scope), &json!("5/m"))
        );
        assert_eq!(made["expires_at"], "2099-01-31T00:00:00Z");
        let list = web.as_owner("GET /api/v1/keys", OWNER.0, Value::Null).await;
        assert!(
            !list.text().contains(key) && list.text().contains("\"prefix\""),
            "{}",
            list.text()
        );
        assert_eq!(list.json()["keys"][1]["id"], made["id"]);
        assert_eq!(web.as_owner("GET /api/v1/urls", key, Value::Null).await.status, get);
        assert_eq!(shorten(&web, key, &format!("by-{scope}")).await.status, post);
        let gone = format!("DELETE /api/v1/keys/{}", made["id"]);
        web.as_owner(&gone, OTHER.0, Value::Null).await.is_problem(404, "not_found", "");
        assert_eq!(web.as_owner(&gone, OWNER.0, Value::Null).await.status, 204);
        web.as_owner(&gone, OWNER.0, Value::Null).await.is_problem(404, "not_found", "");
        web.as_owner("GET /api/v1/urls", key, Value::Null).await.is_problem(
            401,
            "unauthorized",
            "Authorization",
        );
    }
    let acts = acts(&web).await;
    assert_eq!(acts[acts.len() - 2..], [AuditAction::KeyAdded, AuditAction::KeyRevoked]);
}

#[tokio::test]
async fn a_request_for_a_key_is_read_strictly() {
    let web = Web::new();
    let long = "x".repeat(101);
    for (wish, field) in [
        (json!({ "scope": "full" }), "name"),
        (json!({ "name": "", "scope": "full" }), "name"),
        (json!({ "name": "a\nb", "scope": "full" }), "name"),
        (json!({ "name": long, "scope": "full" }), "name"),
        (json!({ "name": "a" }), "scope"),
        (json!({ "name": "a", "scope": "all" }), "scope"),
        (json!({ "name": "a", "scope": "full", "expires_at": "2001-01-01" }), "expires_at"),
        (json!({ "name": "a", "scope": "full", "expires_at": "soon" }), "expires_at"),
        (json!({ "name": "a", "scope": "full", "plan": "many" }), "plan"),
        (json!({ "name": "a", "scope": "full", "owner": 1000 }), "owner"),
    ] {
        let code = if field == "expires_at" { "invalid_expiry" } else { "invalid_request" };
        web.as_owner("POST /api/v1/keys", OWNER.0, wish).await.is_problem(400, code, field);
    }
    web.as_owner("GET /api/v1/keys?x=1", OWNER.0, Value::Null).await.is_problem(
        400,
        "invalid_request",
        "x",
    );
    for id in ["0", "-1", "01", "x", "99999999999999999999", "18446744073709551615"] {
        web.as_owner(&format!("DELETE /api/v1/keys/{id}"), OWNER.0, Value::Null).await.is_problem(
            404,
            "not_found",
            "",
        );
    }
}

#[tokio::test]
async fn a_key_makes_no_key_that_may_do_more() {
    let web =
        Web::limited(RateLimits { create_per_key: Limit::per_hour(100), ..RateLimits::off() });
    let ends = Timestamp::parse("2090-01-01").unwrap();
    web.give_key(OWNER.1, "terse_small", |key| {
        (key.plan, key.expires_at) = (Some("10/h".into()), Some(ends));
    })
    .await;
    web.give_key(OWNER.1, "terse_large", |key| key.plan = Some("1000/h".into())).await;
    let make = |key: &'static str, mut wish: Value| {
        (wish["name"], wish["scope"]) = ("a".into(), "full".into());
        web.as_owner("POST /api/v1/keys", key, wish)
    };
    for (key, wish, plan, ends) in [
        (OWNER.0, json!({}), Value::Null, Value::Null),
        (OWNER.0, json!({ "plan": "100/h" }), "100/h".into(), Value::Null),
        ("terse_large", json!({ "plan": "1000/h" }), "1000/h".into(), Value::Null),
        ("terse_large", json!({}), Value::Null, Value::Null),
        ("terse_small", json!({}), "10/h".into(), "2090-01-01T00:00:00Z".into()),
        (
            "terse_small",
            json!({ "expires_at": "2089-01-01" }),
            "10/h".into(),
            "2089-01-01T00:00:00Z".into(),
        ),
    ] {
        let made = make(key, wish.clone()).await;
        assert_eq!(made.status, 201, "{wish} {}", made.text());
        assert_eq!(
            (&made.json()["plan"], &made.json()["expires_at"]),
            (&plan, &ends),
            "{key} {wish}"
        );
    }
    for (key, wish, field) in [
        (OWNER.0, json!({ "plan": "101/h" }), "plan"),
        (OWNER.0, json!({ "plan": "0" }), "plan"),
        ("terse_large", json!({ "plan": "1001/h" }), "plan"),
        ("terse_small", json!({ "plan": "100/h" }), "plan"),
        ("terse_small", json!({ "expires_at": "2091-01-01" }), "expires_at"),
    ] {
        make(key, wish.clone()).await.is_problem(403, "forbidden", field);
    }
    let root = web.person("root", Role::Admin).await;
    let made = web
        .as_owner("POST /api/v1/keys", "root", json!({ "name": "a", "scope": "full", "plan": "0" }))
        .await;
    assert_eq!((made.status.as_u16(), &made.json()["plan"]), (201, &json!("0")), "{root:?}");
}

#[tokio::test]
async fn the_operators_key_has_no_account_and_is_told_so() {
    let web = Web::new();
    let key = json!({ "name": "a", "scope": "full" });
    for (line, body) in [
        ("GET /api/v1/account", Value::Null),
        ("PATCH /api/v1/account", json!({})),
        ("DELETE /api/v1/account", json!({ "confirm": "admin" })),
        ("GET /api/v1/account/export", Value::Null),
        ("GET /api/v1/account/sessions", Value::Null),
        ("DELETE /api/v1/account/sessions", Value::Null),
        ("GET /api/v1/keys", Value::Null),
        ("POST /api/v1/keys", key),
        ("DELETE /api/v1/keys/1", Value::Null),
    ] {
        let answer = web.api(line, body).await;
        answer.is_problem(409, "no_account", "Authorization");
        assert!(answer.text().contains("create an account"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_new_password_needs_the_old_one_and_ends_all_other_sessions() {
    let web = Web::new();
    let (ann, key) = enrolled(&web, "ann").await;
    let (here, there) = (web.sign_in(ann, "here").await, web.sign_in(ann, "there").await);
    let patch = "PATCH /api/v1/account";
    web.signed_in(patch, &here, json!({ "password": "battery staple" })).await.is_problem(
        400,
        "invalid_request",
        "current_password",
    );
    let wrong = json!({ "password": "battery staple", "current_password": "wrong horse" });
    web.signed_in(patch, &here, wrong.clone()).await.is_problem(
        403,
        "wrong_password",
        "current_password",
    );
    web.as_owner(patch, &key, wrong).await.is_problem(403, "wrong_password", "current_password");
    for short in ["", "1234567"] {
        let body = json!({ "password": short, "current_password": PASSWORD });
        web.signed_in(patch, &here, body).await.is_problem(400, "invalid_request", "password");
    }
    assert_eq!(
        web.registry.sessions(ann, Timestamp::from_ms(1)).await.unwrap().len(),
        2,
        "nothing has ended yet"
    );
    let right =
        json!({ "password": "battery staple", "current_password": PASSWORD, "name": "Ann.2" });
    let changed = web.signed_in(patch, &here, right).await;
    assert_eq!(
        (changed.status.as_u16(), &changed.json()["name"]),
        (200, &json!("Ann.2")),
        "{}",
        changed.text()
    );
    assert!(!changed.text().contains("argon2"));
    assert_eq!(web.signed_in("GET /api/v1/account", &here, Value::Null).await.status, 200);
    assert_eq!(web.signed_in("GET /api/v1/account", &there, Value::Null).await.status, 401);
    web.as_owner(patch, OWNER.0, json!({ "name": "ANN.2" })).await.is_problem(
        409,
        "name_taken",
        "name",
    );
    web.as_owner(patch, OWNER.0, json!({ "name": "a b" })).await.is_problem(
        400,
        "invalid_request",
        "name",
    );
    // A key alone is not enough for a first password; a session is.
    web.as_owner(patch, OWNER.0, json!({ "password": "the first one" })).await.is_problem(
        403,
        "forbidden",
        "password",
    );
    let cookie = web.sign_in(OWNER.1, "owner").await;
    assert_eq!(
        web.signed_in(
            patch,
            &cookie,
            json!({ "password": "the first \
            one" })
        )
        .await
        .json()["has_password"],
        true
    );
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let web = Web::new();
    let (here, there) = (web.sign_in(OWNER.1, "here").await, web.sign_in(OWNER.1, "there").await);
    let other = web.sign_in(OTHER.1, "other").await;
    let list = web.signed_in("GET /api/v1/account/sessions", &here, Value::Null).await.json();
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{list}");
    let current: Vec<_> = sessions.iter().filter(|session| session["current"] == true).collect();
    assert_eq!(current.len(), 1);
    let id = sessions.iter().find(|session| session["current"] == false).unwrap()["id"]
        .as_str()
        .unwrap();
    let end = format!("DELETE /api/v1/account/sessions/{id}");
    web.signed_in(&end, &other, Value::Null).await.is_problem(404, "not_found", "");
    assert_eq!(web.signed_in(&end, &here, Value::Null).await.status, 204);
    assert_eq!(web.signed_in("GET /api/v1/account", &there, Value::Null).await.status, 401);
    web.sign_in(OWNER.1, "again").await;
    assert_eq!(
        web.signed_in("DELETE /api/v1/account/sessions", &here, Value::Null).await.status,
        204
    );
    assert_eq!(web.registry.sessions(OWNER.1, Timestamp::from_ms(1)).await.unwrap().len(), 1);
    assert_eq!(
        web.as_owner("DELETE /api/v1/account/sessions", OWNER.0, Value::Null).await.status,
        204
    );
    assert_eq!(web.signed_in("GET /api/v1/account", &here, Value::Null).await.status, 401);
    assert_eq!(web.signed_in("GET /api/v1/account", &other, Value::Null).await.status, 200);
}

async fn with_links_and_clicks(web: &Web, owner: OwnerId, key: &str, names: &[&str]) {
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
async fn an_erased_account_takes_everything_with_it_and_nothing_of_anybody_else() {
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

#[tokio::test]
async fn admins_look_after_accounts() {
    let web = Web::new();
    let users = "POST /api/v1/admin/users";
    for (body, field) in [
        (json!({}), "name"),
        (json!({ "name": "a b c" }), "name"),
        (json!({ "name": "ann", "role": "king" }), "role"),
        (json!({ "name": "ann", "password": "short" }), "password"),
        (json!({ "name": "ann", "password": "x".repeat(1025) }), "password"),
        (json!({ "name": "ann", "id": 7 }), "id"),
    ] {
        web.api(users, body).await.is_problem(400, "invalid_request", field);
    }
    let made = web.api(users, json!({ "name": "Ann", "role": "moderator" })).await;
    assert_eq!((made.status.as_u16(), &made.json()["role"]), (201, &json!("moderator")));
    let place = made.header("location").to_owned();
    assert_eq!(web.api(&format!("GET {place}"), Value::Null).await.json(), made.json());
    web.api(users, json!({ "name": "ann" })).await.is_problem(409, "name_taken", "name");
    let patch = format!("PATCH {place}");
    web.api(&patch, json!({ "suspended": true })).await.is_problem(400, "invalid_request", "why");
    web.api(&patch, json!({ "why": "x".repeat(1001) })).await.is_problem(
        400,
        "invalid_request",
        "why",
    );
    let changed = web
        .api(
            &patch,
            json!({ "role": "user", "suspended": true, "why": "spam", "password": PASSWORD }),
        )
        .await
        .json();
    assert_eq!(
        (&changed["role"], &changed["suspended"]["why"], &changed["has_password"]),
        (&json!("user"), &json!("spam"), &json!(true))
    );
    assert_eq!(
        web.api(&patch, json!({ "suspended": false })).await.json()["suspended"],
        Value::Null
    );
    web.api("GET /api/v1/admin/users/7", Value::Null).await.is_problem(404, "not_found", "");
    // Page by page.
    let mut found = Vec::new();
    let mut line = "GET /api/v1/admin/users?limit=2".to_owned();
    loop {
        let page = web.api(&line, Value::Null).await.json();
        found.extend(
            page["users"].as_array().unwrap().iter().map(|user| user["id"].as_u64().unwrap()),
        );
        let Some(next) = page["next_cursor"].as_str() else { break };
        line = format!("GET /api/v1/admin/users?limit=2&cursor={next}");
    }
    assert_eq!(found, [1000, 1001, 1002, 1003]);
    web.api("GET /api/v1/admin/users?cursor=AAAA", Value::Null).await.is_problem(
        400,
        "invalid_request",
        "cursor",
    );
    assert_eq!(web.api(&format!("DELETE {place}"), Value::Null).await.status, 204);
    web.api(&format!("DELETE {place}"), Value::Null).await.is_problem(404, "not_found", "");
    // Keys of other accounts.
    let keys = format!("/api/v1/admin/users/{}/keys", OWNER.1.0);
    let key = web
        .api(&format!("POST {keys}"), json!({ "name": "a", "scope": "read", "plan": "0" }))
        .await
        .json();
    assert_eq!(
        web.api(&format!("GET {keys}"), Value::Null).await.json()["keys"].as_array().unwrap().len(),
        2
    );
    let gone = format!("DELETE /api/v1/admin/users/{}/keys/{}", OTHER.1.0, key["id"]);
    web.api(&gone, Value::Null).await.is_problem(404, "not_found", "");
    assert_eq!(web.api(&format!("DELETE {keys}/{}", key["id"]), Value::Null).await.status, 204);
}

#[tokio::test]
async fn moderators_suspend_users_and_nobody_themselves() {
    let web = Web::new();
    let (root, boss) =
        (web.person("root", Role::Admin).await, web.person("boss", Role::Admin).await);
    let (mod1, mod2) =
        (web.person("mod1", Role::Moderator).await, web.person("mod2", Role::Moderator).await);
    with_links_and_clicks(&web, OWNER.1, OWNER.0, &["mine"]).await;
    web.sign_in(OWNER.1, "here").await;
    let why = json!({ "why": "sends spam" });
    for (judge, judged, status) in [
        ("mod1", OWNER.1, 200),
        ("mod1", mod2, 403),
        ("mod1", root, 403),
        ("mod1", mod1, 403),
        ("root", root, 403),
        ("root", mod2, 200),
        ("root", boss, 200),
        (KEY, mod1, 200),
        (OTHER.0, OWNER.1, 403),
        (KEY, OwnerId(7), 404),
    ] {
        let answer = web
            .as_owner(&format!("POST /api/v1/admin/users/{}/suspend", judged.0), judge, why.clone())
            .await;
        assert_eq!(answer.status, status, "{judge} suspends {judged:?}: {}", answer.text());
        if status == 200 {
            assert_eq!(answer.json()["suspended"]["why"], "sends spam");
        }
    }
    web.as_owner("GET /api/v1/urls", OWNER.0, Value::Null).await.is_problem(403, "suspended", "");
    assert!(web.registry.sessions(OWNER.1, Timestamp::from_ms(1)).await.unwrap().is_empty());
    web.as_owner(
        &format!("PATCH /api/v1/admin/users/{}", root.0),
        "root",
        json!({ "suspended": true, "why": "a" }),
    )
    .await
    .is_problem(403, "forbidden", "suspended");
    web.as_owner(&format!("DELETE /api/v1/admin/users/{}", root.0), "root", Value::Null)
        .await
        .is_problem(403, "forbidden", "");
    let line = format!("POST /api/v1/admin/users/{}/suspend", root.0);
    web.api(&line, why).await.is_problem(409, "last_admin", "");
    let back = web
        .api(
            &format!("POST /api/v1/admin/users/{}/reinstate", OWNER.1.0),
            json!({ "why": "sorry" }),
        )
        .await;
    assert_eq!((back.status.as_u16(), &back.json()["suspended"]), (200, &Value::Null));
    assert_eq!(web.as_owner("GET /api/v1/urls", OWNER.0, Value::Null).await.status, 200);
}

#[tokio::test]
async fn an_invitation_is_a_link_that_is_good_once() {
    let web = Web::new();
    let (mod1, path) = (web.person("mod1", Role::Moderator).await, "/api/v1/invitations");
    let post = format!("POST {path}");
    for (body, field) in [
        (json!({ "role": "king" }), "role"),
        (json!({ "ttl": 0 }), "ttl"),
        (json!({ "ttl": 2_592_001 }), "ttl"),
        (json!({ "name": "ann" }), "name"),
    ] {
        web.api(&post, body).await.is_problem(400, "invalid_request", field);
    }
    web.as_owner(&post, "mod1", json!({ "role": "moderator" })).await.is_problem(
        403,
        "forbidden",
        "role",
    );
    web.as_owner(&post, OWNER.0, json!({})).await.is_problem(403, "forbidden", "Authorization");
    let by_operator = web.api(&post, json!({ "role": "admin", "ttl": 60 })).await;
    assert_eq!(by_operator.status, 201, "{}", by_operator.text());
    let url = by_operator.json()["url"].as_str().unwrap().to_owned();
    let secret = url.strip_prefix("https://go.example/join?token=").unwrap();
    let by_mod = web.as_owner(&post, "mod1", json!({})).await.json();
    assert_eq!((&by_mod["role"], &by_mod["by"]), (&json!("user"), &json!(mod1.0)));
    let seen = |key: &'static str| web.as_owner("GET /api/v1/invitations", key, Value::Null);
    assert_eq!(
        seen("mod1").await.json()["invitations"],
        json!([{ "id": by_mod["id"], "role": "user", "by": mod1.0,
        "expires_at": by_mod["expires_at"] }])
    );
    assert_eq!(seen(KEY).await.json()["invitations"].as_array().unwrap().len(), 2);
    assert!(!seen(KEY).await.text().contains(secret));
    let revoke =
        |invitation: &Value| format!("DELETE {path}/{}", invitation["id"].as_str().unwrap());
    web.as_owner(&revoke(&by_operator.json()), "mod1", Value::Null).await.is_problem(
        404,
        "not_found",
        "",
    );
    assert_eq!(web.as_owner(&revoke(&by_mod), "mod1", Value::Null).await.status, 204);
    web.as_owner(&revoke(&by_mod), "mod1", Value::Null).await.is_problem(404, "not_found", "");
    // The registry stores the hash of the secret in the link.
    let user = terse_core::registry::NewAccount {
        name: AccountName::parse("new.one").unwrap(),
        role: Role::User,
        password: None,
        identity: None,
        created_at: web.clock.now(),
    };
    let token = terse_core::registry::Token(terse_server::AdminKeys::hash(secret));
    assert_eq!(web.registry.accept(&token, user).await.unwrap().role, Role::Admin);
    assert!(seen(KEY).await.json()["invitations"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn what_a_key_shows_is_told() {
    let web = Web::new();
    web.give_key(OWNER.1, "terse_reader", |key| key.scope = Scope::Read).await;
    let me = web.as_owner("GET /api/v1/account", "terse_reader", Value::Null).await.json();
    assert_eq!(
        (&me["id"], &me["name"], &me["role"]),
        (&json!(OWNER.1.0), &json!("terse-owner"), &json!("user"))
    );
    assert_eq!(
        (&me["keys"], &me["scope"], &me["suspended"]),
        (&json!(2), &json!("read"), &Value::Null)
    );
    web.as_owner("POST /api/v1/keys", "terse_reader", json!({ "name": "a", "scope": "read" }))
        .await
        .is_problem(403, "forbidden", "Authorization");
}

#[tokio::test]
async fn a_list_has_the_callers_own_links_and_staff_ask_for_those_of_others() {
    let web = Web::new();
    let create = async |key: &str, path: &str| {
        let body = json!({"long_url": format!("https://example.com/{path}"), "notes": "private"});
        assert_eq!(web.as_owner("POST /api/v1/urls", key, body).await.status, 201);
    };
    create(KEY, "operator").await;
    create(OWNER.0, "owner").await;
    create(OTHER.0, "other").await;
    let list = async |key: &str, query: &str| {
        let answer = web.as_owner(&format!("GET /api/v1/urls{query}"), key, Value::Null).await;
        let links = answer.json()["links"].as_array().cloned().unwrap_or_default();
        let mut found: Vec<_> = links
            .iter()
            .map(|link| (link["owner"].as_u64().unwrap(), link["notes"].is_string()))
            .collect();
        found.sort_unstable();
        (answer.status.as_u16(), found)
    };
    let (owner, other) = (OWNER.1.0, OTHER.1.0);
    let everybody = vec![(1, true), (owner, true), (other, true)];
    assert_eq!(list(KEY, "").await, (200, vec![(1, true)]));
    assert_eq!(list(KEY, &format!("?owner={owner}")).await, (200, vec![(owner, true)]));
    assert_eq!(list(KEY, "?owner=all").await, (200, everybody));
    assert_eq!(list(OWNER.0, "").await, (200, vec![(owner, true)]));
    assert_eq!(list(OWNER.0, "?owner=all").await, (200, vec![(owner, true)]));
    assert_eq!(list(OWNER.0, &format!("?owner={owner}")).await, (200, vec![(owner, true)]));
    assert_eq!(list(OWNER.0, &format!("?owner={other}")).await, (403, vec![]));
    // A moderator sees links of others without their notes.
    assert_eq!(list(MODERATOR.0, "").await, (200, vec![]));
    assert_eq!(list(MODERATOR.0, &format!("?owner={other}")).await, (200, vec![(other, false)]));
    assert_eq!(list(MODERATOR.0, "?owner=x").await, (400, vec![]));
}
