//! Connections: slow clients, limits of their number, HTTP/2 and streams at shutdown.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{HOST, KEY, TestTerse, read_answer};
use crate::process::{Served, folder};

#[test]
fn a_body_of_unclear_length_is_refused_on_every_request_of_a_connection() {
    let terse = TestTerse::start();
    let (chunked, length) = ("Transfer-Encoding: chunked", "Content-Length: 5");
    for fields in [
        "Transfer-Encoding: chunked, chunked".to_owned(),
        "Transfer-Encoding: gzip, chunked".to_owned(),
        format!("{chunked}\r\n{chunked}"),
        format!("{chunked}\r\n{length}"),
        format!("{length}\r\n{chunked}"),
    ] {
        let smuggled =
            format!("POST /api/v1/urls HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n\r\n0\r\n\r\n");
        let head = "HEAD /api/v1/urls HTTP/1.1\r\nHost: go.example\r\n\r\n";
        let post = "POST /api/v1/urls HTTP/1.1\r\nHost: go.example\r\nTransfer-Encoding: chunked\
                    \r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        for (first, answered) in
            [(String::new(), 0), (head.into(), 1), (format!("{post}{head}"), 2)]
        {
            let request = format!("{first}{smuggled}GET /livez HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
            let answers = String::from_utf8(terse.raw(request.as_bytes())).unwrap();
            let statuses: Vec<&str> =
                answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
            assert_eq!(statuses.len(), answered + 1, "{fields} after {first:?}: {answers}");
            assert_eq!(statuses.last(), Some(&"400"), "{fields} after {first:?}: {answers}");
            assert!(!statuses.contains(&"200"), "it read on after {fields}: {answers}");
        }
    }
}

#[test]
fn what_is_too_large_is_refused_by_its_name() {
    let terse = TestTerse::start();
    terse.alias("ok1234", "https://example.com/ok");
    let head = |target: &str, fields: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\n{fields}Connection: close\r\n\r\n")
    };
    let status = |request: String| terse.exchange(request.as_bytes()).map(|answer| answer.status);
    let target = |length: usize| format!("/ok1234?{}", "a".repeat(length - "/ok1234?".len()));
    assert_eq!(status(head(&target(8192), "")), Some(302));
    assert_eq!(status(head(&target(8193), "")), Some(414));
    assert_eq!(status(head("/ok1234", &"X-Field: x\r\n".repeat(50))), Some(302));
    assert_eq!(status(head("/ok1234", &"X-Field: x\r\n".repeat(500))), Some(431));
    assert_eq!(
        status(head("/ok1234", &format!("X-Field: {}\r\n", "x".repeat(200_000)))),
        Some(431)
    );
    // Also when only `Content-Length` announces the size.
    for (path, length) in
        [("/api/v1/urls", 65 << 10), ("/api/v1/urls/bulk", 11 << 20), ("/", 65 << 10)]
    {
        let kind =
            if path == "/" { "application/x-www-form-urlencoded" } else { "application/json" };
        let fields = format!(
            "Host: {HOST}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: \
             close\r\n"
        );
        let request = format!("POST {path} HTTP/1.1\r\n{fields}\r\n{}", " ".repeat(length));
        assert_eq!(status(request), Some(413), "{path}");
    }
    assert_eq!(terse.get("/ok1234").status, 302);
}

/// How long the server keeps a connection that sends this and then single bytes with pauses.
fn closes_after(terse: &TestTerse, bytes: &[u8], trickle: bool) -> Duration {
    let mut stream = terse.connect();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.write_all(bytes).unwrap();
    let begun = Instant::now();
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return begun.elapsed(),
            Ok(_) => {} // a word of farewell
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            Err(_) => return begun.elapsed(),
        }
        if trickle && stream.write_all(b"x").is_err() {
            return begun.elapsed();
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "still open: {}",
            String::from_utf8_lossy(bytes)
        );
    }
}

