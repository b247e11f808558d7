//! Requests that leave the fast path: routes each to the redirector or to the API and pages.

mod request;
mod request_body;
mod web_plane;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::Either as Sooner;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use terse_core::{Answered, Code, Hosts, PageLanguage};
use tokio::runtime::Handle;
use tokio::task::JoinError;

use crate::fast_path::accepts_html;
use crate::redirector::{Redirector, Reply, Visitor};
use crate::serving_threads::FallbackService;
use crate::visit_handler::VisitHandler;
use request::{
    OPERATING, Purpose, answers_for_any_host, code_in, has_warning_pass, host_of, is_about_report,
    is_api_host, name_host, pass_and_query, purpose_of, target_length, with_path, without_port,
};
pub use request_body::RequestBody;
pub use web_plane::{PasswordDecision, PasswordVisit, RejectedRequest, WebPlane};

/// Where a certificate authority looks for the answer to a challenge (RFC 8555, section 8.3).
const CHALLENGES: &str = "/.well-known/acme-challenge/";
/// The longest request target.
const MAX_TARGET: usize = 8 * 1024;

/// Answers redirects on the serving thread. All other requests run on the runtime of the web
/// plane, where slow ones do not delay visitors.
pub struct HttpFallback<W>(Arc<FallbackParts<W>>);

/// What requests are answered with.
pub struct FallbackParts<W> {
    /// Answers visits.
    pub redirector: Arc<Redirector>,
    /// Serves everything except redirects.
    pub web: W,
    /// The runtime on which it does so.
    pub web_runtime: Handle,
    /// What this node serves.
    pub serves: ServedRoles,
    /// The hosts of links, API and pages.
    pub hosts: Hosts,
    /// The port of https URLs; `None` for the usual one.
    pub https_port: Option<u16>,
}

/// What a node serves.
#[derive(Clone, Copy, Debug)]
pub struct ServedRoles {
    /// Redirects.
    pub redirects: bool,
    /// The API.
    pub api: bool,
    /// The pages.
    pub pages: bool,
}

/// What a request's host is for.
#[derive(Clone, Copy)]
enum HostRole {
    /// The short domain with this number.
    Short(u16),
    /// API, sign-in and dashboard.
    Api,
}

/// A response of this crate, or of the web plane.
type FallbackResponse<W> = Response<Either<Full<Bytes>, <W as WebPlane>::Body>>;

impl<W: WebPlane> HttpFallback<W> {
    /// Routes requests between these parts.
    pub fn new(parts: FallbackParts<W>) -> Self {
        Self(Arc::new(parts))
    }
}

impl<W> Clone for HttpFallback<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: WebPlane> FallbackService for HttpFallback<W> {
    type Body = Either<Full<Bytes>, W::Body>;

    fn handle(
        self,
        request: Request<Incoming>,
        _peer: SocketAddr,
        handler: VisitHandler,
    ) -> impl Future<Output = Response<Self::Body>> + 'static {
        let request = RequestBody::of(request);
        if let Some(response) = self.0.challenge_answer(&request) {
            return Sooner::Left(std::future::ready(ours(response)));
        }
        if handler.should_redirect_to_https(request.headers())
            && let Some(response) = self.0.to_https(&request, &handler)
        {
            return Sooner::Left(std::future::ready(ours(response)));
        }
        // Most requests are answered from memory without waiting; only the others need a boxed
        // future.
        if let Some(response) = self.0.open_now(&request, &handler) {
            return Sooner::Left(std::future::ready(ours(response)));
        }
        let (method, id) =
            (request.method().clone(), request.headers().get("x-request-id").cloned());
        Sooner::Right(Box::pin(async move {
            let (head, body) = self.0.open(request, handler).await.into_parts();
            match body {
                Either::Left(body) => Response::from_parts(head, Either::Left(body)),
                Either::Right(body) => {
                    let mut response = Response::from_parts(head, body);
                    self.0.web.complete(&method, id, &mut response);
                    response.map(Either::Right)
                }
            }
        }))
    }
}

impl<W: WebPlane> FallbackParts<W> {
    /// The answer to a challenge of a certificate authority, with or without https.
    fn challenge_answer(&self, request: &Request<RequestBody>) -> Option<Response<Bytes>> {
        let token = request.uri().path().strip_prefix(CHALLENGES)?;
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let mut response = Response::new(self.web.challenge_answer(token)?);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Some(response)
    }

