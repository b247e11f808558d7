//! The router: every route of the web plane, and the layer that wraps each response.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use terse_core::TRACE_TARGET;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::http::problem::{self, Problem, SentBody};
use crate::http::request_id::{self, RequestId, RequestLog};
use crate::http::state::{App, AppState, Web};
use crate::pages::{PageFrame, Visitor};
use crate::password_gate::PasswordGate;
use crate::site::Site;
use crate::{api, pages};

/// Longer than any request should take. After it, the client gets 503 and may try again.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Everything but redirects, `/livez`, `/readyz` and `/metrics`.
pub fn router(state: AppState) -> Router {
    routes(Arc::new(App::new(state)))
}

/// The [`router`], and the gate before links with a password. Both use the same services.
pub fn router_and_gate(state: AppState) -> (Router, PasswordGate) {
    let state = Arc::new(App::new(state));
    (routes(Arc::clone(&state)), PasswordGate::new(state))
}

fn routes(state: Arc<App>) -> Router {
    let described: Arc<Described> = Arc::default();
    let json = {
        let described = Arc::clone(&described);
        async move |State(state): Web| {
            ([(header::CONTENT_TYPE, "application/json")], described.document(&state))
        }
    };
    let docs = async move |State(state): Web, headers: HeaderMap| {
        let mut page = pages::page(StatusCode::OK, described.page(&state, &headers));
        let policy = HeaderValue::from_static(pages::DOCS_CSP);
        page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        page
    };
    api::routes()
        .route("/openapi.json", get(json.clone()))
        .route("/api/v1/openapi.json", get(json))
        .route("/api/docs", get(docs))
        .route(
            "/api/v1/docs",
            get(|| async { (StatusCode::FOUND, [(header::LOCATION, "/api/docs")]) }),
        )
        .merge(pages::routes())
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(state.clone(), finish))
        .with_state(state)
}

/// The OpenAPI document and the page made from it. Both name the short domains, so they are rebuilt
/// when the domains change.
#[derive(Default)]
struct Described(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    hosts: Vec<String>,
    /// What the pages were made with.
    site: Option<Arc<Site>>,
    document: Arc<str>,
    /// The page, for each kind of visitor that has asked for it.
    pages: Vec<(Visitor, Bytes)>,
}

impl Described {
    fn document(&self, state: &App) -> String {
        self.with(state, |cached| cached.document.to_string())
    }

    fn page(&self, state: &App, headers: &HeaderMap) -> Bytes {
        let visitor = Visitor::of(state, headers);
        self.with(state, |cached| {
            if let Some((_, page)) = cached.pages.iter().find(|(made, _)| *made == visitor) {
                return page.clone();
            }
            let frame = PageFrame::new(state.site(), visitor);
            let page = Bytes::from(pages::docs_page(frame, &cached.document));
            cached.pages.push((visitor, page.clone()));
            page
        })
    }

    fn with<T>(&self, state: &App, read: impl FnOnce(&mut Cached) -> T) -> T {
        let hosts = state.links.rules().hosts.names();
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let site = state.site();
        if !cached.site.as_ref().is_some_and(|made| Arc::ptr_eq(made, &site)) {
            (cached.site, cached.pages) = (Some(site), Vec::new());
        }
        if cached.hosts != hosts {
            let api = state.links.rules().hosts.api_host().is_some();
            let api = api.then(|| state.links.rules().hosts.api_base());
            let document = api::document(&hosts, api.as_deref()).into();
            (cached.hosts, cached.document, cached.pages) = (hosts, document, Vec::new());
        }
        read(&mut cached)
    }
}

/// Answers a path that has no route.
pub(crate) async fn nothing_here(uri: Uri, headers: HeaderMap) -> Response {
    if wants_page(&uri, &headers) {
        return pages::not_found();
    }
    Problem::new(&problem::NOT_FOUND, "there is nothing at this address").into_response()
}

/// Answers a method that the route does not have. The router adds `Allow`.
async fn wrong_method(uri: Uri, headers: HeaderMap) -> Response {
    if wants_page(&uri, &headers) {
        return pages::wrong_method();
    }
    Problem::new(
        &problem::METHOD_NOT_ALLOWED,
        "this address does not answer to that method; see Allow",
    )
    .into_response()
}

fn wants_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let accept =
        headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    !is_api(uri.path()) && accept.contains("text/html")
}

fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// Wraps every request: traces it, bounds the time until its response begins, counts it, and sets
/// the common headers.
async fn finish(State(state): Web, request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route_name = route.as_ref().map_or("other", MatchedPath::as_str);
    let parent = request.headers().get("traceparent").and_then(|parent| parent.to_str().ok());
    let span = tracing::info_span!(
        target: TRACE_TARGET,
        "request",
        span.kind = "server",
        span.name = %format_args!("{} {route_name}", request.method()),
        span.parent = parent,
        span.error = Empty,
        http.request.method = %request.method(),
        http.route = route_name,
        http.response.status_code = Empty,
        terse.request_id = id.as_str(),
    );
    let answered = answer(state, request, next, id, route).instrument(span.clone()).await;
    let status = answered.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("span.error", status.canonical_reason().unwrap_or("server error"));
    }
    answered
}

async fn answer(
    state: Arc<App>,
    mut request: Request,
    next: Next,
    id: RequestId,
    route: Option<MatchedPath>,
) -> Response {
    let sent = SentBody::default();
    request.extensions_mut().insert(sent.clone());
    let (begun, method) = (Instant::now(), request.method().clone());
    let asked = request.headers().clone();
    let api = is_api(request.uri().path());
    let frame = PageFrame::translated(&state, request.headers());
    let preflight = if api { state.http.cors.preflight(&method, &asked) } else { None };
    let answered = async {
        match preflight {
            Some(response) => response,
            None => next.run(request).await,
        }
    };
    let mut response = match tokio::time::timeout(TIMEOUT, answered).await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!(
                route = route.as_ref().map(MatchedPath::as_str),
                "a request took too long; the client gets 503"
            );
            Problem::new(&problem::STORE_UNAVAILABLE, "this took too long; try again")
                .into_response()
        }
    };
    problem::complete(&mut response, &sent, &id);
    state
        .stats
        .count_request(route.as_ref().map_or("other", MatchedPath::as_str), response.status());
    let path = route.as_ref().map(MatchedPath::as_str);
    response = pages::in_app_frame(&state, &asked, path, response).await;
    response = pages::in_frame(response, &frame);
    let logged = match state.http.log {
        RequestLog::Off => false,
        RequestLog::Writes => !method.is_safe(),
        RequestLog::All => true,
    };
    if logged {
        // The route instead of the path, which may contain a code or a token.
        tracing::info!(
            %method,
            route = route.as_ref().map_or("other", MatchedPath::as_str),
            status = response.status().as_u16(),
            ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            request_id = id.as_str(),
            "request"
        );
    }
    let headers = response.headers_mut();
    headers.extend(id.header().map(|id| (request_id::HEADER, id)));
    if api {
        state.http.cors.allow(&asked, headers);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if api || !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
