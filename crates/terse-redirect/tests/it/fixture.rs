//! A redirector on a store in memory, and a fallback service for the serving threads.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tempfile::TempDir;
use terse_core::{
    Clock, Code, Hosts, Insert, Link, LinkReader, LinkStore, PageLanguage, is_reserved,
};
use terse_redirect::{
    AddressDetail, FailurePages, FallbackService, Journal, JournalSettings, LanguagePages,
    RedirectSettings, Redirector, Reply, ServingThreads, VisitHandler, VisitMethod, Visitor,
    VisitorHeaders,
};
use terse_testkit::MemoryStore;

use crate::segments::{self, JournaledVisit};

/// A redirector with its store and clock.
pub(crate) struct Fixture {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) redirector: Arc<Redirector>,
    pub(crate) clock: Clock,
    threads: usize,
}

impl Fixture {
    pub(crate) fn new(change: impl FnOnce(&mut RedirectSettings)) -> Self {
        Self::reading_through(|store| store, change)
    }

    /// With another reader in front of the store.
    pub(crate) fn reading_through<R: LinkReader>(
        reader: impl FnOnce(Arc<MemoryStore>) -> Arc<R>,
        change: impl FnOnce(&mut RedirectSettings),
    ) -> Self {
        let mut settings = RedirectSettings { threads: 2, ..RedirectSettings::default() };
        change(&mut settings);
        let threads = settings.threads;
        let store = Arc::new(MemoryStore::new());
        let clock = Clock::default();
        let base = "http://go.example/".parse().expect("a URL");
        let hosts = Hosts::new(&base, &["127.0.0.1"], vec![]).expect("hosts");
        let pages = FailurePages {
            pages: PageLanguage::ALL.map(|language| LanguagePages {
                not_found: format!("<p lang={}>not here</p>", language.tag()),
                ..LanguagePages::default()
            }),
            ..FailurePages::default()
        };
        let redirector = Arc::new(Redirector::new(
            reader(store.clone()),
            store.clone(),
            hosts,
            80,
            &pages,
            settings,
            clock.clone(),
        ));
        Self { store, redirector, clock, threads }
    }

    pub(crate) async fn insert(&self, link: Link) {
        self.store.insert(Insert::new(link, None)).await.expect("an insert into memory");
    }

    /// Status and Location.
    pub(crate) async fn visit(&self, code: &str) -> (u16, Option<String>) {
        self.visit_as(visitor(code)).await
    }

    pub(crate) async fn visit_as(&self, visitor: Visitor<'_>) -> (u16, Option<String>) {
        match self.redirector.answer_uncounted(visitor).await {
            Reply::Response(response) => {
                let location = response
                    .headers()
                    .get("location")
                    .map(|value| value.to_str().expect("ASCII").to_owned());
                (response.status().as_u16(), location)
            }
            Reply::Page(..) => (200, None),
            Reply::WrongMethod => (405, None),
        }
    }

    pub(crate) fn serve(&self) -> Served {
        self.serve_on(TestFallback(Arc::clone(&self.redirector)), None)
    }

    /// With another fallback service.
    pub(crate) fn serve_with_fallback(&self, fallback: impl FallbackService) -> Served {
        self.serve_on(fallback, None)
    }

    /// With a journal in a folder of its own.
    pub(crate) fn serve_journaled(&self, change: impl FnOnce(&mut JournalSettings)) -> Served {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut settings = journal_settings(&folder.path().join("journal"));
        change(&mut settings);
        let journal =
            Journal::start(settings, self.threads, self.clock.clone()).expect("a journal");
        journal.set_salt([7; 16]);
        self.serve_on(TestFallback(Arc::clone(&self.redirector)), Some((journal, folder)))
    }

    fn serve_on(
        &self,
        fallback: impl FallbackService,
        journal: Option<(Arc<Journal>, TempDir)>,
    ) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let given = journal.as_ref().map(|(journal, _)| Arc::clone(journal));
        let workers =
            ServingThreads::start(listener, Arc::clone(&self.redirector), fallback, given)
                .expect("threads");
        Served { address, workers, journal }
    }
}