    /// The redirect to https of a request without it; `None` for health checks, for what any host
    /// answers, for commands on this machine, and for requests that are refused.
    fn to_https(
        &self,
        request: &Request<RequestBody>,
        handler: &VisitHandler,
    ) -> Option<Response<Bytes>> {
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
        // Every client understands 301; 308 keeps other methods from becoming GET. Not cached,
        // because a browser that caches it would ignore a later change; `tls.hsts` is for that.
        let status = match *request.method() {
            Method::GET | Method::HEAD => StatusCode::MOVED_PERMANENTLY,
            _ => StatusCode::PERMANENT_REDIRECT,
        };
        redirect(status, &format!("https://{host}{port}{target}"))
    }

    /// Answers visits of cached links, and of root paths that redirect.
    fn open_now(
        &self,
        request: &Request<RequestBody>,
        handler: &VisitHandler,
    ) -> Option<Response<Bytes>> {
        let get = matches!(*request.method(), Method::GET | Method::HEAD)
            && request.uri().query() != Some("report");
        if !get || !self.serves.redirects {
            return None;
        }
        if request.uri().path() == "/" {
            let HostRole::Short(domain) = self.check(request).ok()? else { return None };
            return self.redirector.root(domain);
        }
        let code = code_in(request.uri().path()).ok().flatten()?;
        let HostRole::Short(domain) = self.check(request).ok()? else { return None };
        match handler.answer_now(Visitor::of(request, domain, &code))? {
            Reply::Response(response) => Some(response),
            Reply::Page(..) | Reply::WrongMethod => None,
        }
    }

    async fn open(
        &self,
        mut request: Request<RequestBody>,
        handler: VisitHandler,
    ) -> FallbackResponse<W> {
        let page = preferred_page(&request);
        let place = match self.check(&request) {
            Ok(place) => place,
            Err(rejected) => return self.refuse(&rejected, page),
        };
        if let Some(response) = self.on_another_host(&request, place, &handler) {
            return response;
        }
        let HostRole::Short(domain) = place else {
            return self.ask_web(request, &handler, None).await;
        };
        let code = match code_in(request.uri().path()) {
            Ok(code) => code,
            Err(rejected) => return self.refuse(&rejected, page),
        };
        if let Some(code) = code.as_ref().filter(|_| is_about_report(&request)) {
            // A report must not follow the link.
            let path = format!("/r/{code}/report");
            return self.ask_web(with_path(request, &path), &handler, None).await;
        }
        if let Some(code) = has_warning_pass(&request).filter(|_| self.serves.redirects) {
            return self.go_on(request.map(|_| ()), domain, code, handler).await;
        }
        let Some(code) = code.filter(|_| self.serves.redirects) else {
            return self.ask_web(request, &handler, None).await;
        };
        // The body of a request that is redirected is not read.
        match handler.answer(Visitor::of(&request, domain, &code)).await {
            Reply::Response(response) => ours(response),
            Reply::WrongMethod => self.wrong_method(page),
            Reply::Page(Answered::PasswordAsked, own) if request.method() == Method::POST => {
                let (head, form) = request.into_parts();
                let request = Request::from_parts(head, ());
                self.answer_with_password(request, form, domain, own, handler).await
            }
            Reply::Page(Answered::Warned, code) => {
                let path = format!("/r/{code}");
                if request.method() != Method::HEAD {
                    *request.method_mut() = Method::GET;
                }
                // The warning page needs the query: rules may test it, and the link may forward it.
                let query = request.uri().query().unwrap_or_default().to_owned();
                self.ask_web(with_path(request, &path), &handler, Some(query)).await
            }
            Reply::Page(_, own) => {
                let code = code.into_owned();
                self.answer_with_cookie(request.map(|_| ()), domain, &code, own, handler).await
            }
        }
    }

