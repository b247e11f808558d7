//! A redirector on a store in memory, and a front door with nothing behind it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use terse_core::{Clock, Hosts, Insert, Link, LinkStore};
use terse_redirect::{FailurePages, FrontDoor, Redirector, Reply, Settings, Visitor, Workers};
use terse_testkit::MemoryStore;

/// Everything a test needs.
pub(crate) struct Fixture {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) redirector: Arc<Redirector>,
    pub(crate) clock: Clock,
}

impl Fixture {
    pub(crate) fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings { threads: 2, ..Settings::default() };
        change(&mut settings);
        let store = Arc::new(MemoryStore::new());
        let clock = Clock::default();
        let base = "http://go.example/".parse().expect("a URL");
        let hosts = Hosts::new(&base, &["127.0.0.1"], vec![]).expect("hosts");
        let pages = FailurePages { not_found: "<p>not here</p>".into(), ..FailurePages::default() };
        let links: Arc<dyn LinkStore> = store.clone();
        let redirector = Arc::new(Redirector::new(links, hosts, 80, &pages, settings, clock.clone()));
        Self { store, redirector, clock }
    }

    pub(crate) async fn insert(&self, link: Link) {
        self.store.insert(Insert { link, request: None }).await.expect("an insert into memory");
    }

    /// Status and Location.
    pub(crate) async fn visit(&self, code: &str) -> (u16, Option<String>) {
        self.visit_as(Visitor { domain: 0, code, query: None, html: false, head: false }).await
    }

    pub(crate) async fn visit_as(&self, visitor: Visitor<'_>) -> (u16, Option<String>) {
        match self.redirector.answer(visitor).await {
            Reply::Response(response) => {
                let location = response.headers().get("location").map(|value| value.to_str().expect("ASCII").to_owned());
                (response.status().as_u16(), location)
            }
            Reply::Warning(_) => (200, None),
        }
    }

    pub(crate) fn serve(&self) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let workers = Workers::start(listener, Arc::clone(&self.redirector), Door).expect("threads");
        Served { address, workers }
    }
}

/// Threads that are stopped when the test ends.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) workers: Workers,
}

impl Served {
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream
    }

    /// Sends bytes, ends sending, and reads all that comes back.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("sending");
        stream.shutdown(std::net::Shutdown::Write).expect("ending");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8(answer).expect("text")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.workers.stop(Duration::from_secs(10));
    }
}

/// Says what it was asked.
#[derive(Clone)]
pub(crate) struct Door;

impl FrontDoor for Door {
    type Body = Full<Bytes>;

    async fn open(self, request: Request<Incoming>, _peer: SocketAddr) -> Response<Full<Bytes>> {
        let said = format!("hyper: {} {}", request.method(), request.uri());
        let mut response = Response::new(Full::from(said));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    }
}