/// A visitor without headers.
pub(crate) fn visitor(code: &str) -> Visitor<'_> {
    Visitor {
        domain: 0,
        code,
        query: None,
        html: false,
        method: VisitMethod::Get,
        past_warning: false,
        password: None,
        headers: VisitorHeaders::default(),
    }
}

/// A journal of small segments.
pub(crate) fn journal_settings(folder: &Path) -> JournalSettings {
    JournalSettings {
        folder: folder.to_owned(),
        run: 42,
        segment_bytes: 1 << 20,
        limit_bytes: 64 << 20,
        address: AddressDetail::Cut,
        honour_dnt: true,
        signals: Arc::default(),
    }
}

/// Threads that are stopped when the test ends.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) workers: ServingThreads,
    journal: Option<(Arc<Journal>, TempDir)>,
}

impl Served {
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream
    }

    /// Sends bytes, ends sending, and reads all that comes back.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> String {
        String::from_utf8(self.raw(bytes)).expect("text")
    }

    /// The same for bytes that may be refused half-way.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        let mut writer = stream.try_clone().expect("another handle");
        let bytes = bytes.to_vec();
        // Sent from another thread: a client that does not read while it sends much can wait for a
        // server that waits for the client.
        let sender = std::thread::spawn(move || {
            let _ = writer.write_all(&bytes);
            let _ = writer.shutdown(std::net::Shutdown::Write);
        });
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        sender.join().expect("a sender");
        answer
    }
}

impl Served {
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal.as_ref().expect("a journal").0
    }

    /// The folder of the segments.
    pub(crate) fn segments(&self) -> PathBuf {
        self.journal.as_ref().expect("a journal").1.path().join("journal")
    }

    /// All visits in the journal.
    pub(crate) fn journaled(&self) -> Vec<JournaledVisit> {
        segments::read_all(&self.segments())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.workers.stop(Duration::from_secs(10));
        if let Some((journal, _)) = &self.journal {
            journal.stop();
        }
    }
}

/// Passes visits to the handler, and answers all other requests with 418 and the request line.
#[derive(Clone)]
pub(crate) struct TestFallback(Arc<Redirector>);

impl TestFallback {
    async fn answer(
        &self,
        request: &Request<Incoming>,
        visit_handler: &VisitHandler,
    ) -> Option<Response<Full<Bytes>>> {
        let code = request
            .uri()
            .path()
            .strip_prefix('/')
            .filter(|code| Code::has_code_form(code.as_bytes()) && !is_reserved(code))?;
        matches!(*request.method(), Method::GET | Method::HEAD).then_some(())?;
        (request.uri().query() != Some("report")).then_some(())?;
        let mut hosts = request.headers().get_all("host").iter().map(http::HeaderValue::as_bytes);
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let domain = self.0.domain(authority.or(hosts.next())?)?;
        hosts.next().is_none().then_some(())?;
        let visitor = Visitor::of(request, domain, code);
        let reply = match visit_handler.answer_now(visitor) {
            // As in the server: the handler makes the page again and records its view.
            Some(Reply::Page(..)) | None => visit_handler.answer(visitor).await,
            Some(reply) => reply,
        };
        match reply {
            Reply::Response(response) => Some(response.map(Full::new)),
            Reply::Page(..) | Reply::WrongMethod => None,
        }
    }
}

impl FallbackService for TestFallback {
    type Body = Full<Bytes>;

    async fn handle(
        self,
        request: Request<Incoming>,
        _peer: SocketAddr,
        visit_handler: VisitHandler,
    ) -> Response<Full<Bytes>> {
        if let Some(response) = self.answer(&request, &visit_handler).await {
            return response;
        }
        let text = format!("hyper: {} {}", request.method(), request.uri());
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    }
}
