//! Slow, long and compressed responses.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use terse_core::{HttpClient as _, OversizePolicy, RequestLimits};

use crate::rig::{LONG_DEADLINE, SHORT_DEADLINE, Server, client, kind, page, read_head};

/// Sends the same bytes repeatedly until the connection closes.
fn send_repeatedly(mut stream: &TcpStream, piece: &[u8], pause: Duration) {
    while stream.write_all(piece).is_ok() {
        std::thread::sleep(pause);
    }
}

const DRIP: Duration = Duration::from_millis(20);

#[tokio::test]
async fn a_slow_response_hits_the_deadline() {
    for begin in [
        "",
        "HTTP/1.1 200 OK\r\nX: ",
        "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    ] {
        let server = Server::start(move |mut stream| {
            read_head(&stream);
            let _ = stream.write_all(begin.as_bytes());
            if begin.is_empty() {
                std::thread::sleep(Duration::from_secs(5));
            }
            send_repeatedly(&stream, b"a", DRIP);
        });
        assert_eq!(
            kind(client(&[&server]).get(&server.url("site.test"), SHORT_DEADLINE).await),
            "too_slow",
            "{begin:?}"
        );
    }
}

#[tokio::test]
async fn redirects_share_one_deadline() {
    let server = Server::start(|mut stream| {
        read_head(&stream);
        std::thread::sleep(Duration::from_millis(150));
        let _ = stream.write_all(crate::rig::redirect("/").as_bytes());
    });
    assert_eq!(
        kind(client(&[&server]).get(&server.url("site.test"), SHORT_DEADLINE).await),
        "too_slow"
    );
}

#[tokio::test]
async fn endless_headers_and_interim_responses_end() {
    for piece in [
        &b"X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"[..],
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let server = Server::start(move |mut stream| {
            read_head(&stream);
            if piece.starts_with(b"X") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            }
            send_repeatedly(&stream, piece, Duration::ZERO);
        });
        let got = kind(client(&[&server]).get(&server.url("site.test"), SHORT_DEADLINE).await);
        assert!(matches!(got, "bad_answer" | "too_slow"), "{got}");
    }
}

#[tokio::test]
async fn a_long_page_is_cut_and_a_long_list_is_refused() {
    let list = RequestLimits { oversize: OversizePolicy::Refuse, max_body: 1000, ..LONG_DEADLINE };
    let cut = RequestLimits { oversize: OversizePolicy::Truncate, ..list };
    let (fits, long) = ("a".repeat(1000), "a".repeat(1001));
    let chunked = |body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        )
    };
    let unbounded = |body: &str| format!("HTTP/1.1 200 OK\r\n\r\n{body}");
    for shape in [&page as &dyn Fn(&str) -> String, &chunked, &unbounded] {
        let server = Server::responding(shape(&fits));
        let client = client(&[&server]);
        for limits in [list, cut] {
            let fetched = client.get(&server.url("site.test"), limits).await.unwrap();
            assert_eq!((fetched.body.len(), fetched.truncated), (1000, false));
        }
        let server = Server::responding(shape(&long));
        let client = crate::rig::client(&[&server]);
        let fetched = client.get(&server.url("site.test"), cut).await.unwrap();
        assert_eq!((fetched.body.len(), fetched.truncated), (1000, true));
        assert_eq!(kind(client.get(&server.url("site.test"), list).await), "too_large");
    }
}

#[tokio::test]
async fn an_endless_body_is_left_at_the_limit() {
    let server = Server::start(|mut stream| {
        read_head(&stream);
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
        let _ = stream.write_all(b"17\r\n<title>endless</title> \r\n");
        send_repeatedly(&stream, b"4\r\nmore\r\n", Duration::ZERO);
    });
    let client = client(&[&server]);
    let fetched = client.get(&server.url("site.test"), LONG_DEADLINE).await.unwrap();
    assert_eq!((fetched.body.len(), fetched.truncated), (64 << 10, true));
    let list = RequestLimits { oversize: OversizePolicy::Refuse, ..LONG_DEADLINE };
    assert_eq!(kind(client.get(&server.url("site.test"), list).await), "too_large");
    // The reachability check does not read the body.
    let reached = client
        .get(&server.url("site.test"), RequestLimits { max_body: 0, ..LONG_DEADLINE })
        .await
        .unwrap();
    assert_eq!((reached.status, reached.body.len()), (200, 0));
}

#[tokio::test]
async fn a_list_may_be_longer_than_a_page() {
    let server = Server::responding(page(&"a".repeat(12 << 20)));
    let limits =
        RequestLimits { max_body: 16 << 20, oversize: OversizePolicy::Refuse, ..LONG_DEADLINE };
    assert_eq!(
        client(&[&server]).get(&server.url("site.test"), limits).await.unwrap().body.len(),
        12 << 20
    );
}

#[tokio::test]
async fn compressed_bodies_are_refused() {
    for header in [
        "Content-Encoding: gzip",
        "content-encoding: GZIP",
        "Content-Encoding: br",
        "Content-Encoding: identity, gzip",
        "Content-Encoding: identity\r\nContent-Encoding: deflate",
        "Transfer-Encoding: gzip, chunked",
    ] {
        // The body would decompress, so only the header is a reason to refuse it.
        let packed = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\xc8\x04\0\xac\x2a\x93\xd8\x02\0\0\0";
        let chunked = header.contains("chunked");
        let head = format!("HTTP/1.1 200 OK\r\n{header}\r\nConnection: close\r\n\r\n");
        let body = if chunked {
            [b"16\r\n", &packed[..], b"\r\n0\r\n\r\n"].concat()
        } else {
            packed.to_vec()
        };
        let server = Server::responding([head.into_bytes(), body].concat());
        assert_eq!(
            kind(client(&[&server]).get(&server.url("site.test"), LONG_DEADLINE).await),
            "bad_answer",
            "{header}"
        );
    }
}

#[tokio::test]
async fn malformed_responses_are_refused() {
    for answer in [
        "",
        "\0\0\0",
        "SSH-2.0-x\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        "HTTP/1.1 99999 X\r\n\r\n",
    ] {
        let server = Server::responding(answer);
        assert_eq!(
            kind(client(&[&server]).get(&server.url("site.test"), LONG_DEADLINE).await),
            "bad_answer",
            "{answer:?}"
        );
    }
}
