//! The cost of one cached redirect, in things that can be counted: no allocation, no store read,
//! one journal record.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use terse_core::limits::Limit;
use terse_core::{Clock, Hosts, Insert, LinkStore, Proxies};
use terse_redirect::{
    AddressDetail, FailurePages, FallbackService, Journal, JournalSettings, RedirectSettings,
    Redirector, ServingThreads, VisitHandler,
};
use terse_testkit::{CountingAllocator, MemoryStore, alias};

#[allow(dead_code, reason = "the other tests need more of it")]
#[path = "it/segments.rs"]
mod segments;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

#[derive(Clone)]
struct NoFallback;

impl FallbackService for NoFallback {
    type Body = Full<Bytes>;

    async fn handle(
        self,
        _request: Request<Incoming>,
        _peer: SocketAddr,
        _visit_handler: VisitHandler,
    ) -> Response<Full<Bytes>> {
        Response::new(Full::default())
    }
}

const WARM_UP: usize = 100;
const REQUESTS: usize = 10_000;
/// A browser's request, through a proxy.
const REQUEST: &[u8] = b"GET /abc1234?utm_source=news&utm_medium=mail&utm_campaign=spring \
    HTTP/1.1\r\nHost: go.example\r\n\
    Connection: keep-alive\r\nUpgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/140.0.0.0 Safari/537.36\r\n\
    Accept: \
    text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\n\
    Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: \
    ?1\r\nSec-Fetch-Dest: document\r\n\
    sec-ch-ua: \"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\"\r\nsec-ch-ua-mobile: \
    ?0\r\nsec-ch-ua-platform: \"Windows\"\r\n\
    Referer: https://news.example/2026/01/a-story?id=1\r\nAccept-Encoding: gzip, deflate, br, \
    zstd\r\n\
    Accept-Language: de-AT,de;q=0.9,en;q=0.8\r\nCookie: theme=dark\r\nX-Forwarded-For: \
    203.0.113.9\r\n\r\n";

/// The only test of its binary, because it counts the allocations of the whole process.
#[test]
fn a_cached_redirect_is_journaled_and_allocates_nothing_and_reads_nothing() {
    let store = Arc::new(MemoryStore::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime
        .block_on(store.insert(Insert::new(alias("abc1234", "https://example.com/"), None)))
        .unwrap();
    let base = "http://go.example/".parse().unwrap();
    let hosts = Hosts::new(&base, &[], vec![]).unwrap();
    let proxies = Proxies::new(vec!["127.0.0.1".parse().unwrap()]);
    // All limits are on: the limiter allocates nothing either.
    let settings = RedirectSettings {
        threads: 1,
        proxies,
        redirect_per_address: Limit::per_second(1_000_000),
        redirect_per_code: Limit::per_second(1_000_000),
        guesses_per_address: Limit::per_hour(60),
        ..RedirectSettings::default()
    };
    let redirector = Arc::new(Redirector::new(
        store.clone(),
        store.clone(),
        hosts,
        80,
        &FailurePages::default(),
        settings,
        Clock::default(),
    ));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let journal = JournalSettings {
        folder: folder.path().to_owned(),
        run: 1,
        // One segment holds all records, so that the allocator thread makes no other.
        segment_bytes: 8 << 20,
        limit_bytes: 64 << 20,
        address: AddressDetail::Cut,
        honour_dnt: true,
        signals: Arc::default(),
    };
    let journal = Journal::start(journal, 1, Clock::default()).unwrap();
    journal.set_salt([7; 16]);
    let workers =
        ServingThreads::start(listener, redirector, NoFallback, Some(journal.clone())).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();

    let mut buffer = [0; 4096];
    let mut ask = |request: &[u8]| {
        stream.write_all(request).unwrap();
        let count = stream.read(&mut buffer).unwrap();
        std::str::from_utf8(&buffer[..count]).unwrap()[9..12].parse::<u16>().unwrap()
    };
    let mut visit = || assert_eq!(ask(REQUEST), 302);
    for _ in 0..WARM_UP {
        visit();
    }
    let (before, read) = (ALLOCATOR.allocations(), store.gets());
    for _ in 0..REQUESTS {
        visit();
    }
    let allocated = ALLOCATOR.allocations() - before;
    // Only the date line, once a second, and the sweep, twice a second, allocate.
    assert!(allocated < REQUESTS as u64 / 100, "{allocated} allocations in {REQUESTS} redirects");
    assert_eq!(store.gets(), read);
    let journaled = segments::read_all(folder.path());
    assert_eq!(journaled.len(), WARM_UP + REQUESTS);
    for journaled in journaled {
        assert_eq!(
            (&*journaled.code, &*journaled.referrer, &*journaled.language),
            ("abc1234", "news.example", "de-AT")
        );
        assert_eq!(
            (&*journaled.address, &*journaled.campaign),
            (&[203, 0, 113][..], "utm_source=news&utm_medium=mail&utm_campaign=spring")
        );
    }
    // A 429 allocates nothing either.
    let unknown =
        b"GET /not-there HTTP/1.1\r\nHost: go.example\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n";
    assert_eq!(ask(unknown), 404);
    for _ in 0..WARM_UP {
        ask(unknown);
    }
    let before = ALLOCATOR.allocations();
    for _ in 0..REQUESTS {
        assert_eq!(ask(unknown), 429);
    }
    let allocated = ALLOCATOR.allocations() - before;
    assert!(allocated < REQUESTS as u64 / 100, "{allocated} allocations in {REQUESTS} refusals");
    assert_eq!(
        segments::read_all(folder.path()).len(),
        WARM_UP + REQUESTS + 60,
        "a refusal is not journaled"
    );
    workers.stop(Duration::from_secs(5));
    journal.stop();
}