#[test]
fn an_unfinished_request_is_timed_out() {
    let terse = TestTerse::with(|config| {
        config.redirect.header_timeout = terse::config::HumanDuration::secs(2);
        config.redirect.idle_timeout = terse::config::HumanDuration::secs(2);
    });
    terse.alias("ok1234", "https://example.com/ok");
    let cases: [(&[u8], bool); 10] = [
        (b"", false),
        (b"GET /ok", false),
        (b"GET /ok", true),
        (b"GET /ok1234 HTTP/1.1\r\nHost: go.example\r\nX-Slow: ", true),
        (b"POST /api/v1/urls HTTP/1.1\r\nHost: go", true),
        (b"PRI * HTTP/2.0\r\n\r\n", false),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", false),
        (b"GET /ok1234 HTTP/1.1\r\nHost: go.example\r\n\r\n", false),
        (b"GET /livez HTTP/1.1\r\nHost: go.example\r\n\r\n", false),
    ];
    std::thread::scope(|scope| {
        for (bytes, trickle) in cases {
            let terse = &terse;
            scope.spawn(move || {
                let after = closes_after(terse, bytes, trickle);
                let words = String::from_utf8_lossy(bytes);
                assert!(
                    (Duration::from_secs(1)..Duration::from_secs(8)).contains(&after),
                    "{words:?} {trickle}: {after:?}"
                );
            });
        }
    });
}

