//! The page that asks for a link's password. It shows neither the link's target nor its title or
//! notes.

use askama::Template;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use terse_core::{Link, LinkStatus};

use super::preview::reasons;
use super::{CSP, PageFrame, html};
use crate::http::host::short_url;
use crate::http::state::App;
use crate::messages::Catalogue;

/// What is wrong with a password, in the visitor's language.
pub(crate) type PasswordProblem = fn(&'static Catalogue) -> &'static str;

#[derive(Template)]
#[template(path = "password.html")]
struct Password<'a> {
    frame: PageFrame,
    code: &'a str,
    action: String,
    suspicious: bool,
    reasons: Vec<&'static str>,
    problem: Option<&'static str>,
}

/// Asks for the password. `query` is the query of the visit; the link may forward it to the target.
pub(crate) fn password_page(
    state: &App,
    headers: &HeaderMap,
    link: &Link,
    query: Option<&str>,
    status: StatusCode,
    problem: Option<PasswordProblem>,
) -> Response {
    let suspicious = link.status(state.links.now()) == LinkStatus::Suspicious;
    let query = query
        .filter(|query| !query.is_empty())
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let frame = PageFrame::translated(state, headers);
    let m = frame.m();
    let asking = Password {
        code: link.key.code.as_str(),
        action: format!("/{}{query}", link.key.code),
        suspicious,
        reasons: if suspicious { reasons(state, link, m) } else { Vec::new() },
        problem: problem.map(|problem| problem(m)),
        frame,
    };
    let mut response = asking.frame.page(status, html(&asking));
    let headers = response.headers_mut();
    // Browsers check `form-action` against the redirect that answers a form too, and this form
    // redirects to the link's target.
    if let Ok(policy) =
        HeaderValue::try_from(CSP.replace("form-action 'self'", "form-action http: https:"))
    {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-robots-tag", HeaderValue::from_static("noindex"));
    response
}

#[derive(Template)]
#[template(path = "preview_protected.html")]
struct Closed<'a> {
    frame: PageFrame,
    code: &'a str,
    short: String,
    made: String,
    made_ago: String,
    made_at: String,
    warn: bool,
    reasons: Vec<&'static str>,
}

/// The public preview of a link that has a password.
pub(super) fn closed_page(state: &App, link: &Link, headers: &HeaderMap) -> Response {
    let now = state.links.now();
    let warn = link.status(now) == LinkStatus::Suspicious;
    let frame = PageFrame::translated(state, headers);
    let m = frame.m();
    let closed = Closed {
        code: link.key.code.as_str(),
        short: short_url(&link.key, &state.links.rules().hosts),
        made: m.date_time(link.created_at),
        made_ago: m.ago(link.created_at, now),
        made_at: link.created_at.to_string(),
        warn,
        reasons: if warn { reasons(state, link, m) } else { Vec::new() },
        frame,
    };
    closed.frame.page(StatusCode::OK, html(&closed))
}
