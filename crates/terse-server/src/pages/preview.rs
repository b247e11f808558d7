//! The public preview of a link: its target, its age, and whether it is safe. The page never
//! redirects by itself.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use terse_core::{Link, LinkError, LinkStatus, Target};

use super::password::{closed_page, password_page};
use super::{BLOCKED, EXPIRED, LIMITED, NOT_FOUND, PageFrame, UNAVAILABLE, USED_UP, html, message};
use crate::access_cookies::AccessCookies;
use crate::http::extract::{Name, Peer};
use crate::http::host::{key_of, short_url, unicode_host};
use crate::http::limit_headers;
use crate::http::state::{App, Web};
use crate::messages::Catalogue;
use crate::resolve_target::{ForwardedQuery, resolve_target};
use crate::router::nothing_here;
use crate::warning_pass::WarningPass;

#[derive(Template)]
#[template(path = "preview.html")]
struct Preview<'a> {
    frame: PageFrame,
    warn: bool,
    /// Why the page warns, if that is known.
    reasons: Vec<&'static str>,
    short: String,
    code: &'a str,
    target: &'a str,
    host: String,
    /// The host in Unicode, if that differs.
    host_unicode: Option<String>,
    secure: bool,
    title: Option<&'a str>,
    made: String,
    made_ago: String,
    made_at: String,
    ends: Option<(String, String)>,
    visits_left: Option<u64>,
    /// The other targets that the link's rules can choose.
    other_targets: Vec<&'a str>,
    /// What the rules decide by.
    rules: String,
}

impl<'a> Preview<'a> {
    fn new(link: &'a Link, state: &App, frame: PageFrame, warn: bool) -> Self {
        let (now, m) = (state.links.now(), frame.m());
        let host = link.target.host().unwrap_or_default();
        Self {
            frame,
            warn,
            reasons: if warn { reasons(state, link, m) } else { Vec::new() },
            short: short_url(&link.key, &state.links.rules().hosts),
            code: link.key.code.as_str(),
            target: link.target.as_str(),
            host_unicode: unicode_host(&host),
            host,
            secure: link.target.as_str().starts_with("https:"),
            title: link.title.as_ref().map(terse_core::Title::as_str),
            made: m.date_time(link.created_at),
            made_ago: m.ago(link.created_at, now),
            made_at: link.created_at.to_string(),
            ends: link.expires_at.map(|at| (m.date_time(at), at.to_string())),
            visits_left: link.max_clicks.map(|max| max.saturating_sub(link.spent_clicks)),
            other_targets: other_targets(link, &link.target),
            rules: described(link, m),
        }
    }
}

#[derive(Template)]
#[template(path = "warning.html")]
struct Warning<'a> {
    frame: PageFrame,
    code: &'a str,
    target: &'a str,
    /// Where the button to continue leads.
    on: &'a str,
    host: String,
    host_unicode: Option<String>,
    reasons: Vec<&'static str>,
    other_targets: Vec<&'a str>,
    rules: String,
}

fn described(link: &Link, m: &Catalogue) -> String {
    link.rules.as_ref().map(|rules| m.rules(&rules.factors())).unwrap_or_default()
}

/// Why a page warns, in the words of its language.
pub(super) fn reasons(state: &App, link: &Link, m: &Catalogue) -> Vec<&'static str> {
    let reasons = state.links.reasons(link).into_iter();
    reasons.map(|(flag, english)| m.reason(flag).unwrap_or(english)).collect()
}

/// The other targets of a link, each once.
fn other_targets<'a>(link: &'a Link, shown: &Target) -> Vec<&'a str> {
    let mut places: Vec<&str> = Vec::new();
    for target in link.targets().filter(|target| *target != shown) {
        if !places.contains(&target.as_str()) {
            places.push(target.as_str());
        }
    }
    places
}

/// The warning page before a suspicious link: status 200, and a click continues. The page names the
/// target that the rules choose for this visitor and leads to that same target.
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
    // The button leads through terse, which counts that the visitor went on. There is no pass only
    // if its expiry would be after the year 9999.
    let pass = WarningPass(&state.pass_key).give(&link.key, address, state.links.now());
    let on = match (pass, query) {
        (Some(pass), "") => format!("/{}/go?pass={pass}", link.key.code),
        (Some(pass), query) => format!("/{}/go?pass={pass}&{query}", link.key.code),
        (None, _) => whole.clone(),
    };
    let frame = PageFrame::translated(state, headers);
    let m = frame.m();
    let warning = Warning {
        code: link.key.code.as_str(),
        target: &whole,
        on: &on,
        host_unicode: unicode_host(&host),
        host,
        reasons: reasons(state, link, m),
        other_targets: other_targets(link, target),
        rules: described(link, m),
        frame,
    };
    warning.frame.page(StatusCode::OK, html(&warning))
}

/// `/{code}+`, the preview. A path without the plus is no page: the redirect plane serves links.
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

/// `/r/{code}`: the page a browser gets when a redirect fails. It shows the link's current state
/// and ignores what the query claims.
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

/// `stopped` is the query of a visitor whose redirect was stopped; `None` for a visitor who asks
/// for the preview.
async fn by_state(
    state: &Arc<App>,
    peer: Peer,
    uri: &Uri,
    headers: &HeaderMap,
    code: &str,
    stopped: Option<&str>,
) -> Response {
    let Some(key) = key_of(state, uri, headers, code) else { return message(&NOT_FOUND) };
    let link = match state.public_links.find(&key, peer.0).await {
        Ok(link) => link,
        Err(error) => return not_shown(error),
    };
    match link.status(state.links.now()) {
        LinkStatus::Expired => message(&EXPIRED),
        LinkStatus::UsedUp => message(&USED_UP),
        LinkStatus::Blocked => message(&BLOCKED),
        // The preview never shows the target of a link with a password.
        _ if link.password.is_some() && stopped.is_none() => closed_page(state, &link, headers),
        _ if link.password.is_some()
            && !AccessCookies::new(&state.pass_key).grants(headers, &link, state.links.now()) =>
        {
            password_page(state, headers, &link, stopped, StatusCode::OK, None)
        }
        // A visitor whose redirect was stopped gets the warning; the others get the preview.
        status => match stopped.filter(|_| status == LinkStatus::Suspicious) {
            Some(query) => warning(state, &link, headers, peer, query).await,
            None => {
                let frame = PageFrame::translated(state, headers);
                let shown = Preview::new(&link, state, frame, status == LinkStatus::Suspicious);
                shown.frame.page(StatusCode::OK, html(&shown))
            }
        },
    }
}

/// Answers 404 for a link that visitors do not see, or 429 after too many requests for such links,
/// which slows scanners down.
pub(super) fn not_shown(error: LinkError) -> Response {
    match error {
        LinkError::NotFound => message(&NOT_FOUND),
        LinkError::Limited(reached) => {
            let mut response = message(&LIMITED);
            limit_headers::add(&reached.decision, response.headers_mut());
            response
        }
        error => {
            tracing::error!(%error, "the lookup of a link for a page failed");
            message(&UNAVAILABLE)
        }
    }
}
