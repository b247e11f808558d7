use std::io::{Read as _, Write as _};

use super::*;

/// A server that answers one request and returns that request.
fn answer_once(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut asked = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = socket.read(&mut buffer) {
            asked.extend_from_slice(&buffer[..n]);
        }
        socket.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    });
    (url, asked)
}

#[test]
fn a_call_carries_the_key_and_the_body() {
    let (url, asked) =
        answer_once("HTTP/1.1 200 OK\r\nContent-Length: 8\r\nRetry-After: 3\r\n\r\n{\"a\": 1}");
    let api =
        ApiClient::same_machine(Url::parse(&url).unwrap(), Secret::new("the-key"), String::new());
    let answer = api
        .call(
            &Method::POST,
            "/api/v1/urls",
            Some(&serde_json::json!({"long_url": "https://e.com/"})),
        )
        .unwrap();
    assert_eq!(
        (answer.status, &answer.body["a"], answer.retry_after),
        (200, &1.into(), Some(Duration::from_secs(3)))
    );
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("POST /api/v1/urls HTTP/1.1\r\n"), "{asked}");
    assert!(asked.to_lowercase().contains("authorization: bearer the-key\r\n"), "{asked}");
    assert!(asked.ends_with(r#"{"long_url":"https://e.com/"}"#), "{asked}");
}

#[test]
fn a_refusal_is_an_error_in_the_servers_words() {
    let body = r#"{"title":"t","status":409,"code":"alias_taken","detail":"this alias is taken","field":"custom_alias"}"#;
    let answer = format!("HTTP/1.1 409 Conflict\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (url, asked) = answer_once(answer.leak());
    let api = ApiClient::http(Url::parse(&url).unwrap(), None, String::new(), false);
    let error = api.expect(&Method::GET, "/api/v1/urls/x", None).unwrap_err();
    assert_eq!(error.to_string(), "custom_alias: this alias is taken (alias_taken)");
    assert!(!asked.join().unwrap().to_lowercase().contains("authorization"));
}

#[test]
fn a_redirect_is_not_followed() {
    let (url, asked) = answer_once(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    );
    let api =
        ApiClient::http(Url::parse(&url).unwrap(), Some(Secret::new("k")), String::new(), false);
    let error = api.expect(&Method::GET, "/api/v1/urls", None).unwrap_err();
    assert!(error.to_string().contains("302"), "{error:#}");
    asked.join().unwrap();
}

#[test]
fn a_page_that_is_not_ours_is_told_apart() {
    let (url, asked) = answer_once("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>");
    let api = ApiClient::http(Url::parse(&url).unwrap(), None, String::new(), false);
    let error = format!("{:#}", api.expect(&Method::GET, "/api/v1/urls", None).unwrap_err());
    assert!(error.contains("is this a terse server?"), "{error}");
    asked.join().unwrap();
}

#[test]
fn the_router_answers_without_a_server() {
    let router = axum::Router::new().fallback(|request: axum::extract::Request| async move {
        let key = request.headers()[header::AUTHORIZATION].to_str().unwrap().to_owned();
        (
            http::StatusCode::CREATED,
            axum::Json(serde_json::json!({ "path": request.uri().to_string(), "key": key })),
        )
    });
    let api = ApiClient::to(router, "here");
    let answer = api.call(&Method::GET, "/api/v1/urls?limit=1", None).unwrap();
    assert_eq!(answer.status, 201);
    assert_eq!(answer.body, serde_json::json!({"path": "/api/v1/urls?limit=1", "key": "Bearer k"}));
}

#[test]
fn anything_can_be_a_segment_or_a_query() {
    assert_eq!(segment("../a-b_?c#d%é"), "%2E%2E%2Fa-b_%3Fc%23d%25%C3%A9");
    assert_eq!(
        query(&[("q", Some("a b&c".into())), ("tag", None), ("limit", Some("5".into()))]),
        "?q=a+b%26c&limit=5"
    );
    assert_eq!(query(&[("q", None)]), "");
}