    /// A visitor goes on from the warning page. Without a valid pass the visitor is sent to the
    /// link again, which answers by its present status.
    async fn go_on(
        &self,
        request: Request<()>,
        domain: u16,
        code: Code,
        handler: VisitHandler,
    ) -> FallbackResponse<W> {
        let (pass, query) = pass_and_query(request.uri().query().unwrap_or_default());
        if !self.web.has_warning_pass(&password_visit(&request, code.clone(), &handler), pass) {
            return see_other(&code);
        }
        let visitor = Visitor::of(&request, domain, code.as_str()).past_warning(query);
        let mut response = match handler.answer(visitor).await {
            Reply::Response(response) => ours(response),
            Reply::WrongMethod => self.wrong_method(preferred_page(&request)),
            // The link has a password, or its rules wait for something.
            Reply::Page(_, own) => {
                let visit = password_visit(&request, own, &handler);
                match self.web_runtime.spawn(self.web.check_cookie(visit)).await {
                    Ok(PasswordDecision::Open { knows, .. }) => {
                        let visitor = Visitor { password: Some(&knows), ..visitor };
                        match handler.answer(visitor).await {
                            Reply::Response(response) => ours(response),
                            _ => see_other(&code),
                        }
                    }
                    _ => see_other(&code),
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
    ) -> FallbackResponse<W> {
        let visit = password_visit(&request, own, &handler);
        let decision = self.web_runtime.spawn(self.web.check_cookie(visit)).await;
        let (visitor, page) = (Visitor::of(&request, domain, code), preferred_page(&request));
        let reply = match &decision {
            Ok(PasswordDecision::Open { knows, .. }) => {
                handler.answer(Visitor { password: Some(knows), ..visitor }).await
            }
            // The link has just lost its password.
            Ok(PasswordDecision::NoPassword) => handler.answer(visitor).await,
            Ok(PasswordDecision::Closed(_)) | Err(_) => return self.closed(decision, page),
        };
        match reply {
            Reply::Response(response) => ours(response),
            Reply::WrongMethod => self.wrong_method(page),
            // The link changed in between; the next request sees the change.
            Reply::Page(_, own) => see_other(&own),
        }
    }

    /// A visitor sends a password: the right one leads to the target and sets an access cookie.
    async fn answer_with_password(
        &self,
        request: Request<()>,
        form: RequestBody,
        domain: u16,
        own: Code,
        handler: VisitHandler,
    ) -> FallbackResponse<W> {
        let visit = password_visit(&request, own.clone(), &handler);
        let decision = self.web_runtime.spawn(self.web.check_password(visit, form)).await;
        let page = preferred_page(&request);
        let Ok(PasswordDecision::Open { knows, pass }) = decision else {
            return self.closed(decision, page);
        };
        let visitor =
            Visitor { password: Some(&knows), ..Visitor::of(&request, domain, own.as_str()) };
        let mut response = match handler.answer(visitor).await {
            Reply::Response(mut response) => {
                // Always 303, so that the browser does not post the password to the target.
                if response.status().is_redirection() {
                    *response.status_mut() = StatusCode::SEE_OTHER;
                }
                ours(response)
            }
            Reply::Page(_, own) => see_other(&own),
            Reply::WrongMethod => self.wrong_method(page),
        };
        if let Some(pass) = pass.filter(|_| response.status().is_redirection()) {
            response.headers_mut().insert(header::SET_COOKIE, pass);
        }
        response
    }

    /// The answer to a visitor without the password.
    fn closed(
        &self,
        decision: Result<PasswordDecision<W::Body>, JoinError>,
        page: Option<PageLanguage>,
    ) -> FallbackResponse<W> {
        match decision {
            Ok(PasswordDecision::Closed(response)) => response.map(Either::Right),
            Ok(PasswordDecision::Open { .. } | PasswordDecision::NoPassword) => {
                self.wrong_method(page)
            }
            Err(error) => self.failed(&error, page),
        }
    }

    /// The answer to a request for something that another host serves: API and dashboard on a
    /// short domain, or a link on the host of the API. `None` if this host serves it.
    fn on_another_host(
        &self,
        request: &Request<RequestBody>,
        place: HostRole,
        handler: &VisitHandler,
    ) -> Option<FallbackResponse<W>> {
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
                return redirect(StatusCode::FOUND, &home).map(ours);
            }
            (HostRole::Short(_), Purpose::Control) => "this host serves links only",
            (HostRole::Api, Purpose::Link) => "this host serves no links",
        };
        let rejected = RejectedRequest::new(StatusCode::NOT_FOUND, "not_found", detail);
        Some(self.refuse(&rejected, preferred_page(request)))
    }

    /// Whether a request comes from this machine and addresses it by a local name, as commands do.
    fn is_local(&self, request: &Request<RequestBody>, handler: &VisitHandler) -> bool {
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
    fn check(&self, request: &Request<RequestBody>) -> Result<HostRole, RejectedRequest> {
        let refuse = |status, code, detail: &str| Err(RejectedRequest::new(status, code, detail));
        let headers = request.headers();
        if target_length(request.uri()) > MAX_TARGET {
            return refuse(
                StatusCode::URI_TOO_LONG,
                "target_too_long",
                "an address has at most 8,192 bytes",
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
                // The message does not repeat the requested host, because a client can send any
                // text.
                let detail = format!(
                    "This server answers for {}, and not for the host that you asked for. To allow \
                     that host, set base_url or domains, or add it as a domain.",
                    self.hosts.primary_host()
                );
                Err(RejectedRequest::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", detail))
            }
        }
    }

    /// The answer of the web plane. A panic there becomes an error response here.
    async fn ask_web(
        &self,
        mut request: Request<RequestBody>,
        handler: &VisitHandler,
        forwarded_query: Option<String>,
    ) -> FallbackResponse<W> {
        // The client's address, not that of a proxy.
        let (client, page) = (handler.client(request.headers()), preferred_page(&request));
        // A visitor must not choose what is traced.
        if !handler.is_trusted_proxy() {
            request.headers_mut().remove("traceparent");
        }
        let uri = request.uri().clone();
        name_host(&uri, request.headers_mut());
        let api = uri.path().starts_with("/api/") || uri.path() == "/openapi.json";
        let health = OPERATING.contains(&uri.path());
        if !health && !(if api { self.serves.api } else { self.serves.pages }) {
            let missing = match api {
                true => "this node does not serve the API: its setting `roles` leaves out `api`",
                false => "this node does not serve pages: its setting `roles` leaves out `web`",
            };
            let rejected = RejectedRequest::new(StatusCode::NOT_FOUND, "not_found", missing);
            return self.refuse(&rejected, page);
        }
        let answer = self.web.answer(request, client, forwarded_query);
        match self.web_runtime.spawn(answer).await {
            Ok(response) => response.map(Either::Right),
            Err(error) => self.failed(&error, page),
        }
    }

    fn refuse(
        &self,
        rejected: &RejectedRequest,
        page: Option<PageLanguage>,
    ) -> FallbackResponse<W> {
        self.web.refuse(rejected, page).map(Either::Right)
    }

    fn failed(&self, error: &JoinError, page: Option<PageLanguage>) -> FallbackResponse<W> {
        tracing::error!(%error, "a request could not be finished");
        let detail = "something went wrong on our side; it was logged";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        self.refuse(&RejectedRequest::new(status, "internal_error", detail), page)
    }

    fn wrong_method(&self, page: Option<PageLanguage>) -> FallbackResponse<W> {
        let (status, detail) = (StatusCode::METHOD_NOT_ALLOWED, "this link answers GET and HEAD");
        let mut answer =
            self.refuse(&RejectedRequest::new(status, "method_not_allowed", detail), page);
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        answer
    }
}

/// A response of this crate.
fn ours<B>(response: Response<Bytes>) -> Response<Either<Full<Bytes>, B>> {
    response.map(|body| Either::Left(Full::new(body)))
}

/// A redirect that is not cached; `None` if the location cannot be a header.
fn redirect(status: StatusCode, location: &str) -> Option<Response<Bytes>> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_str(location).ok()?);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}

/// Sends the visitor to the link again.
fn see_other<B>(code: &Code) -> Response<Either<Full<Bytes>, B>> {
    ours(redirect(StatusCode::SEE_OTHER, &format!("/{code}")).unwrap_or_default())
}

/// The language of the page for a client that prefers pages to problem documents, as browsers do.
fn preferred_page<B>(request: &Request<B>) -> Option<PageLanguage> {
    let accepts = request.headers().get_all(header::ACCEPT).iter();
    let html = accepts.map(HeaderValue::as_bytes).any(accepts_html);
    let languages = request.headers().get(header::ACCEPT_LANGUAGE);
    let languages = languages.map(HeaderValue::as_bytes).unwrap_or_default();
    html.then(|| PageLanguage::preferred(languages))
}

/// Describes a visit of a link with a password.
fn password_visit(request: &Request<()>, code: Code, handler: &VisitHandler) -> PasswordVisit {
    let mut headers = request.headers().clone();
    name_host(request.uri(), &mut headers);
    let client = handler.client(&headers);
    let uri: Uri = request.uri().clone();
    PasswordVisit { code, uri, client, headers, html: preferred_page(request).is_some() }
}
