use serde_json::{Value, json};
use terse_server::CreateResult;

use std::time::Duration;

use crate::web::{KEY, OTHER, Web};

const URLS: &str = "POST /api/v1/urls";
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_created_link_is_returned_with_all_fields() {
    let web = Web::new();
    let answer = web
        .api(
            URLS,
            json!({"long_url": "https://example.com/x", "custom_alias": "hello",
            "title": " Hi ", "tags": ["a"], "redirect": 301,
            "expires_at": "2199-01-01", "max_clicks": 3, "forward_query": true, "crawlable": true,
            "valid_from": "2020-01-01T00:00:00Z", "notes": "n\no",
            "rules": [{"device": ["Mobile"], "to": "https://m.example.com"}],
            "preview": {"title": " Sale "}}),
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
            "domain": "go.example", "owner": 1, "title": "Hi", "tags": ["a"], "created_at": null,
            "updated_at": null,
            "expires_at": "2199-01-01T00:00:00Z", "valid_from": "2020-01-01T00:00:00Z",
            "max_clicks": 3, "click_count": 0, "imported_clicks": 0, "redirect": 301,
            "rules": [{"device": "mobile", "to": "https://m.example.com/"}],
            "preview": {"title": "Sale", "description": null, "image_url": null},
            "forward_query": true, "crawlable": true, "has_password": false, "notes": "n\no",
            "archived": false, "status": "active", "flags": [], "deleted_at": null,
            "qr_url": "https://go.example/hello/qr", "preview_url": "https://go.example/hello+",
            "revision": 1})
    );
}

#[tokio::test]
async fn both_spellings_of_a_field_mean_the_same_in_both_routes() {
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
async fn problems_of_a_link_are_named() {
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
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (201, "true"));
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(first.json()["short_code"], again.json()["shortCode"], "in its own spelling");
    let other = r#"{"long_url": "https://example.com/other"}"#;
    send("try-1", other, true).await.is_problem(422, "idempotency_mismatch", "Idempotency-Key");
    assert_eq!(send("try-2", body, true).await.status, 201);
    assert_eq!(send("try-1", body, false).await.status, 201, "another owner's key is another key");
    for bad in ["", "a b", "é", &"x".repeat(256)] {
        send(bad, body, true).await.is_problem(400, "invalid_request", "Idempotency-Key");
    }
}

