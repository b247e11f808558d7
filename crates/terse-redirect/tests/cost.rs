//! What one hot redirect costs, in things that can be counted: no allocation, no look into the store.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use terse_core::{Clock, Hosts, Insert, LinkStore};
use terse_redirect::{FailurePages, FrontDoor, Redirector, Settings, Workers};
use terse_testkit::{MemoryStore, alias};

/// Counts every allocation of the process.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised by our caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised by our caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised by our caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Clone)]
struct NoDoor;

impl FrontDoor for NoDoor {
    type Body = Full<Bytes>;

    async fn open(self, _request: Request<Incoming>, _peer: SocketAddr) -> Response<Full<Bytes>> {
        Response::new(Full::default())
    }
}

const REQUESTS: usize = 10_000;

/// Alone in its binary: the count is of the whole process.
#[test]
fn a_hot_redirect_allocates_nothing_and_reads_nothing() {
    let store = Arc::new(MemoryStore::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.insert(Insert { link: alias("abc1234", "https://example.com/"), request: None })).unwrap();
    let base = "http://go.example/".parse().unwrap();
    let hosts = Hosts::new(&base, &[], vec![]).unwrap();
    let settings = Settings { threads: 1, ..Settings::default() };
    let links: Arc<dyn LinkStore> = store.clone();
    let redirector = Arc::new(Redirector::new(links, hosts, 80, &FailurePages::default(), settings, Clock::default()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let workers = Workers::start(listener, redirector, NoDoor).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();

    let mut buffer = [0; 4096];
    let mut visit = || {
        stream.write_all(b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\nUser-Agent: x\r\nAccept: */*\r\n\r\n").unwrap();
        let count = stream.read(&mut buffer).unwrap();
        assert!(buffer[..count].starts_with(b"HTTP/1.1 302 Found\r\n"));
    };
    for _ in 0..100 {
        visit();
    }
    let (before, read) = (ALLOCATIONS.load(Ordering::Relaxed), store.gets());
    for _ in 0..REQUESTS {
        visit();
    }
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    // The date is written anew once a second, and the sweep runs twice: that is all.
    assert!(allocated < REQUESTS as u64 / 100, "{allocated} allocations in {REQUESTS} redirects");
    assert_eq!(store.gets(), read);
    workers.stop(Duration::from_secs(5));
}
