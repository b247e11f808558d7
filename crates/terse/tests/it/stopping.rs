//! Stopping under load: every request that reaches the server is answered.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::harness::KEY;
use crate::process::{Served, folder};

const CLIENTS: usize = 8;

/// Sends requests over kept-alive connections until the port is closed. Returns how many were
/// answered, and what went wrong with a request that was sent.
fn client(address: &str, requests: &[&str], answered: &AtomicU64) -> Vec<String> {
    let mut failures = Vec::new();
    let mut connection: Option<TcpStream> = None;
    for request in requests.iter().cycle() {
        let mut stream = match connection.take() {
            Some(stream) => stream,
            None => match TcpStream::connect(address) {
                Ok(stream) => stream,
                Err(_) => return failures,
            },
        };
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        if let Err(error) = stream.write_all(request.as_bytes()) {
            failures.push(format!("not sent: {error}"));
            continue;
        }
        let (mut answer, mut part) = (Vec::new(), [0; 2048]);
        let whole = loop {
            match stream.read(&mut part) {
                Ok(0) => break false,
                Ok(count) => answer.extend_from_slice(&part[..count]),
                Err(error) => {
                    failures.push(format!("{error}"));
                    break false;
                }
            }
            if answer.windows(4).any(|four| four == b"\r\n\r\n") {
                break true;
            }
        };
        if !whole {
            failures.push(format!("cut off after {} octets", answer.len()));
            continue;
        }
        answered.fetch_add(1, Ordering::Relaxed);
        let head = String::from_utf8_lossy(&answer);
        assert!(head.starts_with("HTTP/1.1 302"), "{head}");
        if !head.contains("connection: close") {
            connection = Some(stream);
        }
    }
    failures
}

/// Sends requests over HTTP/2 until the port is closed.
async fn http2_client(address: &str, answered: &AtomicU64) -> Vec<String> {
    let mut failures = Vec::new();
    while let Ok(stream) = tokio::net::TcpStream::connect(address).await {
        let Ok((mut client, connection)) = h2::client::handshake(stream).await else { continue };
        let connection = tokio::spawn(connection);
        // `ready` fails once the server has sent GOAWAY: the client opens another connection.
        loop {
            client = match client.ready().await {
                Ok(ready) => ready,
                Err(_) => break,
            };
            let request = http::Request::builder().uri(format!("http://localhost/{}", "ok1234"));
            let request = request.body(()).expect("a request");
            let Ok((answer, _)) = client.send_request(request, true) else { break };
            match answer.await {
                Ok(answer) if answer.status() == 302 => {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                Ok(answer) => failures.push(format!("{}", answer.status())),
                // The server names the last request that it handles. This one came later: the
                // client sends it again over another connection.
                Err(error)
                    if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) =>
                {
                    break;
                }
                Err(error) => {
                    failures.push(format!("HTTP/2: {error}"));
                    break;
                }
            }
        }
        let _ = connection.await;
    }
    failures
}

/// One start and stop. The clients send from before the signal until the port is closed.
fn stop_under_load() {
    let (_temp, data) = folder();
    let served = Served::start(&data, &[&format!("admin_key={KEY}")]);
    let address = served.url.trim_start_matches("http://").to_owned();
    let body = serde_json::json!({"long_url": "https://example.com/", "custom_alias": "ok1234"});
    ureq::post(format!("{}/api/v1/urls", served.url))
        .header("authorization", format!("Bearer {KEY}"))
        .send_json(body)
        .expect("a link");
    let from_memory = "GET /ok1234 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let by_hyper = "HEAD /ok1234 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answered = AtomicU64::new(0);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|at| {
                let (address, answered) = (&address, &answered);
                scope.spawn(move || {
                    let requests: &[&str] = match at % 3 {
                        0 => &[by_hyper],
                        _ => &[from_memory],
                    };
                    client(address, requests, answered)
                })
            })
            .collect();
        let http2 = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(http2_client(&address, &answered))
        });
        while answered.load(Ordering::Relaxed) < 100 {
            std::thread::sleep(Duration::from_millis(5));
        }
        served.terminate();
        let (status, said) = served.wait();
        assert!(status.success(), "{status}: {said}");
        let clients = clients.into_iter().chain([http2]);
        clients.flat_map(|client| client.join().expect("a client")).collect()
    });
    assert!(failures.is_empty(), "of {answered:?} requests: {failures:?}");
}

#[test]
fn no_request_fails_while_the_server_stops() {
    // Each stop takes as long as the default `shutdown.drain_delay`; some run at the same time.
    let (rounds, at_once) =
        if std::env::var_os("TERSE_TEST_LONG").is_some() { (25, 4) } else { (2, 2) };
    for _ in 0..rounds {
        std::thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(stop_under_load);
            }
        });
    }
}
