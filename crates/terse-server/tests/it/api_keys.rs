//! API keys: created, used, limited and revoked.

use serde_json::{Value, json};
use terse_core::Timestamp;
use terse_core::limits::{Limit, LimitSettings};
use terse_core::registry::{AuditAction, Role, Scope};

use crate::owners::{acts, shorten};
use crate::web::{OTHER, OWNER, Web};

#[tokio::test]
async fn a_key_is_shown_once_and_opens_what_it_is_for_until_it_is_revoked() {
    let web = Web::new();
    for (scope, get, post) in [("create", 403, 201), ("read", 200, 403), ("full", 200, 201)] {
        let draft = json!({
            "name": " news letter ", "scope": scope, "expires_at": "2099-01-31", "plan": "5/min"
        });
        let made = web.as_owner("POST /api/v1/keys", OWNER.0, draft).await;
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
    for (draft, field) in [
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
        web.as_owner("POST /api/v1/keys", OWNER.0, draft).await.is_problem(400, code, field);
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
        Web::limited(LimitSettings { create_per_key: Limit::per_hour(100), ..LimitSettings::OFF });
    let ends = Timestamp::parse("2090-01-01").unwrap();
    web.give_key(OWNER.1, "terse_small", |key| {
        (key.plan, key.expires_at) = (Some("10/h".into()), Some(ends));
    })
    .await;
    web.give_key(OWNER.1, "terse_large", |key| key.plan = Some("1000/h".into())).await;
    let make = |key: &'static str, mut draft: Value| {
        (draft["name"], draft["scope"]) = ("a".into(), "full".into());
        web.as_owner("POST /api/v1/keys", key, draft)
    };
    for (key, draft, plan, ends) in [
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
        let made = make(key, draft.clone()).await;
        assert_eq!(made.status, 201, "{draft} {}", made.text());
        assert_eq!(
            (&made.json()["plan"], &made.json()["expires_at"]),
            (&plan, &ends),
            "{key} {draft}"
        );
    }
    for (key, draft, field) in [
        (OWNER.0, json!({ "plan": "101/h" }), "plan"),
        (OWNER.0, json!({ "plan": "0" }), "plan"),
        ("terse_large", json!({ "plan": "1001/h" }), "plan"),
        ("terse_small", json!({ "plan": "100/h" }), "plan"),
        ("terse_small", json!({ "expires_at": "2091-01-01" }), "expires_at"),
    ] {
        make(key, draft.clone()).await.is_problem(403, "forbidden", field);
    }
    let root = web.person("root", Role::Admin).await;
    let made = web
        .as_owner("POST /api/v1/keys", "root", json!({ "name": "a", "scope": "full", "plan": "0" }))
        .await;
    assert_eq!((made.status.as_u16(), &made.json()["plan"]), (201, &json!("0")), "{root:?}");
}

#[tokio::test]
async fn the_operators_key_has_no_account_and_gets_a_problem() {
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
async fn a_key_is_shown_with_its_fields() {
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