#[tokio::test]
async fn a_replay_repeats_the_first_answer_whatever_happened_to_the_link() {
    let web = Web::new();
    let headers =
        [("content-type", "application/json"), ("idempotency-key", "k"), ("authorization", KEY)];
    let body = r#"{"long_url": "https://example.com/", "alias": "first", "ttl": 3600}"#;
    let bulk = r#"[{"long_url": "https://example.com/2", "alias": "second", "ttl": 3600}]"#;
    let create = async || {
        let one = web.call(URLS, &headers, body.to_owned()).await;
        let many = web.call("POST /api/v1/urls/bulk", &headers, bulk.to_owned()).await;
        assert_eq!((one.status.as_u16(), many.status.as_u16()), (201, 207), "{}", one.text());
        (one.header("etag").to_owned(), one.json(), many.json())
    };
    let first = create().await;
    for code in ["first", "second"] {
        let path = format!("PATCH /api/v1/urls/{code}");
        for target in ["https://example.org/changed", "https://example.org/again"] {
            let changed = json!({"long_url": target, "title": "New", "expires_at": null});
            assert_eq!(web.api(&path, changed).await.status, 200);
            web.clock.advance(Duration::from_secs(5));
            assert_eq!(create().await, first, "after a change");
        }
        let path = format!("DELETE /api/v1/urls/{code}");
        assert_eq!(web.api(&path, Value::Null).await.status, 204);
        assert_eq!(create().await, first, "after a deletion");
    }
    let links = web.api("GET /api/v1/urls?status=deleted", Value::Null).await.json();
    for link in links["links"].as_array().unwrap() {
        assert_eq!(link["long_url"], "https://example.org/again", "a replay changes nothing");
    }
    assert_eq!(links["links"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_replay_repeats_the_first_answer_although_the_request_would_be_refused_now() {
    let web = Web::new();
    let headers =
        [("content-type", "application/json"), ("idempotency-key", "k"), ("authorization", KEY)];
    let soon = web.clock.now().checked_add(Duration::from_secs(60)).unwrap();
    let body = json!({"long_url": "https://example.com/", "expires_at": soon.to_string()});
    let first = web.call(URLS, &headers, body.to_string()).await;
    assert_eq!(first.status, 201, "{}", first.text());
    web.clock.advance(Duration::from_secs(120));
    let again = web.call(URLS, &headers, body.to_string()).await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (201, "true"));
    assert_eq!(again.json()["short_code"], first.json()["short_code"]);
    // Another request is refused, and so is another one under the same key.
    web.api(URLS, body).await.is_problem(400, "invalid_expiry", "expires_at");
    let other = json!({"long_url": "https://example.org/", "expires_at": soon.to_string()});
    let mismatch = web.call(URLS, &headers, other.to_string()).await;
    assert_eq!(
        (mismatch.status.as_u16(), &mismatch.json()["code"]),
        (422, &"idempotency_mismatch".into())
    );
}

#[tokio::test]
async fn a_link_can_be_archived_from_the_start() {
    let web = Web::new();
    let body = json!({"long_url": "https://example.com/", "archived": true});
    let made = web.api(URLS, body).await;
    assert_eq!((made.status.as_u16(), &made.json()["archived"]), (201, &true.into()));
    let listed = web.api("GET /api/v1/urls", Value::Null).await.json();
    assert_eq!(listed["links"], json!([]));
}

#[tokio::test]
async fn a_replay_of_a_reuse_shows_the_link_as_it_was() {
    let web = Web::new();
    let headers =
        [("content-type", "application/json"), ("idempotency-key", "k"), ("authorization", KEY)];
    let body = r#"{"long_url": "https://example.com/", "alias": "mine12"}"#;
    assert_eq!(web.api(URLS, serde_json::from_str(body).unwrap()).await.status, 201);
    let first = web.call(URLS, &headers, body.to_owned()).await;
    assert_eq!(first.status, 200);
    let changed = json!({"long_url": "https://example.org/changed"});
    assert_eq!(web.api("PATCH /api/v1/urls/mine12", changed).await.status, 200);
    let again = web.call(URLS, &headers, body.to_owned()).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, first.json()), "after a change");
    assert_eq!(web.api("DELETE /api/v1/urls/mine12", Value::Null).await.status, 204);
    let again = web.call(URLS, &headers, body.to_owned()).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, first.json()), "after a deletion");
}