#[test]
fn connections_beyond_the_limit_wait_until_one_closes() {
    let terse = TestTerse::with(|config| config.redirect.max_connections = 20);
    terse.alias("ok1234", "https://example.com/ok");
    let mut held: Vec<TcpStream> = (0..40).map(|_| terse.connect()).collect();
    for stream in &mut held {
        let _ = stream.write_all(b"GET /ok");
    }
    std::thread::sleep(Duration::from_millis(200));
    drop(held);
    let begun = Instant::now();
    let request = format!("GET /ok1234 HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    while terse.exchange(request.as_bytes()).map(|answer| answer.status) != Some(302) {
        assert!(begun.elapsed() < Duration::from_secs(10), "no connection is accepted any more");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ten_thousand_slow_clients_do_not_keep_others_waiting() {
    const MANY: usize = 10_000;
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < MANY as u64 + 2_000) {
        println!(
            "skipped: only {:?} open files are allowed, too few for {MANY} connections",
            limit.maximum
        );
        return;
    }
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the limit can be raised");
    // In its own process, because this one has file descriptors for only one end of each
    // connection.
    let (_temp, data) = folder();
    let server = Served::start(
        &data,
        &[
            &format!("admin_key={KEY}"),
            "redirect.header_timeout=120s",
            "redirect.max_connections_per_ip=20000",
        ],
    );
    let address = server.url.trim_start_matches("http://").to_owned();
    let halves: [&[u8]; 4] = [
        b"GET /ok",
        b"GET /ok1234 HTTP/1.1\r\nHost: loc",
        b"POST /api/v1/urls HTTP/1.1\r\nHost: ",
        b"PRI * HTTP/2.0\r\n\r\n",
    ];
    let create = |target: &str| -> (String, Duration) {
        let begun = Instant::now();
        let request = ureq::post(format!("{}/api/v1/urls", server.url))
            .header("authorization", format!("Bearer {KEY}"));
        let link: Value = request
            .send_json(json!({"long_url": target}))
            .expect("created")
            .body_mut()
            .read_json()
            .expect("JSON");
        (link["short_code"].as_str().expect("a code").to_owned(), begun.elapsed())
    };
    let mut held = Vec::with_capacity(MANY);
    for i in 0..MANY {
        let mut stream = TcpStream::connect(&address).expect("a connection");
        stream.write_all(halves[i % halves.len()]).expect("half a request is taken");
        held.push(stream);
    }
    let mut slowest = Duration::ZERO;
    for i in 0..50 {
        let target = format!("https://example.com/{i}");
        let (code, took) = create(&target);
        let begun = Instant::now();
        assert_eq!(server.get(&format!("/{code}")).1.as_ref(), Some(&target));
        slowest = slowest.max(took).max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "a client waited {slowest:?}");
    let open: f64 = {
        let text = server.get("/metrics").2;
        text.lines()
            .find_map(|line| line.strip_prefix("terse_connections_open "))
            .expect("a number")
            .parse()
            .expect("a number")
    };
    assert!(open >= MANY as f64, "only {open} of {MANY} are still connected");
    // Clients that continue are served normally.
    let mut patient = held.swap_remove(1);
    patient.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    patient.write_all(b"alhost\r\nConnection: close\r\n\r\n").expect("the rest is taken");
    assert_eq!(read_answer(&mut patient, false).map(|answer| answer.status), Some(404));
    drop(held);
    assert_eq!(server.get("/livez").0, 200);
    println!("with {MANY} slow clients no other client waited longer than {slowest:?}");
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short payload");
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A frame with these headers, each as a literal.
fn headers_frame(stream: u8, flags: u8, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("a short text"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, flags, stream, &block)
}

/// Kinds and streams of the frames up to the end of the answer on this stream.
fn frames_until_answer(connection: &mut TcpStream, stream: u8) -> Vec<(u8, u8)> {
    let mut seen = Vec::new();
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        connection.read_exact(&mut vec![0; length]).expect("its payload");
        seen.push((head[3], head[8]));
        let ends = matches!(head[3], 0 | 1) && head[4] & 1 == 1;
        if ends && head[8] == stream {
            return seen;
        }
    }
}

/// Clients that still send would report the reset and not the answer.
#[test]
fn over_http2_an_early_answer_does_not_reset_a_small_body() {
    const RESET: u8 = 3;
    let terse = TestTerse::start();
    let mut connection = TcpStream::connect(terse.address).expect("a connection");
    connection.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("the preface is sent");
    connection.write_all(&frame(4, 0, 0, &[])).expect("the settings are sent");
    let request = |method, path| {
        [(":method", method), (":scheme", "http"), (":path", path), (":authority", HOST)].to_vec()
    };
    // One is refused by the API, the other before the API gets it.
    for (number, path) in [(1, "/api/v1/urls"), (5, "/%2")] {
        let mut refused = request("POST", path);
        refused.extend([("authorization", "Bearer wrong"), ("content-length", "9")]);
        connection.write_all(&headers_frame(number, 4, &refused)).expect("no body yet");
        let mut seen = frames_until_answer(&mut connection, number);
        let health = headers_frame(number + 2, 5, &request("GET", "/livez"));
        connection.write_all(&health).expect("another request is sent");
        seen.extend(frames_until_answer(&mut connection, number + 2));
        assert!(!seen.contains(&(RESET, number)), "{path}: {seen:?}");
        connection.write_all(&frame(0, 1, number, b"too late!")).expect("the body is sent");
    }
}

#[test]
fn http2_works_with_prior_knowledge() {
    let terse = TestTerse::start();
    terse.alias("ok1234", "https://example.com/ok");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let work = async {
        let stream = tokio::net::TcpStream::connect(terse.address).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = |method: &str, host: &str, path: &str| {
            let uri = format!("http://{host}{path}");
            http::Request::builder()
                .method(method)
                .uri(uri)
                .version(http::Version::HTTP_2)
                .body(())
                .unwrap()
        };
        // With the first answer the client knows the server's settings.
        client = client.ready().await.unwrap();
        let first = client.send_request(request("GET", HOST, "/ok1234"), true).unwrap().0;
        assert_eq!(first.await.unwrap().status(), 302);
        assert_eq!(client.current_max_send_streams(), 100);
        let mut under_way = Vec::new();
        for i in 0..200 {
            client = client.ready().await.unwrap();
            let (path, status) = if i % 2 == 0 { ("/ok1234", 302) } else { ("/nosuch9", 404) };
            under_way
                .push((client.send_request(request("GET", HOST, path), true).unwrap().0, status));
        }
        for (answer, status) in under_way {
            let answer = answer.await.unwrap();
            assert_eq!(answer.status(), status);
            let location = answer.headers().get("location").map(|at| at.to_str().unwrap());
            assert_eq!(location, (status == 302).then_some("https://example.com/ok"));
        }
        client = client.ready().await.unwrap();
        let elsewhere =
            client.send_request(request("GET", "evil.example", "/ok1234"), true).unwrap().0;
        assert_eq!(elsewhere.await.unwrap().status(), 421);
        client = client.ready().await.unwrap();
        let (mut parts, ()) = request("POST", HOST, "/api/v1/urls").into_parts();
        parts.headers.insert("content-type", "application/json".parse().unwrap());
        parts.headers.insert("authorization", format!("Bearer {KEY}").parse().unwrap());
        let (answer, mut body) =
            client.send_request(http::Request::from_parts(parts, ()), false).unwrap();
        body.send_data(
            bytes::Bytes::from_static(br#"{"long_url":"https://example.com/h2"}"#),
            true,
        )
        .unwrap();
        assert_eq!(answer.await.unwrap().status(), 201);
    };
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(20), work).await.expect("in time");
    });
}

#[test]
fn a_live_stream_ends_with_a_message_at_shutdown() {
    let terse = TestTerse::start();
    terse.alias("watched", "https://example.com/");
    let mut stream = terse.connect();
    let request = format!(
        "GET /api/v1/urls/watched/live HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer \
         {KEY}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("retry: ") {
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..count]);
    }
    assert!(seen.starts_with(b"HTTP/1.1 200 OK\r\n"));
    drop(terse);
    stream.read_to_end(&mut seen).unwrap();
    assert!(seen.ends_with(b"\r\n0\r\n\r\n"), "it was cut off: {}", String::from_utf8_lossy(&seen));
}
