use serde_json::{Value, json};
use terse_core::Timestamp;
use terse_core::registry::prelude::*;
use terse_core::registry::{DeliveryClaim, DeliveryResult, EventKind, WebhookId};

use crate::web::{OTHER, OWNER, Web};

const HOOK: &str = "https://hooks.example/terse";

async fn make(web: &Web, body: Value) -> Value {
    let answer = web.as_owner("POST /api/v1/webhooks", OWNER.0, body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_server_without_webhooks_says_how_to_switch_them_on() {
    let web = Web::new();
    for line in [
        "GET /api/v1/webhooks",
        "POST /api/v1/webhooks",
        "GET /api/v1/webhooks/1",
        "PATCH /api/v1/webhooks/1",
        "DELETE /api/v1/webhooks/1",
        "POST /api/v1/webhooks/1/test",
        "GET /api/v1/webhooks/1/deliveries",
    ] {
        let answer = web.as_owner(line, OWNER.0, json!({ "url": HOOK })).await;
        answer.is_problem(403, "webhooks_off", "");
        assert!(answer.text().contains("outgoing.webhooks"), "{line}");
        assert_eq!(
            web.call(line, &[("content-type", "application/json")], "{}").await.status,
            401,
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_secret_is_shown_when_it_is_made_and_never_again() {
    let web = Web::with_webhooks();
    let made = make(&web, json!({ "url": HOOK })).await;
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_") && secret.len() == 70, "{secret}");
    assert_eq!(made["events"].as_array().unwrap().len(), EventKind::ALL.len());
    let path = format!("/api/v1/webhooks/{}", made["id"].as_str().unwrap());
    let seen = web.as_owner(&format!("GET {path}"), OWNER.0, json!({})).await.json();
    assert_eq!(seen["secret"], Value::Null);
    assert_eq!(
        (&seen["url"], &seen["enabled"], &seen["waiting"]),
        (&json!(HOOK), &json!(true), &json!(0))
    );
    let list = web.as_owner("GET /api/v1/webhooks", OWNER.0, json!({})).await.json();
    assert_eq!(list["webhooks"], json!([seen]));
    let patched = web
        .as_owner(&format!("PATCH {path}"), OWNER.0, json!({ "events": ["link.blocked"] }))
        .await
        .json();
    assert_eq!((&patched["secret"], &patched["events"]), (&Value::Null, &json!(["link.blocked"])));
    let rotated = web
        .as_owner(&format!("PATCH {path}"), OWNER.0, json!({ "rotate_secret": true }))
        .await
        .json();
    assert!(
        rotated["secret"].as_str().is_some_and(|new| new.starts_with("whsec_") && new != secret)
    );
    let off =
        web.as_owner(&format!("PATCH {path}"), OWNER.0, json!({ "enabled": false })).await.json();
    assert!(
        off["enabled"] == false
            && off["disabled_at"].is_string()
            && off["disabled_reason"].is_string()
    );
    web.as_owner(&format!("POST {path}/test"), OWNER.0, json!({})).await.is_problem(
        400,
        "invalid_request",
        "enabled",
    );
    let on =
        web.as_owner(&format!("PATCH {path}"), OWNER.0, json!({ "enabled": true })).await.json();
    assert!(on["enabled"] == true && on["disabled_at"].is_null());
    assert_eq!(web.as_owner(&format!("DELETE {path}"), OWNER.0, json!({})).await.status, 204);
    web.as_owner(&format!("DELETE {path}"), OWNER.0, json!({})).await.is_problem(
        404,
        "not_found",
        "",
    );
}

#[tokio::test]
async fn refused_fields_are_named() {
    let web = Web::with_webhooks();
    for (body, status, code, field) in [
        (json!({}), 400, "invalid_request", "url"),
        (json!({ "url": "http://hooks.example/" }), 400, "scheme_not_allowed", "url"),
        (json!({ "url": "nonsense" }), 400, "invalid_url", "url"),
        (json!({ "url": "https://u:p@hooks.example/" }), 400, "invalid_url", "url"),
        (json!({ "url": "https://127.0.0.1/" }), 422, "destination_not_public", "url"),
        (json!({ "url": HOOK, "events": [] }), 400, "invalid_request", "events"),
        (json!({ "url": HOOK, "events": ["link.eaten"] }), 400, "invalid_request", "events"),
        (json!({ "url": HOOK, "events": ["webhook.test"] }), 400, "invalid_request", "events"),
        (json!({ "url": HOOK, "secret": "mine" }), 400, "invalid_request", "secret"),
    ] {
        web.as_owner("POST /api/v1/webhooks", OWNER.0, body).await.is_problem(status, code, field);
    }
    for _ in 0..20 {
        make(&web, json!({ "url": HOOK })).await;
    }
    web.as_owner("POST /api/v1/webhooks", OWNER.0, json!({ "url": HOOK }))
        .await
        .is_problem(409, "too_many", "");
}

#[tokio::test]
async fn anothers_webhook_is_like_none() {
    let web = Web::with_webhooks();
    let id = make(&web, json!({ "url": HOOK })).await["id"].as_str().unwrap().to_owned();
    for line in
        ["GET /{id}", "PATCH /{id}", "DELETE /{id}", "POST /{id}/test", "GET /{id}/deliveries"]
    {
        let mut texts = Vec::new();
        for (key, id) in
            [(OTHER.0, &*id), (OTHER.0, "999"), (OWNER.0, "abc"), (OWNER.0, "01"), (OWNER.0, "+1")]
        {
            let answer = web
                .as_owner(&line.replace("/{id}", &format!("/api/v1/webhooks/{id}")), key, json!({}))
                .await;
            answer.is_problem(404, "not_found", "");
            texts.push(answer.text());
        }
        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    }
    assert_eq!(
        web.as_owner("GET /api/v1/webhooks", OTHER.0, json!({})).await.json(),
        json!({ "webhooks": [] })
    );
}

#[tokio::test]
async fn a_test_is_among_the_deliveries() {
    let web = Web::with_webhooks();
    let id = make(&web, json!({ "url": HOOK, "events": ["link.deleted"] })).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let sent = web.as_owner(&format!("POST /api/v1/webhooks/{id}/test"), OWNER.0, json!({})).await;
    assert_eq!(sent.status, 202);
    let event = sent.json()["event_id"].clone();
    let path = format!("GET /api/v1/webhooks/{id}/deliveries");
    let list = web.as_owner(&path, OWNER.0, json!({})).await.json();
    let one = &list["deliveries"][0];
    assert_eq!(
        (&one["event_id"], &one["event"], &one["state"]),
        (&event, &json!("webhook.test"), &json!("waiting"))
    );
    assert!(one["next_attempt_at"].is_string() && one["last_attempt_at"].is_null());
    let now = Timestamp::from_ms(i64::MAX / 4);
    let claim = DeliveryClaim {
        now,
        claim_duration: std::time::Duration::from_secs(1),
        after: WebhookId(0),
        limit: 1,
    };
    let due = web.registry.due(claim).await.unwrap().remove(0);
    let body: Value = serde_json::from_str(&due.delivery.body).unwrap();
    assert_eq!(
        (&body["id"], &body["type"], &body["webhook_id"]),
        (&event, &json!("webhook.test"), &json!(id))
    );
    let attempt = due.attempt(
        DeliveryResult::Answered { status: 204, retry_after: None },
        web.clock.now(),
        0.5,
    );
    assert!(web.registry.record_attempt(attempt).await.unwrap());
    let one =
        web.as_owner(&format!("{path}?limit=1"), OWNER.0, json!({})).await.json()["deliveries"][0]
            .clone();
    assert_eq!(
        (&one["state"], &one["last_status"], &one["attempts"]),
        (&json!("delivered"), &json!(204), &json!(1))
    );
    assert!(one["next_attempt_at"].is_null());
    web.as_owner(&format!("{path}?limit=0"), OWNER.0, json!({})).await.is_problem(
        400,
        "invalid_request",
        "limit",
    );
}
