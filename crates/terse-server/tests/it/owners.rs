//! Accounts, their keys and their erasure.

use serde_json::{Value, json};
use terse_core::registry::prelude::*;
use terse_core::registry::{AccountName, AuditAction, AuditQuery, Role};
use terse_core::{Code, Domain, LinkKey, OwnerId, Timestamp};

use crate::account_erasure::with_links_and_clicks;
use crate::web::{Answer, KEY, MODERATOR, OTHER, OWNER, Web};

pub(crate) const PASSWORD: &str = "correct horse";

pub(crate) fn key_of(code: &str) -> LinkKey {
    LinkKey { domain: Domain::primary(), code: Code::parse(code).unwrap() }
}

pub(crate) async fn acts(web: &Web) -> Vec<AuditAction> {
    let lines =
        web.registry.audit(&AuditQuery { limit: 1000, ..AuditQuery::default() }).await.unwrap();
    lines.iter().rev().map(|line| line.act).collect()
}

/// An account with a password, created by the operator.
pub(crate) async fn enrolled(web: &Web, name: &str) -> (OwnerId, String) {
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

pub(crate) async fn shorten(web: &Web, key: &str, alias: &str) -> Answer {
    web.as_owner(
        "POST /api/v1/urls",
        key,
        json!({ "long_url": format!("https://example.com/{alias}"), "alias": alias }),
    )
    .await
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

#[tokio::test]
async fn admins_create_change_and_list_accounts() {
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
        (json!({ "email": "not an address" }), "email"),
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
    let by_mod = web.as_owner(&post, "mod1", json!({ "email": "ann@example.com" })).await.json();
    assert_eq!((&by_mod["role"], &by_mod["by"]), (&json!("user"), &json!(mod1.0)));
    let mailed = |answer: &Value| answer["mailed"].clone();
    assert_eq!((mailed(&by_operator.json()), mailed(&by_mod)), (json!(false), json!(true)));
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
    let token = terse_core::registry::SecretHash(terse_server::AdminKeys::hash(secret));
    assert_eq!(web.registry.accept(&token, user).await.unwrap().role, Role::Admin);
    assert!(seen(KEY).await.json()["invitations"].as_array().unwrap().is_empty());
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
