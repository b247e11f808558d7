//! HTTP/2, and everything else that the fast path leaves to hyper.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use terse_core::Code;
use terse_redirect::{
    FallbackService, RedirectSettings, Redirector, Reply, ServingThreads, VisitHandler, Visitor,
};

use crate::fast_path::redirector;
use crate::input::fuzz;

#[test]
fn http2() {
    // Connections that are left open go soon.
    let settings = RedirectSettings {
        threads: 1,
        header_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_secs(1),
        ..RedirectSettings::default()
    };
    let redirector = redirector(settings);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let fallback = Visits(Arc::clone(&redirector));
    let workers = ServingThreads::start(listener, redirector, fallback, None).unwrap();
    let count = AtomicU64::new(0);
    fuzz("http2", |bytes| {
        let answered = !exchange(address, bytes).is_empty();
        if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
            let request = b"GET /abc1234 HTTP/1.1\r\nHost: go.example\r\nConnection: close\r\n\r\n";
            let answer = exchange(address, request);
            assert!(answer.starts_with(b"HTTP/1.1 302"), "other visitors are served");
        }
        answered
    });
    workers.stop(Duration::from_secs(10));
}

/// Sends bytes and reads what comes back until the server closes, or is silent for a while.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Passes visits to the redirector, and answers everything else with 404.
#[derive(Clone)]
struct Visits(Arc<Redirector>);

impl FallbackService for Visits {
    type Body = Full<Bytes>;

    async fn handle(
        self,
        request: Request<Incoming>,
        _peer: SocketAddr,
        visit_handler: VisitHandler,
    ) -> Response<Full<Bytes>> {
        let code = request.uri().path().strip_prefix('/').unwrap_or_default().to_owned();
        let host = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let host = host.or(request.headers().get("host").map(http::HeaderValue::as_bytes));
        let domain = host.and_then(|host| self.0.domain(host));
        if let Some(domain) = domain.filter(|_| Code::has_code_form(code.as_bytes()))
            && let Reply::Response(response) =
                visit_handler.answer(Visitor::of(&request, domain, &code)).await
        {
            return response.map(Full::new);
        }
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }
}
