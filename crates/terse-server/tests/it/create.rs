use serde_json::{Value, json};
use terse_server::CreateResult;

use crate::web::{KEY, Web};

const URLS: &str = "POST /api/v1/urls";

#[tokio::test]
async fn a_link_is_made_and_told_in_full() {
    let web = Web::new();
    let answer = web
        .api(
            URLS,
            json!({"long_url": "https://example.com/x", "custom_alias": "hello",
            "title": " Hi ", "tags": ["a"], "redirect": 301,
            "expires_at": "2199-01-01", "max_clicks": 3, "forward_query": true, "crawlable": true,
            "valid_from": "2020-01-01T00:00:00Z", "notes": "n\no",
            "rules": [{"device": ["Mobile"], "to": "https://m.example.com"}]}),
        )
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.header("etag"), "\"1\"");
    assert_eq!(answer.header("location"), "/api/v1/urls/hello");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    let mut body = answer.json();
    let made = body["created_at"].take();
    assert_eq!(made, body["updated_at"].take());
    assert_eq!(
        body,
        json!({"short_code": "hello", "short_url": "https://go.example/hello",
            "long_url": "https://example.com/x",
            "domain": "go.example", "title": "Hi", "tags": ["a"], "created_at": null,
            "updated_at": null,
            "expires_at": "2199-01-01T00:00:00Z", "valid_from": "2020-01-01T00:00:00Z",
            "max_clicks": 3, "click_count": 0, "redirect": 301,
            "rules": [{"device": "mobile", "to": "https://m.example.com/"}],
            "forward_query": true, "crawlable": true, "has_password": false, "notes": "n\no",
            "archived": false, "status": "active", "flags": [], "deleted_at": null,
            "qr_url": "https://go.example/hello/qr", "preview_url": "https://go.example/hello+",
            "revision": 1})
    );
}

