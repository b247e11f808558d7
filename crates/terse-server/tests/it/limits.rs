use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use terse_core::limits::{Limit, LimitSettings};
use terse_server::{CreateResult, Peer};

use crate::web::{Answer, KEY, MODERATOR, OTHER, OWNER, Web};

const URLS: &str = "/api/v1/urls";

fn web() -> Web {
    Web::limited(LimitSettings {
        create_per_address: Limit::per_hour(3),
        create_per_key: Limit::per_hour(5),
        guesses_per_address: Limit::per_minute(4),
        passwords_per_address: Limit::OFF,
        sign_in: Limit::OFF,
        reports_per_address: Limit::per_hour(2),
        ..LimitSettings::OFF
    })
}

/// A request from an address.
async fn send(
    web: &Web,
    from: &str,
    line: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Answer {
    let (method, path) = line.split_once(' ').unwrap();
    let mut request =
        Request::builder().method(method).uri(path).extension(Peer(from.parse().unwrap()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    web.send(request.body(body.into()).unwrap()).await
}

async fn create(web: &Web, from: &str, body: &Value) -> Answer {
    send(
        web,
        from,
        &format!("POST {URLS}"),
        &[("content-type", "application/json")],
        body.to_string(),
    )
    .await
}

fn limit_headers(answer: &Answer) -> [&str; 4] {
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"]
        .map(|name| answer.header(name))
}

#[tokio::test]
async fn anonymous_clients_are_limited_by_address_and_see_what_is_left() {
    let web = web();
    let body = json!({"long_url": "https://example.com/"});
    for (left, reset) in [("2", "1200"), ("1", "2400"), ("0", "3600")] {
        let answer = create(&web, "203.0.113.7", &body).await;
        assert_eq!((answer.status.as_u16(), limit_headers(&answer)), (201, ["3", left, reset, ""]));
    }
    let answer = create(&web, "203.0.113.7", &body).await;
    answer.is_problem(429, "rate_limited", "");
    assert_eq!(limit_headers(&answer), ["3", "0", "3600", "1200"]);
    assert!(answer.json()["detail"].as_str().unwrap().contains("20 minutes"), "{}", answer.text());
    assert_eq!(web.stats.creates(CreateResult::Limited), 1);
    for from in ["203.0.113.8", "2001:db8:1:1::1"] {
        assert_eq!(create(&web, from, &body).await.status, 201);
    }
    // The other route has the same limit.
    let json = [("content-type", "application/json")];
    send(&web, "203.0.113.7", "POST /api/v1/shorten", &json, body.to_string()).await.is_problem(
        429,
        "rate_limited",
        "",
    );
}

#[tokio::test]
async fn owners_are_limited_by_key_and_admins_are_not() {
    let web = web();
    let body = json!({"long_url": "https://example.com/", "reuse": false});
    let line = format!("POST {URLS}");
    for (key, allowed) in [(OWNER.0, 5), (OTHER.0, 5), (KEY, 20)] {
        for i in 0..20 {
            let answer = web.as_owner(&line, key, body.clone()).await;
            assert_eq!(answer.status, if i < allowed { 201 } else { 429 }, "{key} {i}");
            assert_eq!(answer.header("ratelimit-limit"), if key == KEY { "" } else { "5" });
        }
    }
    let items: Value =
        (0..100).map(|i| json!({"long_url": format!("https://example.com/{i}")})).collect();
    assert_eq!(web.api("POST /api/v1/urls/bulk", items.clone()).await.status, 207);
    let items: Value = (0..100)
        .map(|i| json!({"long_url": "https://example.com/", "short_code": format!("code{i}")}))
        .collect();
    assert_eq!(web.api("POST /api/v1/admin/import", items).await.status, 207);
}

#[tokio::test]
async fn each_item_of_a_list_counts_and_a_list_is_taken_or_refused_as_a_whole() {
    let web = web();
    let list = |count: usize| -> Value {
        (0..count).map(|i| json!({"long_url": format!("https://example.com/{i}")})).collect()
    };
    let bulk = async |count| web.as_owner("POST /api/v1/urls/bulk", OWNER.0, list(count)).await;
    let answer = bulk(6).await;
    answer.is_problem(429, "rate_limited", "");
    assert!(
        answer.json()["detail"].as_str().unwrap().contains("6 links; at most 5"),
        "{}",
        answer.text()
    );
    let answer = bulk(3).await;
    assert_eq!(
        (answer.status.as_u16(), limit_headers(&answer)[..2].to_vec()),
        (207, vec!["5", "2"])
    );
    let answer = bulk(3).await;
    answer.is_problem(429, "rate_limited", "");
    assert_eq!(limit_headers(&answer)[1], "2");
    assert_eq!(bulk(2).await.status, 207);
    assert_eq!(web.stats.creates(CreateResult::Limited), 9);
}

#[tokio::test]
async fn repeated_requests_cost_no_tokens() {
    let web = web();
    let body = json!({"long_url": "https://example.com/", "reuse": false}).to_string();
    let ask = async |key: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        send(&web, "2001:db8::1", &format!("POST {URLS}"), &headers, body.clone()).await
    };
    for _ in 0..9 {
        let answer = ask("one").await;
        assert!(answer.status.is_success());
        assert_eq!(limit_headers(&answer)[..3], ["3", "2", "1200"]);
    }
    let items =
        json!([{"long_url": "https://example.com/a"}, {"long_url": "https://example.com/b"}])
            .to_string();
    for _ in 0..3 {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", "many"),
            ("authorization", OWNER.0),
        ];
        let answer = send(&web, "::1", "POST /api/v1/urls/bulk", &headers, items.clone()).await;
        assert_eq!((answer.status.as_u16(), limit_headers(&answer)[1]), (207, "3"));
    }
}

#[tokio::test]
async fn a_failure_of_the_server_costs_no_link() {
    let web = web();
    let body = json!({"long_url": "https://example.com/", "reuse": false});
    let away = |away| web.store.away.store(away, std::sync::atomic::Ordering::Relaxed);
    away(true);
    for _ in 0..5 {
        let answer = create(&web, "203.0.113.7", &body).await;
        answer.is_problem(503, "store_unavailable", "");
        assert_eq!(limit_headers(&answer)[1], "3");
    }
    away(false);
    // A create that fails because no code is left costs no token.
    web.store.full.store(true, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..5 {
        let answer = create(&web, "203.0.113.7", &body).await;
        assert_eq!((answer.status.as_u16(), limit_headers(&answer)[1]), (503, "3"));
    }
    web.store.full.store(false, std::sync::atomic::Ordering::Relaxed);
    let answer = create(&web, "203.0.113.7", &body).await;
    assert_eq!((answer.status.as_u16(), limit_headers(&answer)[1]), (201, "2"));
    assert_eq!(web.stats.creates(CreateResult::Failed), 10);
}

#[tokio::test]
async fn mistakes_cost_no_link_but_not_without_an_end() {
    let web = web();
    for _ in 0..30 {
        assert_eq!(
            create(&web, "203.0.113.7", &json!({"long_urll": "https://example.com/"})).await.status,
            400
        );
    }
    let answer = create(&web, "203.0.113.7", &json!({"long_urll": "https://example.com/"})).await;
    answer.is_problem(429, "rate_limited", "");
    assert_eq!(limit_headers(&answer)[..2], ["3", "0"]);
    // Refused before any of the body is read.
    let answer = send(&web, "203.0.113.7", &format!("POST {URLS}"), &[], "x".repeat(1 << 20)).await;
    answer.is_problem(429, "rate_limited", "");
    // A request refused for its content costs a token, and the answer says so.
    let answer = create(&web, "203.0.113.8", &json!({"long_url": "http://127.0.0.1/"})).await;
    answer.is_problem(422, "destination_not_public", "long_url");
    assert_eq!(limit_headers(&answer)[1], "2");
}

#[tokio::test]
async fn the_form_is_limited_too_and_keeps_what_was_typed() {
    let web = web();
    let form = async |text: &str| {
        let headers =
            [("content-type", "application/x-www-form-urlencoded"), ("host", "go.example")];
        send(&web, "203.0.113.7", "POST /", &headers, text.to_owned()).await
    };
    for left in ["2", "1", "0"] {
        let answer = form("long_url=https://example.com/").await;
        assert_eq!((answer.status.as_u16(), limit_headers(&answer)[1]), (303, left));
    }
    let answer = form("long_url=https://example.com/typed").await;
    assert_eq!(answer.status, 429);
    assert_eq!(limit_headers(&answer), ["3", "0", "3600", "1200"]);
    let text = answer.text();
    assert!(
        text.contains("value=\"https://example.com/typed\"")
            && text.contains("try again in 20 minutes"),
        "{text}"
    );
    create(&web, "203.0.113.7", &json!({"long_url": "https://example.com/"})).await.is_problem(
        429,
        "rate_limited",
        "",
    );
}

#[tokio::test]
async fn pages_about_links_count_guesses() {
    let web = web();
    web.api(&format!("POST {URLS}"), json!({"long_url": "https://example.com/", "alias": "there"}))
        .await;
    let page = async |path: &str| {
        send(&web, "203.0.113.7", &format!("GET {path}"), &[("host", "go.example")], "").await
    };
    for path in ["/not-there+", "/r/not-there", "/not-there/qr", "/nothing+"] {
        assert_eq!(page(path).await.status, 404, "{path}");
    }
    for path in ["/not-there+", "/r/not-there", "/not-there/qr"] {
        let answer = page(path).await;
        assert_eq!(
            (answer.status.as_u16(), limit_headers(&answer)),
            (429, ["4", "0", "60", "15"]),
            "{path}"
        );
    }
    for path in ["/there+", "/r/there", "/there/qr"] {
        assert_eq!(page(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn one_key_after_the_other_is_no_way_around_the_limit_of_one() {
    let web = web();
    let draft = json!({"name": "one more", "scope": "create"});
    let mut ids = Vec::new();
    let refused = loop {
        let made = web.as_owner("POST /api/v1/keys", OWNER.0, draft.clone()).await;
        if made.status != 201 || ids.len() > 1000 {
            break made;
        }
        let id = made.json()["id"].as_u64().unwrap();
        assert_eq!(
            web.as_owner(&format!("DELETE /api/v1/keys/{id}"), OWNER.0, Value::Null).await.status,
            204
        );
        ids.push(id);
    };
    refused.is_problem(429, "rate_limited", "");
    assert!(ids.len() <= 20, "{}", ids.len());
    assert_eq!(
        web.as_owner("POST /api/v1/keys", OTHER.0, draft.clone()).await.status,
        201,
        "others are not concerned"
    );
    let admins = web.api(&format!("POST /api/v1/admin/users/{}/keys", OWNER.1.0), draft).await;
    assert_eq!(admins.status, 201, "nor is an admin");
}

#[tokio::test]
async fn all_keys_of_an_account_share_its_limit_and_keys_at_one_address_a_wide_one() {
    let web = Web::limited(LimitSettings {
        create_per_key: Limit::per_hour(3),
        create_per_account: Limit::per_hour(5),
        create_per_address_with_key: Limit::per_hour(11),
        ..LimitSettings::OFF
    });
    let create = async |key: &str, from: &str, count: usize| {
        let body: Vec<_> = (0..count)
            .map(|_| json!({"long_url": "https://example.com/", "reuse": false}))
            .collect();
        let headers = [("authorization", key), ("content-type", "application/json")];
        let body = json!(body).to_string();
        send(&web, from, "POST /api/v1/urls/bulk", &headers, body).await
    };
    let refused = |answer: &Answer, why: &str| {
        answer.is_problem(429, "rate_limited", "");
        assert!(answer.text().contains(why), "{}", answer.text());
    };
    web.give_key(OWNER.1, "second", |_| ()).await;
    let (here, there) = ("203.0.113.7", "203.0.113.8");
    assert_eq!(create(OWNER.0, here, 3).await.status, 207);
    refused(&create(OWNER.0, here, 1).await, "with this key");
    assert_eq!(create("second", here, 2).await.status, 207);
    refused(&create("second", there, 1).await, "with all keys of the account");
    // An admin gives the account more. Another subject of the test's limiter: the count goes on.
    let line = format!("PATCH /api/v1/admin/users/{}", OWNER.1.0);
    web.api(&line, json!({"plan": "many"})).await.is_problem(400, "invalid_request", "plan");
    let changed = web.api(&line, json!({"plan": "6/h"})).await;
    assert_eq!(changed.json()["plan"], "6/h", "{}", changed.text());
    assert_eq!(create("second", there, 1).await.status, 207);
    refused(&create("second", there, 1).await, "with this key");
    // The address has made 5 of 11 links with keys; another account adds 3, and 3 more.
    assert_eq!(create(OTHER.0, here, 3).await.status, 207);
    web.give_key(OTHER.1, "third", |_| ()).await;
    assert_eq!(create("third", here, 2).await.status, 207);
    web.give_key(MODERATOR.1, "fourth", |_| ()).await;
    refused(&create("fourth", here, 2).await, "from this address");
    assert_eq!(create("fourth", here, 1).await.status, 207);
    assert_eq!(create(KEY, here, 20).await.status, 207, "admins are not limited");
    let cleared = web.api(&line, json!({"plan": null})).await;
    assert_eq!(cleared.json()["plan"], Value::Null);
}
