//! `proxy_protocol`: visitors' addresses from balancers that pass TCP on.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use terse::Config;

use crate::harness::TestTerse;
use crate::tls::Certificates;

const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// All of 127.0.0.0/8 is trusted. Commands come from 127.0.0.1, the balancer from 127.0.0.2.
fn start(change: impl FnOnce(&mut Config)) -> TestTerse {
    TestTerse::with(|config| {
        config.trusted_proxies = vec!["127.0.0.0/8".into()];
        config.proxy_protocol = true;
        config.limits.guesses_per_ip = "1/h".parse().unwrap();
        change(config);
    })
}

fn connect_from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.into()
}

/// What the server answers to these bytes of the balancer, sent one part after the other; empty if
/// it closes the connection.
fn ask_from(source: [u8; 4], terse: &TestTerse, parts: &[&[u8]]) -> String {
    let mut stream = connect_from(source, terse.address);
    stream.set_nodelay(true).unwrap();
    for part in parts {
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(part);
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the connection stays open");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(terse: &TestTerse, header: &[u8], fields: &str) -> u16 {
    let request =
        format!("GET /nosuch99 HTTP/1.1\r\nhost: go.example\r\n{fields}connection: close\r\n\r\n");
    let answer = ask_from([127, 0, 0, 2], terse, &[&[header, request.as_bytes()].concat()]);
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_default()
}

fn v1(source: &str) -> Vec<u8> {
    format!("PROXY TCP4 {source} 198.51.100.1 51234 80\r\n").into_bytes()
}

fn v2(source: [u8; 4]) -> Vec<u8> {
    let addresses = [&source[..], &[198, 51, 100, 1, 0xc8, 0x22, 0, 80]].concat();
    [V2_SIGNATURE, &[0x21, 0x11, 0, 12], &addresses].concat()
}

fn bad_headers(terse: &TestTerse) -> bool {
    let text = terse.get("/metrics").text();
    !text.contains("terse_connections_special_total{what=\"bad_proxy_header\"} 0\n")
}

#[test]
fn a_visitor_has_the_address_that_the_balancer_sends() {
    let terse = start(|_| ());
    assert_eq!(status(&terse, &v1("203.0.113.1"), ""), 404);
    assert_eq!(status(&terse, &v1("203.0.113.1"), ""), 429, "the same visitor");
    assert_eq!(status(&terse, &v2([203, 0, 113, 1]), ""), 429, "the same visitor");
    assert_eq!(status(&terse, &v2([203, 0, 113, 2]), ""), 404, "another one");
    // A visitor cannot claim another address: the balancer passes on what visitors send.
    let claim = "x-forwarded-for: 203.0.113.9\r\n";
    assert_eq!(status(&terse, &v1("203.0.113.1"), claim), 429);
    assert_eq!(status(&terse, &v2([203, 0, 113, 2]), claim), 429);
    // The address of a connection whose source the balancer does not know is the balancer's.
    assert_eq!(status(&terse, b"PROXY UNKNOWN\r\n", claim), 404);
    assert_eq!(status(&terse, b"PROXY UNKNOWN\r\n", "x-forwarded-for: 203.0.113.8\r\n"), 429);
    assert!(!bad_headers(&terse));
}

#[test]
fn a_header_comes_before_the_handshake_of_tls() {
    let mut certificates = Certificates::new();
    certificates.write("go", "go.example");
    let terse = start(|config| certificates.set(config, &["go"]));
    let client = certificates.client(&[]);
    // Balancers send the header alone, or with what the client sent first.
    let ask = |header: &[u8], together: bool| -> u16 {
        let mut socket = connect_from([127, 0, 0, 2], terse.tls_address());
        let name = ServerName::try_from("go.example").unwrap();
        let mut session = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let mut first = header.to_vec();
        if together {
            session.write_tls(&mut first).unwrap();
        }
        socket.write_all(&first).unwrap();
        let mut stream = StreamOwned::new(session, socket);
        let request = "GET /nosuch99 HTTP/1.1\r\nhost: go.example\r\nconnection: close\r\n\r\n";
        let mut answer = Vec::new();
        let asked = stream.write_all(request.as_bytes());
        let _ = asked.and_then(|()| stream.read_to_end(&mut answer));
        let answer = String::from_utf8_lossy(&answer);
        answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_default()
    };
    assert_eq!(ask(&v1("203.0.113.1"), true), 404);
    assert_eq!(ask(&v1("203.0.113.1"), false), 429, "the same visitor");
    assert_eq!(ask(&v2([203, 0, 113, 1]), true), 429, "the same visitor");
    assert_eq!(ask(&v2([203, 0, 113, 2]), false), 404, "another one");
    assert!(!bad_headers(&terse));
    assert_eq!(ask(b"", false), 0, "there is no header");
    assert!(bad_headers(&terse));
}

#[test]
fn a_header_may_arrive_in_pieces() {
    let terse = start(|_| ());
    let request = b"GET /nosuch99 HTTP/1.1\r\nhost: go.example\r\nconnection: close\r\n\r\n";
    for header in [v1("203.0.113.1"), v2([203, 0, 113, 2])] {
        let mut parts: Vec<&[u8]> = header.chunks(1).collect();
        parts.push(request);
        let answer = ask_from([127, 0, 0, 2], &terse, &parts);
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }
}

#[test]
fn a_malformed_or_missing_header_closes_the_connection() {
    let terse = start(|_| ());
    for header in [
        &b""[..],
        b"PROXY TCP4 203.0.113.1\r\n",
        b"PROXY TCP4 203.0.113.1 198.51.100.1 99999 80\r\n",
        b"PROXY TCP6 203.0.113.1 198.51.100.1 1 80\r\n",
        b"PROXY UNKNOWN\n",
        &[b'P'; 300],
        &[b"PROXY TCP4 ".as_slice(), &[b'1'; 300]].concat(),
        &[V2_SIGNATURE, &[0x21, 0x11, 0, 3, 1, 2, 3]].concat(),
        &[V2_SIGNATURE, &[0x31, 0x11, 0, 12], &[0; 12]].concat(),
        &[V2_SIGNATURE, &[0x21, 0x11, 0xff, 0xff], &[0; 600]].concat(),
    ] {
        assert_eq!(status(&terse, header, ""), 0, "{header:?}");
    }
    assert!(bad_headers(&terse));
    // Commands on this machine send none.
    assert_eq!(terse.get("/livez").status, 200);
    // terse closes a connection whose header does not end in time.
    let slow = start(|config| config.tls.handshake_timeout = "1s".parse().unwrap());
    assert_eq!(ask_from([127, 0, 0, 2], &slow, &[b"PROXY TCP4 203"]), "");
}

#[test]
fn the_header_of_an_untrusted_client_is_ignored() {
    let terse = TestTerse::with(|config| {
        config.trusted_proxies = vec!["127.0.0.2".into()];
        config.proxy_protocol = true;
    });
    let request = [&v1("203.0.113.1")[..], b"GET / HTTP/1.1\r\nhost: go.example\r\n\r\n"].concat();
    let answer = ask_from([127, 0, 0, 3], &terse, &[&request]);
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}
