//! What anyone may see of a link: where it leads, how old it is, whether it is safe. Never goes
//! there by itself.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use terse_core::{Link, Status, Target};

use super::format::{ago, moment};
use super::password::{closed_page, password_page};
use super::{BLOCKED, GONE, LIMITED, NOT_FOUND, UNAVAILABLE, html, message, page};
use crate::access_cookies::AccessCookies;
use crate::http::extract::{Name, Peer};
use crate::http::host::{key_of, short_url, unicode_host};
use crate::http::limit_headers;
use crate::http::state::{App, Web};
use crate::resolve_target::{ForwardedQuery, resolve_target};
use crate::router::nothing_here;

#[derive(Template)]
#[template(path = "preview.html")]
struct Preview<'a> {
    warn: bool,
    /// Why, if that is known.
    reasons: Vec<&'static str>,
    short: String,
    code: &'a str,
    target: &'a str,
    host: String,
    /// The host in its own script, where that differs.
    host_unicode: Option<String>,
    secure: bool,
    title: Option<&'a str>,
    made: String,
    made_ago: String,
    made_at: String,
    ends: Option<(String, String)>,
    visits_left: Option<u64>,
    /// Where its rules lead some visitors.
    elsewhere: Vec<&'a str>,
}

impl<'a> Preview<'a> {
    fn new(link: &'a Link, state: &App, warn: bool) -> Self {
        let now = state.links.now();
        let host = link.target.host().unwrap_or_default();
        Self {
            warn,
            reasons: if warn { state.links.reasons(link) } else { Vec::new() },
            short: short_url(&link.key, &state.links.rules().hosts),
            code: link.key.code.as_str(),
            target: link.target.as_str(),
            host_unicode: unicode_host(&host),
            host,
            secure: link.target.as_str().starts_with("https:"),
            title: link.title.as_ref().map(terse_core::Title::as_str),
            made: moment(link.created_at),
            made_ago: ago(link.created_at, now),
            made_at: link.created_at.to_string(),
            ends: link.expires_at.map(|at| (moment(at), at.to_string())),
            visits_left: link.max_clicks.map(|max| max.saturating_sub(link.spent_clicks)),
            elsewhere: elsewhere(link, &link.target),
        }
    }
}

#[derive(Template)]
#[template(path = "warning.html")]
struct Warning<'a> {
    code: &'a str,
    target: &'a str,
    host: String,
    host_unicode: Option<String>,
    reasons: &'a [&'static str],
    elsewhere: Vec<&'a str>,
}

/// The other places that a link leads to, each once.
fn elsewhere<'a>(link: &'a Link, credential: &Target) -> Vec<&'a str> {
    let mut places: Vec<&str> = Vec::new();
    for target in link.targets().filter(|target| *target != credential) {
        if !places.contains(&target.as_str()) {
            places.push(target.as_str());
        }
    }
    places
}

/// The page before a suspicious link: 200, and going on takes a click. It names the place where
/// this visitor would go, and leads there: whoever is warned of one host must not come to another.
async fn warning(
    state: &App,
    link: &Link,
    headers: &HeaderMap,
    Peer(address): Peer,
    query: &str,
) -> Response {
    let target = resolve_target(state, link, headers, address, query).await;
    let host = target.host().unwrap_or_default();
    let whole = if link.forward_query && !query.is_empty() {
        target.with_query(query)
    } else {
        target.to_string()
    };
    let warning = Warning {
        code: link.key.code.as_str(),
        target: &whole,
        host_unicode: unicode_host(&host),
        host,
        reasons: &state.links.reasons(link),
        elsewhere: elsewhere(link, target),
    };
    page(StatusCode::OK, html(&warning))
}

/// `/{code}+`. A path without the plus is a short link, which is none of our business, or nothing.
pub(super) async fn preview(
    State(state): Web,
    peer: Peer,
    uri: Uri,
    headers: HeaderMap,
    Name(code): Name,
) -> Response {
    match code.strip_suffix('+') {
        Some(code) => by_state(&state, peer, &uri, &headers, code, None).await,
        None => nothing_here(uri, headers).await,
    }
}

/// `/r/{code}`: where redirects that failed may send a browser. Tells how the link is now, whatever
/// the query claims.
pub(super) async fn state_page(
    State(state): Web,
    peer: Peer,
    brought: Option<Extension<ForwardedQuery>>,
    uri: Uri,
    headers: HeaderMap,
    Name(code): Name,
) -> Response {
    let ForwardedQuery(query) = brought.map(|Extension(brought)| brought).unwrap_or_default();
    by_state(&state, peer, &uri, &headers, &code, Some(&query)).await
}

/// `stopped` is what somebody brought who was on the way to the target; `None` for whoever only
/// asks about the link.
async fn by_state(
    state: &Arc<App>,
    peer: Peer,
    uri: &Uri,
    headers: &HeaderMap,
    code: &str,
    stopped: Option<&str>,
) -> Response {
    let Some(key) = key_of(state, uri, headers, code) else { return message(&NOT_FOUND) };
    let link = match state.links.preview(&key).await {
        Ok(Some(link)) => link,
        Ok(None) => return unknown(state, peer).await,
        Err(error) => {
            tracing::error!(%error, "preview lookup failed");
            return message(&UNAVAILABLE);
        }
    };
    match link.status(state.links.now()) {
        Status::Deleted | Status::Scheduled => unknown(state, peer).await,
        Status::Expired | Status::UsedUp => message(&GONE),
        Status::Blocked => message(&BLOCKED),
        // Where a link with a password leads is for those who know it; for strangers there is not
        // much to see.
        _ if link.password.is_some() && stopped.is_none() => closed_page(state, &link),
        _ if link.password.is_some()
            && !AccessCookies::new(&state.pass_key).credential(
                headers,
                &link,
                state.links.now(),
            ) =>
        {
            password_page(state, &link, stopped, StatusCode::OK, None)
        }
        // Somebody on the way to the target is warned; somebody who asked about the link is told
        // about it.
        status => match stopped.filter(|_| status == Status::Suspicious) {
            Some(query) => warning(state, &link, headers, peer, query).await,
            None => page(
                StatusCode::OK,
                html(&Preview::new(&link, state, status == Status::Suspicious)),
            ),
        },
    }
}

/// There is no such link; whoever says so too often to one asker helps a scanner.
pub(super) async fn unknown(state: &App, Peer(address): Peer) -> Response {
    let Err(reached) = state.limits.guess(Some(address)).await else { return message(&NOT_FOUND) };
    let mut response = message(&LIMITED);
    limit_headers::add(&reached.decision, response.headers_mut());
    response
}
