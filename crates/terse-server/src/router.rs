//! The router: every route of the web side, and what is true of each answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use terse_core::clicks::{ClickStore, Live};
use terse_core::registry::{Actor, Attribution, Registry};
use terse_core::rules::VisitorClassifier;
use terse_core::{Links, OwnerId};
use tokio::sync::watch;

use crate::accounts::Accounts;
use crate::api::problem::{self, Problem};
use crate::keys::Keys;
use crate::limits::Limits;
use crate::passwords::Passwords;
use crate::registry_refresh::RegistryRefresh;
use crate::stats::ApiStats;
use crate::used_keys::UsedKeys;
use crate::webhooks::Webhooks;
use crate::{api, pages};

/// Longer than any request should take; the caller is told to try again rather than left waiting.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What the web side is made of.
#[derive(Clone)]
pub struct AppState {
    /// The rules and the store behind them.
    pub links: Arc<Links>,
    /// The keys of whoever runs this server.
    pub keys: Keys,
    /// Owners, their keys and sessions.
    pub registry: Arc<dyn Registry>,
    /// To be rung after a change of the registry that visitors should feel: who is suspended, which
    /// domains there are.
    pub registry_refresh: RegistryRefresh,
    /// Hashes and checks passwords.
    pub passwords: Passwords,
    /// How people come to have an account.
    pub accounts: Accounts,
    /// Where it is noted that a key was used.
    pub used_keys: Arc<UsedKeys>,
    /// Looks closer at visitors, where rules are tried on them.
    pub classifier: Arc<dyn VisitorClassifier>,
    /// Seals list cursors. The same on every node of a fleet, so that any of them can go on with a
    /// list.
    pub cursor_key: [u8; 32],
    /// Signs the passes of visitors who knew a link's password. The same on every node of a fleet.
    pub pass_key: [u8; 32],
    /// Tells reporters apart without keeping who they are. The same on every node of a fleet.
    pub reporter_key: [u8; 32],
    /// How often links may be made.
    pub limits: Limits,
    /// Where to count.
    pub stats: Arc<ApiStats>,
    /// Where clicks are counted.
    pub clicks: Arc<dyn ClickStore>,
    /// Where counted clicks are made known.
    pub live: Arc<Live>,
    /// Webhooks; `None` where they are switched off.
    pub webhooks: Option<Webhooks>,
    /// True once the server stops: answers without an end of their own end then.
    pub stop: watch::Receiver<bool>,
}

impl AppState {
    /// Whose act something is, for the audit log: this owner's, now.
    pub(crate) fn by(&self, owner: OwnerId, why: Option<String>) -> Attribution {
        Attribution { actor: Actor::Owner(owner), at: self.links.now(), why }
    }
}

/// What every handler is given.
pub(crate) type Web = State<Arc<AppState>>;

/// Everything but redirects, `/livez`, `/readyz` and `/metrics`.
pub fn router(state: AppState) -> Router {
    let state = Arc::new(state);
    let described: Arc<Described> = Arc::default();
    let json = {
        let described = Arc::clone(&described);
        async move |State(state): Web| {
            ([(header::CONTENT_TYPE, "application/json")], described.get(&state).0)
        }
    };
    let docs = async move |State(state): Web| pages::page(StatusCode::OK, described.get(&state).1);
    let (described, _) = api::described().split_for_parts();
    described
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

/// The description of the API and the page made of it. They name the domains that there are, so
/// they are made again when those change.
#[derive(Default)]
struct Described(Mutex<(Vec<String>, Bytes, Bytes)>);

impl Described {
    fn get(&self, state: &AppState) -> (Bytes, Bytes) {
        let hosts = state.links.rules().hosts.names();
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.0 != hosts {
            let document = api::document(&hosts);
            let docs = Bytes::from(api::docs_page(&document));
            *made = (hosts, document.into(), docs);
        }
        (made.1.clone(), made.2.clone())
    }
}

/// A path that is no route.
pub(crate) async fn nothing_here(uri: Uri, headers: HeaderMap) -> Response {
    if wants_page(&uri, &headers) {
        return pages::not_found();
    }
    Problem::new(&problem::NOT_FOUND, "there is nothing at this address").into_response()
}

/// A route that does not know the method. The router adds `Allow`.
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

/// Wraps every request: bounds the time until its answer begins, counts it, and sets the headers
/// that hold for all.
async fn finish(State(state): Web, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let api = is_api(request.uri().path());
    let mut response = match tokio::time::timeout(TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!(
                route = route.as_ref().map(MatchedPath::as_str),
                "a request took too long and was given up"
            );
            Problem::new(&problem::STORE_UNAVAILABLE, "this took too long; try again")
                .into_response()
        }
    };
    state
        .stats
        .count_request(route.as_ref().map_or("other", MatchedPath::as_str), response.status());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if api || !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
