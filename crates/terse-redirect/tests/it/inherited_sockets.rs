//! What a stopping process does with connections that the kernel has accepted and its threads have
//! not: it answers them, unless the next process inherits the socket.

#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use terse_redirect::{FallbackService, Listeners, ServingThreads, SocketsToKeep, VisitHandler};

use crate::fixture::Fixture;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps its thread busy with a request for `/api/block`.
#[derive(Clone)]
struct BlockingFallback {
    entered: mpsc::Sender<()>,
    release: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl FallbackService for BlockingFallback {
    type Body = Full<Bytes>;

    async fn handle(
        self,
        request: Request<Incoming>,
        _peer: SocketAddr,
        _visit_handler: VisitHandler,
    ) -> Response<Full<Bytes>> {
        if request.uri().path() == "/api/block" {
            self.entered.send(()).unwrap();
            self.release.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
        }
        Response::new(Full::from("served"))
    }
}

fn request(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: go.example\r\n\r\n").unwrap();
    stream
}

/// Stops threads while requests wait in the queue of the socket. Returns how many of them were
/// answered, and how many are left to the next process.
fn stopped(waiting: usize, outlive: SocketsToKeep) -> (usize, usize) {
    let fixture = Fixture::new(|settings| settings.threads = 1);
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, inherited) = (plain.local_addr().unwrap(), plain.try_clone().unwrap());
    let (entered, has_entered) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let fallback = BlockingFallback { entered, release: Arc::new(Mutex::new(released)) };
    let listeners = Listeners { outlive, ..plain.into() };
    let workers =
        ServingThreads::start(listeners, Arc::clone(&fixture.redirector), fallback, None).unwrap();
    let _blocking = request(address, "/api/block");
    has_entered.recv_timeout(TIMEOUT).unwrap();
    let requests: Vec<_> = (0..waiting).map(|_| request(address, "/api/next")).collect();
    assert!(!workers.stop(Duration::ZERO), "the thread is busy");
    release.send(()).unwrap();
    assert!(workers.stop(TIMEOUT));
    let left = std::iter::from_fn(|| inherited.accept().ok()).count();
    let is_answered = |mut stream: TcpStream| {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 200 ")
    };
    (requests.into_iter().filter_map(|stream| is_answered(stream).then_some(())).count(), left)
}

#[test]
fn requests_that_wait_at_a_stop_are_answered_or_left_to_the_next_process() {
    const WAITING: usize = 32;
    let own = SocketsToKeep::default();
    assert_eq!(stopped(WAITING, own), (WAITING, 0));
    // That the other socket is inherited changes nothing about this one.
    let other = SocketsToKeep { tls: true, ..own };
    assert_eq!(stopped(WAITING, other), (WAITING, 0));
    let (answered, left) = stopped(WAITING, SocketsToKeep { plain: true, ..own });
    assert!(left > 0 && answered + left == WAITING, "{answered} answered, {left} left");
}
