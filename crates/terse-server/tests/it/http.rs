//! What holds for every request: origins, ids and bodies.

use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::json;
use terse_server::{CorsOrigins, HttpSettings, RequestLog};
use terse_testkit::LogLines;

use crate::web::{Answer, KEY, Web};

const URLS: &str = "POST /api/v1/urls";

fn cors(origins: &[&str]) -> Web {
    let origins: Vec<String> = origins.iter().map(|origin| (*origin).to_owned()).collect();
    let cors = CorsOrigins::parse(&origins).unwrap();
    Web::answering(HttpSettings { cors, ..HttpSettings::default() })
}

async fn preflight(web: &Web, path: &str, origin: &str) -> Answer {
    let headers = [("origin", origin), ("access-control-request-method", "POST")];
    web.call(&format!("OPTIONS {path}"), &headers, "").await
}

#[tokio::test]
async fn pages_of_listed_origins_may_call_the_api_and_others_may_not() {
    let web = cors(&["https://app.example"]);
    let allowed = preflight(&web, "/api/v1/urls", "https://app.example").await;
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-origin"), "https://app.example");
    assert_eq!(allowed.header("access-control-allow-credentials"), "true");
    assert!(allowed.header("access-control-allow-headers").contains("Authorization"));
    assert!(allowed.header("access-control-allow-methods").contains("PATCH"));
    assert_eq!(allowed.header("vary"), "Origin");
    let body = json!({"long_url": "https://example.com/"}).to_string();
    let send = async |origin: &str| {
        let headers =
            [("origin", origin), ("authorization", KEY), ("content-type", "application/json")];
        web.call(URLS, &headers, body.clone()).await
    };
    let answer = send("https://app.example").await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("access-control-allow-origin"), "https://app.example");
    assert!(answer.header("access-control-expose-headers").contains("X-Request-Id"));
    for other in ["http://app.example", "https://app.example.evil.net", "null"] {
        let refused = preflight(&web, "/api/v1/urls", other).await;
        assert_eq!(refused.header("access-control-allow-origin"), "", "{other}");
        assert_eq!(send(other).await.header("access-control-allow-origin"), "", "{other}");
    }
    // Only the API is for pages elsewhere.
    let page = preflight(&web, "/login", "https://app.example").await;
    assert_eq!(page.header("access-control-allow-origin"), "");
    let off = preflight(&Web::new(), "/api/v1/urls", "https://app.example").await;
    assert_eq!(off.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn with_any_origin_there_are_no_credentials() {
    let web = cors(&["*"]);
    let allowed = preflight(&web, "/api/v1/urls", "https://any.example").await;
    assert_eq!(
        (allowed.status.as_u16(), allowed.header("access-control-allow-origin")),
        (204, "*")
    );
    assert_eq!(allowed.header("access-control-allow-credentials"), "");
}

#[tokio::test]
async fn a_request_has_an_id_that_its_problem_names() {
    let web = Web::new();
    let mut seen = Vec::new();
    for path in ["/api/v1/urls/abc", "/api/v1/nothing"] {
        let answer = web.send(Request::get(path).body(Body::empty()).unwrap()).await;
        let id = answer.header("x-request-id").to_owned();
        assert_eq!(answer.json()["request_id"], id.as_str());
        assert_eq!(id.len(), 16);
        seen.push(id);
    }
    assert_ne!(seen[0], seen[1]);
    let asked = async |id: &str| {
        let answer = web.call("GET /api/v1/nothing", &[("x-request-id", id)], "").await;
        assert_eq!(answer.json()["request_id"], answer.header("x-request-id"));
        answer.header("x-request-id").to_owned()
    };
    assert_eq!(asked("from-the-proxy_1.2").await, "from-the-proxy_1.2");
    for bad in ["a b", "<b>", &"x".repeat(65)] {
        assert_ne!(asked(bad).await, bad);
    }
}

#[tokio::test]
async fn the_log_has_the_requests_that_the_setting_selects() {
    for (log, want) in [
        (RequestLog::Off, &[][..]),
        (RequestLog::Writes, &["write-1"][..]),
        (RequestLog::All, &["read-1", "write-1"][..]),
    ] {
        let web = Web::answering(HttpSettings { log, ..HttpSettings::default() });
        let (logged, _guard) = LogLines::of_thread();
        for (line, id, status) in
            [("GET /api/v1/urls/secret-code", "read-1", 404), (URLS, "write-1", 400)]
        {
            let headers = [
                ("authorization", KEY),
                ("content-type", "application/json"),
                ("x-request-id", id),
            ];
            let answer = web.call(line, &headers, "{}").await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.json()["request_id"], id, "the problem names the same id");
        }
        let lines = logged.with("request_id=");
        assert_eq!(lines.len(), want.len(), "{log:?} {lines:?}");
        for (line, id) in lines.iter().zip(want) {
            assert!(line.contains(&format!("request_id={id} ")), "{line}");
            assert!(!line.contains("secret-code") && !line.contains(KEY), "{line}");
        }
        if let Some(line) = lines.last() {
            for part in ["method=POST", "route=/api/v1/urls ", "status=400", "ms="] {
                assert!(line.contains(part), "{part} in {line}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_announced_too_large_or_arrives_too_slowly_is_refused() {
    let web = Web::new();
    let send = async |length: Option<&str>, body: Body| {
        let mut request = Request::post("/api/v1/urls")
            .header("authorization", KEY)
            .header("content-type", "application/json");
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        web.send(request.body(body).unwrap()).await
    };
    // Nothing of it is read: it would never end.
    let endless =
        || Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>());
    send(Some("70000"), endless()).await.is_problem(413, "too_large", "");
    send(None, endless()).await.is_problem(408, "request_timeout", "");
    let begun = futures_util::stream::once(async { Ok::<_, axum::Error>(Bytes::from("{")) });
    let slow = Body::from_stream(begun.chain(futures_util::stream::pending()));
    send(None, slow).await.is_problem(408, "request_timeout", "");
}
