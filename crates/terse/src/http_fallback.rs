//! Requests that leave the fast path: routes each to the redirector or to the API and pages.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::Either as Sooner;
use http::{HeaderValue, Method, Request, StatusCode, Uri, Version, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use terse_core::{Answered, Code, Hosts, is_reserved};
use terse_redirect::fast_path::accepts_html;
use terse_redirect::{Redirector, Reply, VisitHandler, Visitor};
use terse_server::{GateDecision, PasswordGate, PasswordRequest, RefusalPages};
use tokio::runtime::Handle;
use tower::ServiceExt as _;

use crate::config::Roles;

/// The longest request target.
const MAX_TARGET: usize = 8 * 1024;
/// Probes address a node by its IP address.
const OPERATING: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// Answers redirects on the serving thread. All other requests run on the back-office runtime,
/// where slow ones do not delay visitors.
#[derive(Clone)]
pub(crate) struct HttpFallback(Arc<FallbackParts>);

/// What requests are answered with.
pub(crate) struct FallbackParts {
    pub(crate) redirector: Arc<Redirector>,
    /// Serves everything except redirects.
    pub(crate) web: Router,
    pub(crate) password_gate: PasswordGate,
    pub(crate) control_runtime: Handle,
    pub(crate) roles: Roles,
    pub(crate) hosts: Hosts,
    pub(crate) pages: RefusalPages,
    /// The port of https URLs; `None` for the usual one.
    pub(crate) https_port: Option<u16>,
}

/// What a request's host is for.
#[derive(Clone, Copy)]
enum HostRole {
    /// The short domain with this number.
    Short(u16),
    /// API, sign-in and dashboard.
    Api,
}

/// What a path is for. It matters where API and dashboard have a host of their own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Purpose {
    /// A link, its pages, or the page of a failed visit.
    Link,
    /// What every host needs: style sheets, icons, contacts, health.
    Common,
    /// API, sign-in and dashboard.
    Control,
}