#[tokio::test]
async fn anonymous_links_expire_soon_or_are_not_allowed() {
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
    // More than that is refused, not cut.
    for (name, value, allowed) in [
        ("ttl", json!(8 * 3600 + 1), false),
        ("ttl", json!(8 * 3600), true),
        ("expires_at", json!("2099-01-01"), false),
        ("expires_at", json!((web.clock.now().checked_add(HOUR)).unwrap().to_string()), true),
    ] {
        let answer = web.anonymous(URLS, json!({"long_url": body["long_url"], name: value})).await;
        match allowed {
            true => assert_eq!(answer.status, 201, "{name} {value}"),
            false => answer.is_problem(400, "invalid_expiry", name),
        }
    }

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

#[tokio::test]
async fn a_repeated_request_gives_the_same_link_whatever_its_options() {
    let web = Web::new();
    for (index, options) in [
        json!({}),
        json!({"alias": "spring"}),
        json!({"custom_alias": "summer", "expires_at": "2099-01-01T00:00Z", "title": "Summer"}),
        json!({"expires_at": "2099-01-01"}),
        json!({"ttl": 3600}),
        json!({"alias": "brief", "ttl": 3600}),
        json!({"valid_from": "2098-01-01", "max_clicks": 3, "tags": ["a", "b"]}),
        json!({"redirect": 301, "forward_query": true, "crawlable": true, "notes": "mine"}),
        json!({"rules": [{"country": "AT", "to": "https://example.com/at"}]}),
        json!({"password": "open sesame"}),
        json!({"alias": "secret", "password": "open sesame"}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = options;
        body["long_url"] = json!("https://example.com/repeated");
        let first = web.api(URLS, body.clone()).await;
        // A `ttl` counts from the first time.
        web.clock.advance(Duration::from_secs(1));
        let again = web.api(URLS, body.clone()).await;
        let statuses = (first.status.as_u16(), again.status.as_u16());
        assert_eq!(statuses, (201, 200), "{index}: {}", again.text());
        assert_eq!(first.json()["short_code"], again.json()["short_code"], "{body}");
    }
    // Other options make another link, and an alias of another owner is taken.
    let url = "https://example.com/repeated";
    for other in [
        json!({"long_url": url, "alias": "spring", "max_clicks": 1}),
        json!({"long_url": url, "alias": "secret", "password": "another"}),
        json!({"long_url": url, "alias": "spring", "reuse": false}),
    ] {
        web.api(URLS, other).await.is_problem(409, "alias_taken", "alias");
    }
    let body = json!({"long_url": url, "password": "another"});
    assert_eq!(web.api(URLS, body).await.status, 201);
    let spring = json!({"long_url": url, "alias": "spring"});
    let other = web.as_owner(URLS, OTHER.0, spring).await;
    other.is_problem(409, "alias_taken", "alias");
}

#[tokio::test]
async fn a_replay_repeats_the_status_of_the_first_answer() {
    let web = Web::new();
    let send = async |key: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", key),
            ("authorization", KEY),
        ];
        let answer = web.call(URLS, &headers, r#"{"long_url": "https://example.com/once"}"#).await;
        (answer.status.as_u16(), answer.header("idempotency-replayed") == "true")
    };
    assert_eq!([send("new").await, send("new").await], [(201, false), (201, true)]);
    assert_eq!([send("old").await, send("old").await], [(200, false), (200, true)]);
    assert_eq!(
        (web.stats.creates(CreateResult::Created), web.stats.creates(CreateResult::Reused)),
        (1, 3)
    );
}

#[tokio::test]
async fn a_problem_names_the_field_as_it_was_sent() {
    let web = Web::new();
    let url = "https://example.com/";
    for (body, code, field) in [
        (json!({"long_url": url, "alias": "a b"}), "invalid_alias", "alias"),
        (json!({"long_url": url, "custom_alias": "a b"}), "invalid_alias", "custom_alias"),
        (json!({"longUrl": url, "customAlias": "api"}), "reserved_alias", "customAlias"),
        (json!({"longUrl": url, "expiresAt": "soon"}), "invalid_expiry", "expiresAt"),
        (json!({"longUrl": url, "maxClicks": 0}), "invalid_request", "maxClicks"),
        (json!({"longUrl": url, "maxClicks": "many"}), "invalid_request", "maxClicks"),
        (json!({"expiresAt": "2099-01-01"}), "invalid_request", "longUrl"),
        (json!({"longUrl": "nowhere"}), "invalid_url", "longUrl"),
    ] {
        let answer = web.api(URLS, body.clone()).await;
        answer.is_problem(400, code, field);
        let bulk = web.api("POST /api/v1/urls/bulk", json!([body])).await.json();
        assert_eq!(bulk["results"][0]["problem"]["field"], field);
    }
    web.api(URLS, json!({"long_url": url, "alias": "abc"})).await;
    web.api("PATCH /api/v1/urls/abc", json!({"validFrom": "noon"})).await.is_problem(
        400,
        "invalid_request",
        "validFrom",
    );
    let import = json!([{"longUrl": url, "shortCode": "a b"}]);
    let import = web.api("POST /api/v1/admin/import", import).await.json();
    assert_eq!(import["results"][0]["problem"]["field"], "shortCode");
}

#[tokio::test]
async fn aliases_of_one_or_two_characters_are_for_admins_and_imports() {
    let web = Web::new();
    let url = "https://example.com/";
    let of_owner = [("authorization", "Bearer terse_other"), ("content-type", "application/json")];
    for headers in [&of_owner[..], &of_owner[1..]] {
        for (alias, allowed) in [("a", 400), ("xy", 400), ("xyz", 201)] {
            let body = json!({"long_url": url, "alias": alias}).to_string();
            let answer = web.call(URLS, headers, body).await;
            if allowed == 400 {
                answer.is_problem(400, "invalid_alias", "alias");
                assert!(answer.text().contains("only admins and imports"), "{}", answer.text());
            } else if headers.len() == 2 {
                assert_eq!(answer.status, 201, "{}", answer.text());
            }
        }
    }
    for alias in ["a", "xy", "7"] {
        let answer = web.api(URLS, json!({"long_url": url, "alias": alias})).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let answer = web.api(&format!("GET /api/v1/urls/{alias}"), Value::Null).await;
        assert_eq!(answer.json()["short_url"], format!("https://go.example/{alias}"));
    }
    let import =
        json!([{"long_url": url, "short_code": "b"}, {"long_url": url, "short_code": "R"}]);
    let import = web.api("POST /api/v1/admin/import", import).await.json();
    assert_eq!(import["results"][0]["link"]["short_code"], "b", "{import}");
    assert_eq!(import["results"][1]["problem"]["code"], "reserved_alias", "{import}");
    for alias in ["r", "R", "qr", "me"] {
        let answer = web.api(URLS, json!({"long_url": url, "alias": alias})).await;
        answer.is_problem(400, "reserved_alias", "alias");
    }
}

#[tokio::test]
async fn a_create_in_camel_case_is_answered_in_camel_case() {
    let web = Web::new();
    let snake = web.api(URLS, json!({"long_url": "https://example.com/s"})).await.json();
    let camel = web.api(URLS, json!({"longUrl": "https://example.com/c", "maxClicks": 2})).await;
    let camel = camel.json();
    assert_eq!(camel["longUrl"], "https://example.com/c");
    assert!(camel["shortCode"].is_string() && camel["maxClicks"] == 2);
    let names = |link: &Value| {
        let names = link.as_object().unwrap().keys();
        let names = names.map(|name| name.replace('_', "").to_lowercase());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(names(&snake), names(&camel), "the same fields");
    assert!(camel.as_object().unwrap().keys().all(|name| !name.contains('_')));
    let items = json!([
        {"longUrl": "https://example.com/1"}, {"long_url": "https://example.com/2"},
        {"longUrl": "https://example.com/3", "max_clicks": 3},
    ]);
    let bulk = web.api("POST /api/v1/urls/bulk", items).await.json();
    assert!(bulk["results"][0]["link"]["shortUrl"].is_string(), "{bulk}");
    assert!(bulk["results"][1]["link"]["short_url"].is_string(), "{bulk}");
    assert!(bulk["results"][2]["link"]["short_url"].is_string(), "{bulk}");
}

#[tokio::test]
async fn times_are_accepted_in_every_usual_form_and_refused_with_a_reason() {
    let web = Web::new();
    for (index, text) in
        ["2099-01-01T00:00Z", "2099-01-01T00:00:00+0000", "20990101T000000Z", "2099-01-01"]
            .into_iter()
            .enumerate()
    {
        let body = json!({"long_url": format!("https://example.com/{index}"), "expires_at": text});
        let answer = web.api(URLS, body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.json()["expires_at"], "2099-01-01T00:00:00Z");
    }
    let body = json!({"long_url": "https://example.com/", "expires_at": "2099-01-01T00:00:00"});
    let refused = web.api(URLS, body).await;
    refused.is_problem(400, "invalid_expiry", "expires_at");
    assert!(refused.text().contains("no offset"), "{}", refused.text());
}
