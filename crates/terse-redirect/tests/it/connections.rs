//! Real sockets: pipelines, slow clients, closing, stopping.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming};
use terse_redirect::{FallbackService, VisitHandler};
use terse_testkit::alias;
use tokio::sync::{mpsc, watch};

use crate::fixture::{Fixture, Served};

const TARGET: &str = "https://example.com/";
const GET: &[u8] = b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\nConnection: close\r\n\r\n";

async fn fixture(change: impl FnOnce(&mut terse_redirect::RedirectSettings)) -> Fixture {
    let fixture = Fixture::new(change);
    fixture.insert(alias("abc1234", TARGET)).await;
    fixture
}

fn statuses(answers: &str) -> Vec<&str> {
    let lines = answers.split("HTTP/1.1 ").skip(1);
    lines.map(|line| &line[..3]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order_by_both_paths() {
    let served = fixture(|_| ()).await.serve();
    let fast = "GET /abc1234 HTTP/1.1\r\nHost: go.example\r\n\r\n";
    let missing = "GET /missing HTTP/1.1\r\nHost: go.example\r\n\r\n";
    let slow = "POST /api HTTP/1.1\r\nHost: go.example\r\nContent-Length: 3\r\n\r\nabc";
    let answers = served.exchange([fast, missing, fast, fast].concat().as_bytes());
    assert_eq!(statuses(&answers), ["302", "404", "302", "302"]);
    let answers = served.exchange([fast, fast, slow, slow].concat().as_bytes());
    assert_eq!(statuses(&answers), ["302", "302", "418", "418"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_arrive_byte_by_byte() {
    let served = fixture(|_| ()).await.serve();
    let mut stream = served.connect();
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /abc1234?x HTTP/1.1\r\nHost: go.example\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_micros(200));
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(statuses(&answer), ["302"]);
    assert!(answer.contains("\r\nlocation: https://example.com/\r\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_pipelined_requests_with_long_answers_all_arrive() {
    let fixture = fixture(|_| ()).await;
    let long = format!("https://example.com/{}", "x".repeat(8000));
    fixture.insert(alias("long123", &long)).await;
    let served = fixture.serve();
    let mut stream = served.connect();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for _ in 0..1000 {
            writer.write_all(b"GET /long123 HTTP/1.1\r\nHost: go.example\r\n\r\n").unwrap();
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    std::thread::sleep(Duration::from_millis(100));
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    sender.join().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 302 Found\r\n").count(), 1000);
    assert_eq!(answers.matches(&format!("location: {long}\r\n")).count(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_close_is_answered_and_obeyed() {
    let served = fixture(|_| ()).await.serve();
    let mut stream = served.connect();
    stream
        .write_all(b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 302 Found\r\n") && answer.contains("connection: close\r\n"),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_idle_clients_are_disconnected_and_others_served_meanwhile() {
    let served = fixture(|settings| {
        settings.header_timeout = Duration::from_secs(1);
        settings.idle_timeout = Duration::from_secs(2);
    })
    .await
    .serve();
    let mut slow = served.connect();
    slow.write_all(b"GET /abc1234 HTTP/1.1\r\nHost: go.exa").unwrap();
    let mut idle = served.connect();
    // hyper has the same timeout.
    let mut slow_in_hyper = served.connect();
    slow_in_hyper
        .write_all(b"POST / HTTP/1.1\r\nHost: go.example\r\nContent-Length: 0\r\n\r\nPOST / HT")
        .unwrap();
    assert_eq!(
        statuses(&served.exchange(b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\n\r\n")),
        ["302"]
    );
    for stream in [&mut slow, &mut idle, &mut slow_in_hyper] {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(served.workers.counts().timed_out >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_connections_are_refused_until_others_close() {
    let served = fixture(|settings| settings.max_connections = 10).await.serve();
    let mut held: Vec<_> = (0..10).map(|_| served.connect()).collect();
    // Idle ones would be closed for a new one.
    held.iter_mut().for_each(|stream| stream.write_all(b"GET /abc").unwrap());
    std::thread::sleep(Duration::from_millis(100));
    let mut refused = served.connect();
    let _ = refused.write_all(b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\n\r\n");
    let mut answer = Vec::new();
    let _ = refused.read_to_end(&mut answer);
    assert!(answer.is_empty());
    drop(held);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(
        statuses(&served.exchange(b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\n\r\n")),
        ["302"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_distributed_evenly() {
    let served = fixture(|_| ()).await.serve();
    let held: Vec<_> = (0..100).map(|_| served.connect()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let open = served.workers.open_per_thread();
    assert_eq!(open.iter().sum::<usize>(), held.len());
    assert!(open.iter().all(|&open| (40..=60).contains(&open)), "{open:?}");
}

/// A connection from another address of this machine.
fn connect_from(served: &Served, source: [u8; 4]) -> TcpStream {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&std::net::SocketAddr::from((source, 0)).into()).expect("an address");
    socket.connect(&served.address.into()).expect("a connection");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

/// Whether a request over this connection is answered.
fn answers(stream: &mut TcpStream) -> bool {
    let _ = stream.write_all(b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\n\r\n");
    let mut buffer = [0; 1024];
    matches!(stream.read(&mut buffer), Ok(count) if buffer[..count].starts_with(b"HTTP/1.1 302"))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_source_cannot_take_all_connections() {
    let settings = |settings: &mut terse_redirect::RedirectSettings| {
        settings.threads = 1;
        settings.max_connections_per_source = 10;
        settings.proxies = terse_core::Proxies::new(vec!["127.0.0.9".parse().unwrap()]);
    };
    let served = fixture(settings).await.serve();
    let mut mine: Vec<_> = (0..15).map(|_| connect_from(&served, [127, 0, 0, 1])).collect();
    let served_of_mine = mine.iter_mut().map(answers).filter(|answered| *answered).count();
    assert_eq!(served_of_mine, 10);
    assert_eq!(served.workers.counts().refused_per_source, 5);
    assert!(answers(&mut connect_from(&served, [127, 0, 0, 2])), "another source is served");
    let mut proxied: Vec<_> = (0..15).map(|_| connect_from(&served, [127, 0, 0, 9])).collect();
    assert!(proxied.iter_mut().all(answers), "a trusted proxy has no share");
    drop(mine);
    let begun = std::time::Instant::now();
    while !answers(&mut connect_from(&served, [127, 0, 0, 1])) {
        assert!(begun.elapsed() < Duration::from_secs(10), "places are not given back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connections_that_were_idle_longest_make_room_for_new_ones() {
    let fixture = fixture(|settings| {
        settings.threads = 1;
        settings.max_connections = 100;
    })
    .await;
    let served = fixture.serve();
    // The first half is used again later and so has been idle for a shorter time.
    let mut recent: Vec<_> = (0..50).map(|_| served.connect()).collect();
    assert!(recent.iter_mut().all(answers));
    let mut oldest: Vec<_> = (0..40).map(|_| served.connect()).collect();
    assert!(oldest.iter_mut().all(answers));
    let mut busy: Vec<_> = (0..10).map(|_| served.connect()).collect();
    busy.iter_mut().for_each(|stream| stream.write_all(b"GET /abc1234 HT").unwrap());
    fixture.clock.advance(Duration::from_secs(1));
    assert!(recent.iter_mut().all(answers));
    let mut new: Vec<_> = (0..20).map(|_| served.connect()).collect();
    assert!(new.iter_mut().all(answers), "new connections are served");
    assert!(recent.iter_mut().all(answers), "the connections that were used last are still open");
    for stream in &mut busy {
        stream.write_all(b"TP/1.1\r\nHost: go.example\r\n\r\n").unwrap();
        let mut buffer = [0; 1024];
        assert!(stream.read(&mut buffer).is_ok_and(|count| count > 0), "a request in progress");
    }
    let closed = oldest.iter_mut().map(answers).filter(|answered| !answered).count();
    let counts = served.workers.counts();
    assert_eq!((closed as u64, counts.refused), (counts.made_room, 0));
    assert_eq!(closed, 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_is_set_changes_no_deadline() {
    const YEAR_MS: i64 = 365 * 86_400 * 1000;
    for by_ms in [YEAR_MS, -YEAR_MS] {
        let fixture = fixture(|settings| {
            settings.redirect_per_address = terse_core::limits::Limit::per_hour(10);
        })
        .await;
        let served = fixture.serve();
        let mut idle = served.connect();
        assert!(answers(&mut idle));
        let (reads, before) = (fixture.store.gets(), fixture.clock.now());
        fixture.clock.shift_wall_clock(by_ms);
        assert_eq!(fixture.clock.now().as_ms() / YEAR_MS, (before.as_ms() + by_ms) / YEAR_MS);
        // Longer than a sweep takes to come round.
        std::thread::sleep(Duration::from_millis(1200));
        for _ in 1..10 {
            assert!(answers(&mut idle), "the connection is open, by {by_ms}");
        }
        assert!(!answers(&mut idle), "the limit still holds, by {by_ms}");
        assert_eq!(fixture.store.gets(), reads, "the link is still in memory, by {by_ms}");
        let seen = served.workers.counts();
        assert_eq!((seen.timed_out, seen.slow), (0, 0));
        assert!(seen.latency_nanos < 60_000_000_000, "{}", seen.latency_nanos);
        // After its time to live the link is read again, also if the wall clock was set back.
        fixture.clock.advance(Duration::from_secs(3700));
        assert!(answers(&mut served.connect()));
        assert_eq!(fixture.store.gets(), reads + 1, "by {by_ms}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_expires_by_the_wall_clock_in_both_directions() {
    let fixture = fixture(|_| ()).await;
    let mut link = terse_testkit::alias("ending1", "https://example.com/");
    link.expires_at = fixture.clock.now().checked_add(Duration::from_secs(3600));
    fixture.insert(link).await;
    assert_eq!(fixture.visit("ending1").await.0, 302);
    fixture.clock.shift_wall_clock(3_600_000);
    assert_eq!(fixture.visit("ending1").await.0, 410);
    fixture.clock.shift_wall_clock(-3_600_000);
    fixture.clock.advance(Duration::from_secs(301));
    assert_eq!(fixture.visit("ending1").await.0, 302);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_draining_each_answer_closes_its_connection() {
    let served = fixture(|_| ()).await.serve();
    let (mut used, mut unused) = (served.connect(), served.connect());
    assert!(answers(&mut used));
    served.workers.drain();
    let begun = std::time::Instant::now();
    let mut closes = 0;
    for method in ["GET", "HEAD"] {
        loop {
            let mut stream = served.connect();
            let request = format!("{method} /abc1234 HTTP/1.1\r\nHost: go.example\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut buffer = [0; 1024];
            let count = stream.read(&mut buffer).unwrap();
            let head = String::from_utf8_lossy(&buffer[..count]).into_owned();
            assert!(head.starts_with("HTTP/1.1 302"), "{head}");
            if head.contains("connection: close") {
                assert_eq!(stream.read(&mut buffer).unwrap(), 0, "and it is closed");
                closes += 1;
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{head}");
        }
    }
    assert_eq!(closes, 2);
    assert!(answers(&mut used), "an idle connection stays open while draining");
    assert!(answers(&mut unused));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_lengths_are_refused_in_any_order() {
    let served = fixture(|_| ()).await.serve();
    for fields in [
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    ] {
        let request = format!(
            "POST /api HTTP/1.1\r\nHost: go.example\r\n{fields}\r\n\r\n5c\r\nGET /admin \
             HTTP/1.1\r\n\r\n0\r\n\r\n"
        );
        assert_eq!(statuses(&served.exchange(request.as_bytes())), ["400"], "{fields}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_2_connection_has_at_most_a_hundred_requests_at_once() {
    let served = fixture(|_| ()).await.serve();
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let (client, mut connection) = h2::client::handshake(stream).await.unwrap();
    let request = http::Request::builder().uri("http://go.example/abc1234").body(()).unwrap();
    let (answer, _) = client.ready().await.unwrap().send_request(request, true).unwrap();
    tokio::select! {
        answer = answer => assert_eq!(answer.unwrap().status(), 302),
        ended = &mut connection => panic!("the connection ended: {ended:?}"),
    }
    assert_eq!(connection.max_concurrent_send_streams(), 100);
}

/// The memory for their windows is bounded by their number.
#[tokio::test(flavor = "multi_thread")]
async fn there_are_only_so_many_http_2_connections_until_others_close() {
    let served = fixture(|settings| settings.max_http2_connections = 2).await.serve();
    let follow = async || -> Option<_> {
        let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.ok()?;
        let driver = tokio::spawn(connection);
        let request = http::Request::builder().uri("http://go.example/abc1234").body(()).unwrap();
        let mut client = client.ready().await.ok()?;
        let (answer, _) = client.send_request(request, true).ok()?;
        // Without the client the connection ends.
        (answer.await.ok()?.status() == 302).then_some((client, driver))
    };
    let open = [follow().await.expect("the first"), follow().await.expect("the second")];
    assert!(follow().await.is_none(), "a third");
    let counts = served.workers.counts();
    assert_eq!((served.workers.http2_connections(), counts.refused), (2, 1));
    assert_eq!(statuses(&served.exchange(GET)), ["302"], "others are served");
    open.into_iter().for_each(|(_client, driver)| driver.abort());
    let begun = std::time::Instant::now();
    while follow().await.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(10), "places are not given back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_closes_idle_connections() {
    let served = fixture(|_| ()).await.serve();
    let mut idle = served.connect();
    let mut handed_over = served.connect();
    handed_over
        .write_all(b"POST / HTTP/1.1\r\nHost: go.example\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let address = served.address;
    drop(served);
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
    handed_over.read_to_end(&mut rest).unwrap();
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_that_hyper_serves_is_closed() {
    let fixture = fixture(|_| ()).await;
    let served = fixture.serve();
    // An HTTP/2 client that sends its preface and no request.
    let mut silent = served.connect();
    silent
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    fixture.clock.advance(Duration::from_secs(75 + 36));
    let mut rest = Vec::new();
    let ended = silent.read_to_end(&mut rest);
    assert!(
        ended.is_ok()
            || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_pipelining_client_is_not_a_slow_one() {
    let fixture = fixture(|_| ()).await;
    let served = fixture.serve();
    let mut stream = served.connect();
    let request = b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\n\r\n";
    // Each read of the server ends in the middle of a request.
    stream.write_all(&request[..10]).unwrap();
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(600));
        fixture.clock.advance(Duration::from_secs(8));
        stream.write_all(&[&request[10..], &request[..10]].concat()).unwrap();
        let mut answer = [0; 4096];
        assert!(stream.read(&mut answer).unwrap() > 0, "cut off");
    }
}

/// A body whose parts the test sends.
struct Slow(mpsc::Receiver<Bytes>);

impl Body for Slow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

#[derive(Clone)]
struct SlowFallback(watch::Sender<Option<mpsc::Sender<Bytes>>>);

impl FallbackService for SlowFallback {
    type Body = Slow;

    async fn handle(self, _: Request<Incoming>, _: SocketAddr, _: VisitHandler) -> Response<Slow> {
        let (sender, parts) = mpsc::channel(1);
        self.0.send_replace(Some(sender));
        Response::new(Slow(parts))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_long_answer_is_not_idle_while_the_client_reads() {
    let fixture = fixture(|settings| settings.idle_timeout = Duration::from_secs(1)).await;
    let (fallback, mut opened) = watch::channel(None);
    let served = fixture.serve_with_fallback(SlowFallback(fallback));
    let mut stream = served.connect();
    stream.write_all(b"GET /api/long HTTP/1.1\r\nHost: go.example\r\n\r\n").unwrap();
    let parts = opened.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    // Two minutes by the server's clock; each wait is longer than the sweep interval.
    for part in 0..6 {
        fixture.clock.advance(Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(700)).await;
        parts.send(format!("part {part}").into()).await.expect("the connection is open");
        let mut seen = String::new();
        while !seen.contains(&format!("part {part}")) {
            let mut piece = [0; 1024];
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "cut off after {seen:?}");
            seen.push_str(std::str::from_utf8(&piece[..count]).unwrap());
        }
    }
    // Without further parts the connection is idle and ends.
    fixture.clock.advance(Duration::from_secs(60));
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the body was cut off");
    assert!(served.workers.counts().timed_out >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_reports_whether_a_thread_is_still_busy() {
    let fixture = fixture(|_| ()).await;
    let (fallback, mut opened) = watch::channel(None);
    let served = fixture.serve_with_fallback(SlowFallback(fallback.clone()));
    let mut stream = served.connect();
    stream.write_all(b"GET /api/long HTTP/1.1\r\nHost: go.example\r\n\r\n").unwrap();
    let parts = opened.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(!served.workers.stop(Duration::ZERO));
    assert!(!served.workers.stop(Duration::ZERO), "a second call changes nothing");
    drop(parts);
    fallback.send_replace(None);
    assert!(served.workers.stop(Duration::from_secs(10)));
    assert!(served.workers.stop(Duration::ZERO));
}
