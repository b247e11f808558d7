//! Webhooks: signed and sent once, without redirects.

use std::io::Write as _;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use terse_core::webhooks::{SIGNATURE_HEADER, WebhookSecret, sign, verify};
use terse_core::{
    ExchangeMethod, ExchangeRequest, HttpClient as _, HttpExchange as _, OutgoingError,
    RequestLimits,
};
use terse_outgoing::{OutgoingClient, OutgoingSettings};

use crate::rig::{
    FakeResolver, LONG_DEADLINE, Server, client, kind, read_body, read_head, redirect, settings,
};

#[tokio::test]
async fn a_post_arrives_as_it_was_signed() {
    let (sender, receiver) = sync_channel(1);
    let server = Server::start(move |mut stream| {
        let head = read_head(&stream);
        let body = read_body(&stream, 9);
        let _ = stream
            .write_all(b"HTTP/1.1 429 Slow Down\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n");
        let _ = sender.send((head, body));
    });
    let (secret, body) = (WebhookSecret::new("s"), br#"{"a":"b"}"#.to_vec());
    let signature = sign(&secret, 1000, &body);
    let client = client(&[&server]);
    let posted = client
        .post(&server.url("hook.test"), "application/json", body, &[(SIGNATURE_HEADER, &signature)])
        .await
        .unwrap();
    assert_eq!(
        (posted.status, posted.retry_after, posted.is_success()),
        (429, Some(Duration::from_secs(30)), false)
    );
    let (head, body) = receiver.recv().unwrap();
    assert_eq!(head[0], "POST / HTTP/1.1");
    let find = |name: &str| {
        head.iter()
            .find_map(|line| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value)
    };
    assert_eq!(verify(&secret, find(SIGNATURE_HEADER).unwrap(), &body, 1000, 0), Ok(()));
    assert_eq!(find("Content-Type"), Some("application/json"));
    assert_eq!(find("User-Agent"), Some("terse/9.9.9 (+https://go.example)"));
}

#[tokio::test]
async fn a_post_does_not_follow_redirects() {
    let other = Server::start(|_| ());
    let server = Server::responding(redirect(&other.url("site.test")).replace("302", "307"));
    let client = client(&[&server, &other]);
    let posted = client
        .post(&server.url("hook.test"), "text/plain", Vec::new(), &[("Authorization", "x")])
        .await
        .unwrap();
    assert_eq!((posted.status, server.connections(), other.connections()), (307, 1, 0));
}

#[tokio::test]
async fn a_call_brings_its_answer_and_follows_no_redirect() {
    let (sender, receiver) = sync_channel(2);
    let other = Server::start(|_| ());
    let location = other.url("site.test");
    let server = Server::start(move |mut stream| {
        let head = read_head(&stream);
        let body = if head[0].starts_with("POST") { read_body(&stream, 3) } else { Vec::new() };
        let answer = format!(
            "HTTP/1.1 307 X\r\nLocation: {location}\r\nContent-Type: application/json\r\n\
             Content-Length: 2\r\n\r\n{{}}"
        );
        let _ = stream.write_all(answer.as_bytes());
        let _ = sender.send((head, body));
    });
    let client = client(&[&server, &other]);
    let headers = [("Accept", "application/json"), ("Authorization", "Basic eDp5")];
    for body in [Some(("text/plain", b"a=b".to_vec())), None] {
        let (method, sent) = match &body {
            Some((_, body)) => ("POST", body.clone()),
            None => ("GET", Vec::new()),
        };
        let got = client.call(&server.url("id.test"), &headers, body, LONG_DEADLINE).await.unwrap();
        assert_eq!((got.status, &*got.body), (307, &b"{}"[..]));
        assert_eq!(got.content_type.as_deref(), Some("application/json"));
        let (head, body) = receiver.recv().unwrap();
        assert_eq!((head[0].as_str(), body), (&*format!("{method} / HTTP/1.1"), sent));
        assert!(head.iter().any(|line| line.eq_ignore_ascii_case("authorization: Basic eDp5")));
    }
    assert_eq!((server.connections(), other.connections()), (2, 0));
    let refused =
        client.call(&server.url("id.test"), &[("Cookie", "a")], None, LONG_DEADLINE).await;
    assert_eq!(kind(refused), "not_allowed");
}

#[tokio::test]
async fn a_caller_cannot_set_reserved_headers() {
    let server = Server::start(|_| ());
    let client = client(&[&server]);
    for header in [
        ("Host", "inside"),
        ("content-length", "0"),
        ("User-Agent", "x"),
        ("A\r\nB", "x"),
        ("A", "x\r\nHost: inside"),
    ] {
        let got = client.post(&server.url("hook.test"), "text/plain", Vec::new(), &[header]).await;
        assert_eq!(kind(got), "not_allowed", "{header:?}");
    }
    let long = vec![0; (1 << 20) + 1];
    assert_eq!(
        kind(client.post(&server.url("hook.test"), "text/plain", long, &[]).await),
        "not_allowed"
    );
    assert_eq!(
        kind(client.post(&server.url("hook.test"), "a\nb", Vec::new(), &[]).await),
        "not_allowed"
    );
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_silent_receiver_hits_the_deadline() {
    let server = Server::start(|_stream| std::thread::sleep(Duration::from_secs(5)));
    let client = OutgoingClient::new(OutgoingSettings {
        post_timeout: Duration::from_millis(300),
        ..settings(&[&server], FakeResolver::new(&[]))
    });
    assert_eq!(
        kind(client.post(&server.url("hook.test"), "text/plain", vec![0; 1 << 20], &[]).await),
        "too_slow"
    );
}

#[tokio::test]
async fn an_exchange_returns_the_header_and_is_guarded() {
    let exchange = |url: String, method| {
        let request = ExchangeRequest { url, method };
        async move |client: &OutgoingClient| client.exchange(request, RequestLimits::DOCUMENT).await
    };
    let answer = "HTTP/1.1 201 Created\r\nReplay-Nonce: abc\r\nContent-Length: 2\r\n\r\nok";
    let server = Server::responding(answer.to_owned());
    let client = client(&[&server]);
    let post = ExchangeMethod::Post("application/jose+json".to_owned(), b"{}".to_vec());
    let sent = exchange(server.url("ca.test"), post)(&client).await.unwrap();
    assert_eq!((sent.status, &sent.body[..]), (201, &b"ok"[..]));
    assert!(sent.headers.contains(&("replay-nonce".to_owned(), "abc".to_owned())), "{sent:?}");

    let head = Server::responding("HTTP/1.1 200 OK\r\nReplay-Nonce: d\r\n\r\n".to_owned());
    let client = crate::rig::client(&[&head]);
    let sent = exchange(head.url("ca.test"), ExchangeMethod::Head)(&client).await.unwrap();
    assert_eq!((sent.status, sent.body.len()), (200, 0));

    let other = Server::start(|_| ());
    let server = Server::responding(redirect(&other.url("site.test")));
    let client = crate::rig::client(&[&server, &other]);
    let sent = exchange(server.url("ca.test"), ExchangeMethod::Get)(&client).await.unwrap();
    assert_eq!((sent.status, other.connections()), (302, 0));

    // Without the exception that tests have, an address of this machine is refused.
    let guarded = OutgoingClient::new(OutgoingSettings::default());
    let refused = exchange(format!("http://127.0.0.1:{}/", 8080), ExchangeMethod::Get)(&guarded);
    assert!(matches!(refused.await, Err(OutgoingError::RefusedAddress)));
}