impl HttpFallback {
    pub(crate) fn new(parts: FallbackParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl terse_redirect::FallbackService for HttpFallback {
    type Body = Either<Full<Bytes>, Body>;

    fn handle(
        self,
        mut request: Request<Incoming>,
        _peer: SocketAddr,
        handler: VisitHandler,
    ) -> impl Future<Output = Response<Self::Body>> + 'static {
        if handler.lacks_https(request.headers())
            && let Some(response) = self.0.to_https(&request, &handler)
        {
            return Sooner::Left(std::future::ready(response.map(Either::Right)));
        }
        // Most requests are answered from memory without waiting; only the others need a boxed
        // future.
        if let Some(response) = self.0.open_now(&request, &handler) {
            return Sooner::Left(std::future::ready(response));
        }
        // The client's address, not that of a proxy.
        let client = handler.client(request.headers());
        request.extensions_mut().insert(terse_server::Peer(client));
        Sooner::Right(Box::pin(async move { self.0.open(request, handler).await }))
    }
}

/// A request that is refused before routing: the status, the stable code and the detail.
struct Refused(StatusCode, &'static str, String);

impl Refused {
    /// A page for a browser, and a problem document for any other client.
    fn answer(self, pages: Option<&RefusalPages>) -> Response {
        let Some(pages) = pages else { return self.into_response() };
        let Self(status, _, detail) = self;
        let hint = match status {
            StatusCode::MISDIRECTED_REQUEST => {
                "If you run this server: set base_url to the address in your browser's address \
                 bar (as TERSE_BASE_URL or in terse.toml), or add its host to domains, and start \
                 terse again."
            }
            _ => "Check the address where you found it.",
        };
        let mut response = pages.page(status, &detail, hint);
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        response
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, code, detail) = self;
        let title = status.canonical_reason().unwrap_or_default();
        let problem = serde_json::json!({
            "type": "about:blank", "title": title, "status": status.as_u16(), "code": code,
            "detail": detail, "field": null,
        });
        let headers = [
            (header::CONTENT_TYPE, "application/problem+json"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        (status, headers, problem.to_string()).into_response()
    }
}

impl FallbackParts {
    /// The redirect to https of a request without it; `None` for health checks, for what any host
    /// answers, for commands on this machine, and for requests that are refused.
    fn to_https(&self, request: &Request<Incoming>, handler: &VisitHandler) -> Option<Response> {
        let path = request.uri().path();
        if answers_for_any_host(path) || self.is_local(request, handler) {
            return None;
        }
        self.check(request).ok()?;
        let host = host_of(request).map_or(Ok(self.hosts.primary_host()), std::str::from_utf8);
        let host = without_port(host.ok()?);
        let port = self.https_port.map(|port| format!(":{port}")).unwrap_or_default();
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let target = if target == "*" { "/" } else { target };
        let location = format!("https://{host}{port}{target}");
        // 301 is for every client; other methods must not become GET.
        let status = match *request.method() {
            Method::GET | Method::HEAD => StatusCode::MOVED_PERMANENTLY,
            _ => StatusCode::PERMANENT_REDIRECT,
        };
        // A browser that keeps it could not be told otherwise later; `tls.hsts` is for that.
        let fields = [(header::LOCATION, location), (header::CACHE_CONTROL, "no-store".to_owned())];
        Some((status, fields).into_response())
    }

    /// Answers visits of cached links, and of root paths that redirect.
    fn open_now(
        &self,
        request: &Request<Incoming>,
        handler: &VisitHandler,
    ) -> Option<Response<Either<Full<Bytes>, Body>>> {
        let get = matches!(*request.method(), Method::GET | Method::HEAD)
            && request.uri().query() != Some("report");
        if !get || !self.roles.redirect {
            return None;
        }
        if request.uri().path() == "/" {
            let HostRole::Short(domain) = self.check(request).ok()? else { return None };
            let elsewhere = self.redirector.root(domain)?;
            return Some(elsewhere.map(|body| Either::Left(Full::new(body))));
        }
        let code = code_in(request.uri().path()).ok().flatten()?;
        let HostRole::Short(domain) = self.check(request).ok()? else { return None };
        match handler.answer_now(Visitor::of(request, domain, &code))? {
            Reply::Response(response) => Some(response.map(|body| Either::Left(Full::new(body)))),
            Reply::Page(..) | Reply::WrongMethod => None,
        }
    }

    async fn open(
        &self,
        mut request: Request<Incoming>,
        handler: VisitHandler,
    ) -> Response<Either<Full<Bytes>, Body>> {
        let place = match self.check(&request) {
            Ok(place) => place,
            Err(refused) => return refused.answer(self.pages_for(&request)).map(Either::Right),
        };
        if let Some(response) = self.on_another_host(&request, place, &handler) {
            return response.map(Either::Right);
        }
        let HostRole::Short(domain) = place else {
            return self.control_runtime(request).await.map(Either::Right);
        };
        let code = match code_in(request.uri().path()) {
            Ok(code) => code,
            Err(refused) => return refused.answer(self.pages_for(&request)).map(Either::Right),
        };
        if let Some(code) = code.as_ref().filter(|_| is_about_report(&request)) {
            // A report must not follow the link.
            let page = format!("/r/{code}/report");
            return self.control_runtime(elsewhere(request, &page)).await.map(Either::Right);
        }
        if let Some(code) = goes_on(&request).filter(|_| self.roles.redirect) {
            return self.go_on(request.map(|_| ()), domain, code, handler).await;
        }
        let Some(code) = code.filter(|_| self.roles.redirect) else {
            return self.control_runtime(request).await.map(Either::Right);
        };
        // The body of a request that is redirected is not read.
        match handler.answer(Visitor::of(&request, domain, &code)).await {
            Reply::Response(response) => response.map(|body| Either::Left(Full::new(body))),
            Reply::WrongMethod => wrong_method(self.pages_for(&request)).map(Either::Right),
            Reply::Page(Answered::PasswordAsked, own) if request.method() == Method::POST => {
                let (head, body) = request.into_parts();
                self.answer_with_password(
                    Request::from_parts(head, ()),
                    Body::new(body),
                    domain,
                    own,
                    handler,
                )
                .await
            }
            Reply::Page(Answered::Warned, code) => {
                let page = format!("/r/{code}");
                if request.method() != Method::HEAD {
                    *request.method_mut() = Method::GET;
                }
                // The warning page needs the query: rules may test it, and the link may forward it.
                let brought = request.uri().query().unwrap_or_default().to_owned();
                request.extensions_mut().insert(terse_server::ForwardedQuery(brought));
                self.control_runtime(elsewhere(request, &page)).await.map(Either::Right)
            }
            Reply::Page(_, own) => {
                let code = code.into_owned();
                self.answer_with_cookie(request.map(|_| ()), domain, &code, own, handler).await
            }
        }
    }

    /// A visitor goes on from the warning page. Without a valid pass the link is visited again, and
    /// shows what it is now.
    async fn go_on(
        &self,
        request: Request<()>,
        domain: u16,
        code: Code,
        handler: VisitHandler,
    ) -> Response<Either<Full<Bytes>, Body>> {
        let (pass, query) = pass_and_query(request.uri().query().unwrap_or_default());
        if !self.password_gate.goes_on(&password_request(&request, code.clone(), &handler), pass) {
            return see_other(&code).map(Either::Right);
        }
        let visitor = Visitor::of(&request, domain, code.as_str()).past_warning(query);
        let mut response = match handler.answer(visitor).await {
            Reply::Response(response) => response.map(|body| Either::Left(Full::new(body))),
            Reply::WrongMethod => wrong_method(self.pages_for(&request)).map(Either::Right),
            // The link has a password, or its rules wait for something.
            Reply::Page(_, own) => {
                let (password_gate, password_request) =
                    (self.password_gate.clone(), password_request(&request, own, &handler));
                let gate = self
                    .control_runtime
                    .spawn(async move { password_gate.check_cookie(password_request).await });
                match gate.await {
                    Ok(GateDecision::Open { knows, .. }) => {
                        let visitor = Visitor { password: Some(&knows), ..visitor };
                        match handler.answer(visitor).await {
                            Reply::Response(response) => {
                                response.map(|body| Either::Left(Full::new(body)))
                            }
                            _ => see_other(&code).map(Either::Right),
                        }
                    }
                    _ => see_other(&code).map(Either::Right),
                }
            }
        };
        let none = HeaderValue::from_static("no-referrer");
        response.headers_mut().insert(header::REFERRER_POLICY, none);
        response
    }

    /// A visitor of a link with a password: a valid access cookie leads to the target.
    async fn answer_with_cookie(
        &self,
        request: Request<()>,
        domain: u16,
        code: &str,
        own: Code,
        handler: VisitHandler,
    ) -> Response<Either<Full<Bytes>, Body>> {
        let (password_gate, password_request) =
            (self.password_gate.clone(), password_request(&request, own, &handler));
        let gate = self
            .control_runtime
            .spawn(async move { password_gate.check_cookie(password_request).await })
            .await;
        let visitor = Visitor::of(&request, domain, code);
        let reply = match &gate {
            Ok(GateDecision::Open { knows, .. }) => {
                handler.answer(Visitor { password: Some(knows), ..visitor }).await
            }
            // The link has just lost its password.
            Ok(GateDecision::None) => handler.answer(visitor).await,
            Ok(GateDecision::Closed(_)) | Err(_) => {
                return self.closed(gate, self.pages_for(&request)).map(Either::Right);
            }
        };
        match reply {
            Reply::Response(response) => response.map(|body| Either::Left(Full::new(body))),
            Reply::WrongMethod => wrong_method(self.pages_for(&request)).map(Either::Right),
            // The link changed in between; the next request sees the change.
            Reply::Page(_, own) => see_other(&own).map(Either::Right),
        }
    }

    /// A visitor sends a password: the right one leads to the target and sets an access cookie.
    async fn answer_with_password(
        &self,
        request: Request<()>,
        body: Body,
        domain: u16,
        own: Code,
        handler: VisitHandler,
    ) -> Response<Either<Full<Bytes>, Body>> {
        let (password_gate, password_request) =
            (self.password_gate.clone(), password_request(&request, own.clone(), &handler));
        let gate = self
            .control_runtime
            .spawn(async move { password_gate.check_password(password_request, body).await })
            .await;
        let Ok(GateDecision::Open { knows, pass }) = gate else {
            return self.closed(gate, self.pages_for(&request)).map(Either::Right);
        };
        let visitor =
            Visitor { password: Some(&knows), ..Visitor::of(&request, domain, own.as_str()) };
        let mut response = match handler.answer(visitor).await {
            Reply::Response(mut response) => {
                // Always 303, so that the browser does not post the password to the target.
                if response.status().is_redirection() {
                    *response.status_mut() = StatusCode::SEE_OTHER;
                }
                response.map(|body| Either::Left(Full::new(body)))
            }
            Reply::Page(_, own) => see_other(&own).map(Either::Right),
            Reply::WrongMethod => wrong_method(self.pages_for(&request)).map(Either::Right),
        };
        if let Some(pass) = pass.filter(|_| response.status().is_redirection()) {
            response.headers_mut().insert(header::SET_COOKIE, pass);
        }
        response
    }

    /// The answer to a visitor without the password.
    fn closed(
        &self,
        gate: Result<GateDecision, tokio::task::JoinError>,
        pages: Option<&RefusalPages>,
    ) -> Response {
        match gate {
            Ok(GateDecision::Closed(response)) => response,
            Ok(GateDecision::Open { .. } | GateDecision::None) => wrong_method(pages),
            Err(error) => failed(&error, pages),
        }
    }

    /// The pages, if the client prefers a page to a problem document, as browsers do.
    fn pages_for<B>(&self, request: &Request<B>) -> Option<&RefusalPages> {
        let accepts = request.headers().get_all(header::ACCEPT).iter();
        accepts.map(HeaderValue::as_bytes).any(accepts_html).then_some(&self.pages)
    }

    /// The answer to a request for something that another host serves: API and dashboard on a
    /// short domain, or a link on the host of the API. `None` if this host serves it.
    fn on_another_host(
        &self,
        request: &Request<Incoming>,
        place: HostRole,
        handler: &VisitHandler,
    ) -> Option<Response> {
        self.hosts.api_host()?;
        let path = request.uri().path();
        let detail = match (place, purpose_of(path)) {
            (_, Purpose::Common) | (HostRole::Short(_), Purpose::Link) => return None,
            (HostRole::Api, Purpose::Control) => return None,
            (HostRole::Short(_), Purpose::Control) if self.is_local(request, handler) => {
                return None;
            }
            // A short domain without a page of its own leads to the home page.
            (HostRole::Short(_), Purpose::Control)
                if path == "/" && matches!(*request.method(), Method::GET | Method::HEAD) =>
            {
                let home = format!("{}/", self.hosts.api_base());
                let fields =
                    [(header::LOCATION, home), (header::CACHE_CONTROL, "no-store".to_owned())];
                return Some((StatusCode::FOUND, fields).into_response());
            }
            (HostRole::Short(_), Purpose::Control) => "this host serves links only",
            (HostRole::Api, Purpose::Link) => "this host serves no links",
        };
        let refused = Refused(StatusCode::NOT_FOUND, "not_found", detail.to_owned());
        Some(refused.answer(self.pages_for(request)))
    }

    /// Whether a request comes from this machine and addresses it by a local name, as commands do.
    fn is_local(&self, request: &Request<Incoming>, handler: &VisitHandler) -> bool {
        let client = handler.client(request.headers());
        let text = match client {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let host = host_of(request).and_then(|host| std::str::from_utf8(host).ok());
        (client.to_canonical().is_loopback() || self.hosts.is_local_name(&text))
            && host.is_some_and(|host| self.hosts.is_local_name(without_port(host)))
    }

    /// What the request's host is for.
    fn check(&self, request: &Request<Incoming>) -> Result<HostRole, Refused> {
        let refuse = |status, code, detail: &str| Err(Refused(status, code, detail.to_owned()));
        let headers = request.headers();
        if target_length(request.uri()) > MAX_TARGET {
            return refuse(
                StatusCode::URI_TOO_LONG,
                "target_too_long",
                "an address has at most 8,192 octets",
            );
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        if hosts.nth(1).is_some() {
            return refuse(StatusCode::BAD_REQUEST, "invalid_request", "there is one Host field");
        }
        let host = match host_of(request) {
            Some(host) => host,
            None if request.version() == Version::HTTP_10 => self.hosts.primary_host().as_bytes(),
            None => {
                return refuse(
                    StatusCode::BAD_REQUEST,
                    "invalid_request",
                    "a Host field is needed",
                );
            }
        };
        match self.redirector.domain(host) {
            Some(domain) => Ok(HostRole::Short(domain)),
            None if is_api_host(&self.hosts, host) => Ok(HostRole::Api),
            None if answers_for_any_host(request.uri().path()) => Ok(HostRole::Short(0)),
            None => {
                // The host that was asked for is not repeated: anyone can send any.
                let detail = format!(
                    "This server answers for {}, and not for the host that you asked for. To allow \
                     that host, set base_url or domains, or add it as a domain.",
                    self.hosts.primary_host()
                );
                Err(Refused(StatusCode::MISDIRECTED_REQUEST, "unknown_host", detail))
            }
        }
    }

    /// Runs everything except redirects. A panic there becomes an error response here.
    async fn control_runtime(&self, mut request: Request<Incoming>) -> Response {
        let uri = request.uri().clone();
        name_host(&uri, request.headers_mut());
        let api =
            request.uri().path().starts_with("/api/") || request.uri().path() == "/openapi.json";
        let health = OPERATING.contains(&request.uri().path());
        if !health && !(if api { self.roles.api } else { self.roles.web }) {
            let missing = match api {
                true => "this node does not serve the API: its setting `roles` leaves out `api`",
                false => "this node does not serve pages: its setting `roles` leaves out `web`",
            };
            return Refused(StatusCode::NOT_FOUND, "not_found", missing.into())
                .answer(self.pages_for(&request));
        }
        let pages = self.pages_for(&request);
        let answer = self.control_runtime.spawn(self.web.clone().oneshot(request.map(Body::new)));
        match answer.await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(error) => failed(&error, pages),
        }
    }
}

/// The host that a request names: the authority of an absolute target, or of HTTP/2, comes before
/// the field.
fn host_of<B>(request: &Request<B>) -> Option<&[u8]> {
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    authority.or_else(|| request.headers().get(header::HOST).map(HeaderValue::as_bytes))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

fn is_api_host(hosts: &Hosts, host: &[u8]) -> bool {
    std::str::from_utf8(host).is_ok_and(|host| hosts.is_api_host(without_port(host)))
}

/// What a path is for, by its first segment.
fn purpose_of(path: &str) -> Purpose {
    let common = ["/favicon.ico", "/robots.txt", "/.well-known/security.txt"];
    if answers_for_any_host(path) || common.contains(&path) {
        return Purpose::Common;
    }
    let first = path.strip_prefix('/').unwrap_or_default().split('/').next().unwrap_or_default();
    let first = percent_decode_str(first).decode_utf8_lossy();
    let code = first.strip_suffix('+').unwrap_or(&first);
    let is_link = Code::shaped(code.as_bytes()) && !is_reserved(code);
    let is_page = first == "r" && path.len() > "/r/".len();
    if is_link || is_page { Purpose::Link } else { Purpose::Control }
}

/// Whether a path is answered for any `Host`: health checks, and the style sheet of the page for an
/// unknown host.
fn answers_for_any_host(path: &str) -> bool {
    OPERATING.contains(&path) || path.starts_with("/assets/") || path == "/favicon.svg"
}

fn failed(error: &tokio::task::JoinError, pages: Option<&RefusalPages>) -> Response {
    tracing::error!(%error, "a request could not be finished");
    let detail = "something went wrong on our side; it was logged".to_owned();
    Refused(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", detail).answer(pages)
}

fn wrong_method(pages: Option<&RefusalPages>) -> Response {
    let refused = Refused(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this link answers GET and HEAD".into(),
    );
    ([(header::ALLOW, "GET, HEAD")], refused.answer(pages)).into_response()
}

fn see_other(code: &Code) -> Response {
    let fields =
        [(header::LOCATION, format!("/{code}")), (header::CACHE_CONTROL, "no-store".to_owned())];
    (StatusCode::SEE_OTHER, fields).into_response()
}

/// Describes a request for a link with a password.
fn password_request(request: &Request<()>, code: Code, handler: &VisitHandler) -> PasswordRequest {
    let mut headers = request.headers().clone();
    name_host(request.uri(), &mut headers);
    let html = Visitor::of(request, 0, "").html;
    PasswordRequest {
        code,
        uri: request.uri().clone(),
        client: handler.client(&headers),
        headers,
        html,
    }
}

/// Copies the authority of an absolute target, or of HTTP/2, to `Host`, where handlers look for it.
fn name_host(uri: &Uri, headers: &mut http::HeaderMap) {
    if let Some(host) =
        uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
    {
        headers.insert(header::HOST, host);
    }
}

/// The code in a path of one segment, percent-decoded once; `None` if the path cannot be a link.
fn code_in(path: &str) -> Result<Option<Cow<'_, str>>, Refused> {
    let escaped =
        |detail: &str| Refused(StatusCode::BAD_REQUEST, "invalid_request", detail.to_owned());
    if path.contains('%') {
        let mut rest = path;
        while let Some((_, after)) = rest.split_once('%') {
            if !after.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)) {
                return Err(escaped(
                    "a percent sign in a path is followed by two hexadecimal digits",
                ));
            }
            rest = after;
        }
    }
    let segment = path.strip_prefix('/').unwrap_or_default();
    let decoded =
        percent_decode_str(segment).decode_utf8().map_err(|_| escaped("a path is UTF-8"))?;
    Ok((Code::shaped(decoded.as_bytes()) && !is_reserved(&decoded)).then_some(decoded))
}

/// The code of a link in `/{code}/go`, where its warning page leads.
fn goes_on<B>(request: &Request<B>) -> Option<Code> {
    let get = matches!(*request.method(), Method::GET | Method::HEAD);
    let code = request.uri().path().strip_prefix('/')?.strip_suffix("/go").filter(|_| get)?;
    Code::parse(code).filter(|code| !is_reserved(code.as_str()))
}

/// The pass, and the query that came with the visit, in the query of `/{code}/go`.
fn pass_and_query(query: &str) -> (&str, Option<&str>) {
    let (pass, rest) = match query.split_once('&') {
        Some((pass, rest)) => (pass, Some(rest)),
        None => (query, None),
    };
    (pass.strip_prefix("pass=").unwrap_or_default(), rest)
}

/// Whether the request shows or sends the form that reports a link.
fn is_about_report(request: &Request<Incoming>) -> bool {
    request.uri().query() == Some("report")
        && matches!(*request.method(), Method::GET | Method::HEAD | Method::POST)
}

fn target_length(uri: &Uri) -> usize {
    uri.path_and_query().map_or(0, |target| target.as_str().len())
}

/// The same request for another path.
fn elsewhere(mut request: Request<Incoming>, path: &str) -> Request<Incoming> {
    let mut state = request.uri().clone().into_parts();
    state.path_and_query = path.parse().ok();
    if let Ok(uri) = Uri::from_parts(state) {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_a_link_to_every_host_or_to_the_dashboard() {
        for (purpose, paths) in [
            (
                Purpose::Link,
                &["/x7Kq", "/a", "/x7Kq+", "/x7Kq%2B", "/x7Kq/qr", "/x7Kq/go", "/r/x7Kq"][..],
            ),
            (
                Purpose::Common,
                &["/assets/a.css", "/favicon.ico", "/favicon.svg", "/robots.txt", "/readyz"],
            ),
            (
                Purpose::Control,
                &["/", "/api/v1/urls", "/%61pi/v1/urls", "/API/v1", "/openapi.json", "/login"],
            ),
            (Purpose::Control, &["/links", "/account/keys", "/auth/oidc", "/r", "//x7Kq", "*"]),
        ] {
            for path in paths {
                assert_eq!(purpose_of(path), purpose, "{path}");
            }
        }
    }

    #[test]
    fn a_code_is_unescaped_once_and_must_be_the_whole_path() {
        let code = |path| code_in(path).map_err(|refused| refused.0);
        assert_eq!(code("/%6Fk1234"), Ok(Some("ok1234".into())));
        assert_eq!(code("/a"), Ok(Some("a".into())));
        for path in [
            "/",
            "/r",
            "/ok1234/",
            "/ok1234%2F",
            "/ok1234%252e",
            "//ok1234",
            "/login",
            "/ok1234+",
            "/%E2%80%AEok1234",
            "*",
        ] {
            assert_eq!(code(path), Ok(None), "{path}");
        }
        for path in ["/%", "/%4", "/%zz", "/%c0%af", "/%ed%a0%80"] {
            assert_eq!(code(path), Err(StatusCode::BAD_REQUEST), "{path}");
        }
    }
}