#[tokio::test]
async fn both_spellings_and_both_doors_are_the_same() {
    let web = Web::new();
    for (line, body) in [
        (
            URLS,
            json!({"longUrl": "https://example.com/1", "customAlias": "one1",
                "expiresAt": "2199-01-01", "maxClicks": 1,
            "forwardQuery": true, "validFrom": null}),
        ),
        (
            "POST /api/v1/shorten",
            json!({
                "long_url": "https://example.com/2", "alias": "two2", "domain": "B.example",
                "ttl": null
            }),
        ),
    ] {
        let answer = web.api(line, body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let answer = web.api("GET /api/v1/urls/two2?domain=b.example", Value::Null).await;
    assert_eq!(answer.json()["short_url"], "https://b.example/two2");
    web.api("GET /api/v1/urls/two2", Value::Null).await.is_problem(404, "not_found", "");
}

#[tokio::test]
async fn what_is_wrong_with_a_link_is_said() {
    let web = Web::new();
    assert_eq!(
        web.api(URLS, json!({"long_url": "https://example.com/", "custom_alias": "taken"}))
            .await
            .status,
        201
    );
    let long = format!("https://example.com/{}", "a".repeat(9000));
    for (change, status, code, field) in [
        (json!({"long_url": null}), 400, "invalid_request", "long_url"),
        (json!({"long_url": 7}), 400, "invalid_request", "long_url"),
        (json!({"longurl": "x"}), 400, "invalid_request", "longurl"),
        (json!({"password": ""}), 400, "invalid_request", "password"),
        (json!({"rules": {}}), 400, "invalid_request", "rules"),
        (
            json!({"rules": [{"to": "https://example.com/", "divice": "tv"}]}),
            400,
            "invalid_request",
            "rules[0].divice",
        ),
        (json!({"rules": [{"to": "https://go.example/x"}]}), 422, "self_reference", "rules[0].to"),
        (
            json!({"rules": [{"to": [{"url": "https://a.evil.example/"}]}]}),
            422,
            "blocked_destination",
            "rules[0].to[0].url",
        ),
        (json!({"ttl": "1h"}), 400, "invalid_request", "ttl"),
        (json!({"ttl": -1}), 400, "invalid_request", "ttl"),
        (json!({"tags": ["a", 1]}), 400, "invalid_request", "tags[1]"),
        (json!({"tags": ["a,b"]}), 400, "invalid_request", "tags"),
        (json!({"crawlable": "yes"}), 400, "invalid_request", "crawlable"),
        (json!({"redirect": 303}), 400, "invalid_request", "redirect"),
        (json!({"max_clicks": 0}), 400, "invalid_request", "max_clicks"),
        (json!({"title": "x".repeat(1001)}), 400, "invalid_request", "title"),
        (json!({"domain": "other.example"}), 400, "invalid_request", "domain"),
        (json!({"ttl": 5, "expires_at": "2199-01-01"}), 400, "invalid_request", "ttl"),
        (json!({"longUrl": "https://example.com/"}), 400, "invalid_request", "long_url"),
        (json!({"custom_alias": "abc", "alias": "abc"}), 400, "invalid_request", "custom_alias"),
        (json!({"long_url": "example.com"}), 400, "invalid_url", "long_url"),
        (json!({"long_url": long}), 400, "invalid_url", "long_url"),
        (json!({"long_url": "https://exa\nmple.com/"}), 400, "invalid_url", "long_url"),
        (json!({"long_url": "javascript:alert(1)"}), 400, "scheme_not_allowed", "long_url"),
        (json!({"long_url": "https://GO.example/x"}), 422, "self_reference", "long_url"),
        (json!({"long_url": "http://127.0.0.1/"}), 422, "destination_not_public", "long_url"),
        (json!({"long_url": "https://a.evil.example/"}), 422, "blocked_destination", "long_url"),
        (json!({"custom_alias": "a b"}), 400, "invalid_alias", "custom_alias"),
        (json!({"custom_alias": "api"}), 400, "reserved_alias", "custom_alias"),
        (json!({"custom_alias": "bulk"}), 400, "reserved_alias", "custom_alias"),
        (json!({"custom_alias": "taken"}), 409, "alias_taken", "custom_alias"),
        (json!({"expires_at": "2001-01-01"}), 400, "invalid_expiry", "expires_at"),
        (json!({"expires_at": "soon"}), 400, "invalid_expiry", "expires_at"),
        (json!({"ttl": 0}), 400, "invalid_expiry", "ttl"),
        (json!({"ttl": 250_000_000_001_u64}), 400, "invalid_expiry", "ttl"),
    ] {
        let mut body = json!({"long_url": "https://example.com/other"});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        web.api(URLS, body).await.is_problem(status, code, field);
    }
    assert!(web.stats.creates(CreateResult::Refused) > 20);
    web.store.away.store(true, std::sync::atomic::Ordering::Relaxed);
    let answer = web.api(URLS, json!({"long_url": "https://example.com/"})).await;
    answer.is_problem(503, "store_unavailable", "");
    assert_eq!(answer.header("retry-after"), "1");
    assert!(!answer.text().contains("plug"));
    assert_eq!(web.stats.creates(CreateResult::Failed), 1);
}

#[tokio::test]
async fn a_body_is_json_of_a_fair_size() {
    let web = Web::new();
    let json = ("content-type", "application/json");
    for body in ["", "nonsense", "{", "{} x", "{\"long_url\": \"https://example.com/\",}"] {
        web.call(URLS, &[json], body).await.is_problem(
            400,
            "invalid_request",
            if body == "{} x" { "long_url" } else { "" },
        );
    }
    for body in ["[]", "null", "7", "[\"https://example.com/\"]"] {
        web.call(URLS, &[json], body).await.is_problem(400, "invalid_request", "");
    }
    let twice = r#"{"long_url": "https://example.com/", "title": "a", "title": "b"}"#;
    web.call(URLS, &[json], twice).await.is_problem(400, "invalid_request", "title");
    let good = r#"{"long_url": "https://example.com/"}"#;
    web.call(URLS, &[], good).await.is_problem(415, "unsupported_media_type", "Content-Type");
    web.call(URLS, &[("content-type", "text/plain")], good).await.is_problem(
        415,
        "unsupported_media_type",
        "Content-Type",
    );
    let gzip = ("content-encoding", "gzip");
    web.call(URLS, &[json, gzip], good).await.is_problem(
        415,
        "unsupported_media_type",
        "Content-Encoding",
    );
    assert_eq!(
        web.call(URLS, &[("content-type", "Application/JSON; charset=utf-8")], good).await.status,
        201
    );
    let large = format!("{{\"long_url\": \"{}\"}}", "a".repeat(64 * 1024));
    web.call(URLS, &[json], large).await.is_problem(413, "too_large", "");
    web.call("POST /api/v1/urls?api_key=x", &[json], good).await.is_problem(
        400,
        "invalid_request",
        "api_key",
    );
}

#[tokio::test]
async fn keys_are_shown_in_the_header_and_must_be_right() {
    let web = Web::new();
    let json = ("content-type", "application/json");
    let body = r#"{"long_url": "https://example.com/"}"#;
    let bearer = format!("bearer {KEY}");
    for good in [KEY, &bearer] {
        assert!(
            web.call(URLS, &[json, ("authorization", good)], body).await.status.is_success(),
            "{good}"
        );
    }
    let long = "x".repeat(600);
    for bad in ["nope", "Bearer nope", "Basic dGVyc2U6eA==", "Bearer", "", &long] {
        let answer = web.call(URLS, &[json, ("authorization", bad)], body).await;
        answer.is_problem(401, "unauthorized", "Authorization");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    let twice = [json, ("authorization", KEY), ("authorization", KEY)];
    web.call(URLS, &twice, body).await.is_problem(401, "unauthorized", "Authorization");
    for line in [
        "GET /api/v1/urls",
        "GET /api/v1/urls/abc",
        "DELETE /api/v1/urls/abc",
        "POST /api/v1/urls/abc/restore",
    ] {
        web.call(line, &[], "").await.is_problem(401, "unauthorized", "Authorization");
    }
    web.anonymous("PATCH /api/v1/urls/abc", json!({})).await.is_problem(
        401,
        "unauthorized",
        "Authorization",
    );
    web.anonymous("PUT /api/v1/admin/links/abc/standing", json!({})).await.is_problem(
        401,
        "unauthorized",
        "Authorization",
    );
    web.anonymous("POST /api/v1/admin/import", json!([])).await.is_problem(
        401,
        "unauthorized",
        "Authorization",
    );
}

#[tokio::test]
async fn the_same_target_gives_the_same_link_unless_asked_otherwise() {
    let web = Web::new();
    let body = json!({"long_url": "https://example.com/same"});
    let first = web.api(URLS, body.clone()).await;
    let second = web.api(URLS, body).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 200));
    assert_eq!(first.json()["short_code"], second.json()["short_code"]);
    assert_eq!(second.header("idempotency-replayed"), "");
    let third =
        web.api(URLS, json!({"long_url": "https://example.com/same", "reuse": false})).await;
    assert_eq!(third.status, 201);
    assert_ne!(first.json()["short_code"], third.json()["short_code"]);
    assert_eq!(
        (web.stats.creates(CreateResult::Created), web.stats.creates(CreateResult::Reused)),
        (2, 1)
    );
}

#[tokio::test]
async fn an_idempotency_key_makes_a_retry_safe() {
    let web = Web::new();
    let send = async |key: &str, body: &str, auth: bool| {
        let mut headers = vec![("content-type", "application/json"), ("idempotency-key", key)];
        headers.extend(auth.then_some(("authorization", KEY)));
        web.call(URLS, &headers, body.to_owned()).await
    };
    let body = r#"{"long_url": "https://example.com/", "reuse": false, "title": null}"#;
    let first = send("try-1", body, true).await;
    assert_eq!(first.status, 201);
    // The same request in another spelling.
    let again = send("try-1", r#"{"reuse": false, "longUrl": "https://example.com/"}"#, true).await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (200, "true"));
    assert_eq!(first.json()["short_code"], again.json()["short_code"]);
    let other = r#"{"long_url": "https://example.com/other"}"#;
    send("try-1", other, true).await.is_problem(422, "idempotency_mismatch", "Idempotency-Key");
    assert_eq!(send("try-2", body, true).await.status, 201);
    assert_eq!(send("try-1", body, false).await.status, 201, "another owner's key is another key");
    for bad in ["", "a b", "é", &"x".repeat(256)] {
        send(bad, body, true).await.is_problem(400, "invalid_request", "Idempotency-Key");
    }
}

#[tokio::test]
async fn strangers_get_links_that_do_not_live_long_or_none() {
    let web = Web::new();
    let body = json!({"long_url": "https://example.com/"});
    let first = web.anonymous(URLS, body.clone()).await;
    assert_eq!(first.status, 201);
    let made =
        first.json()["created_at"].as_str().map(terse_core::Timestamp::parse).unwrap().unwrap();
    let ends =
        first.json()["expires_at"].as_str().map(terse_core::Timestamp::parse).unwrap().unwrap();
    assert_eq!(ends.as_ms() - made.as_ms(), 8 * 3600 * 1000);
    let second = web.anonymous(URLS, body.clone()).await;
    assert_ne!(first.json()["short_code"], second.json()["short_code"]);

    let closed = Web::with(|rules| rules.anonymous_create = false);
    closed.anonymous(URLS, body.clone()).await.is_problem(401, "unauthorized", "Authorization");
    closed.anonymous("POST /api/v1/urls/bulk", json!([body])).await.is_problem(
        401,
        "unauthorized",
        "Authorization",
    );
    assert_eq!(closed.api(URLS, body).await.status, 201);
}

#[tokio::test]
async fn a_listed_target_is_refused_and_only_the_operator_learns_by_which_list() {
    let web = Web::new();
    let body = json!({"long_url": "https://listed.example/x"});
    let stranger = web.anonymous("POST /api/v1/urls", body.clone()).await;
    stranger.is_problem(422, "blocked_destination", "long_url");
    assert!(!stranger.text().contains("our list"));
    let operator = web.api("POST /api/v1/urls", body.clone()).await;
    operator.is_problem(422, "blocked_destination", "long_url");
    assert!(operator.text().contains("our list"));
    assert_eq!(
        web.api("POST /api/v1/urls", json!({"long_url": "https://example.com/", "alias": "abc"}))
            .await
            .status,
        201
    );
    web.api("PATCH /api/v1/urls/abc", body).await.is_problem(
        422,
        "blocked_destination",
        "long_url",
    );
}
