//! The session of a browser: reads, sets and deletes the session cookie.

use askama::Template;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, SET_COOKIE, USER_AGENT,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use terse_core::accounts::{AccountError, SignedIn};
use terse_core::registry::Account;

use super::form::problem_page;
use super::{APP_CSP, UNAVAILABLE, html, message, page};
use crate::http::cookies::{cookie, session_cookie, set_cookie};
use crate::http::problem::Problem;
use crate::http::state::App;
use crate::resolve_target::classify;

/// The signed-in account, if there is one. A suspended account does not count.
pub(super) async fn signed_in(
    state: &App,
    headers: &HeaderMap,
) -> Result<Option<SignedIn>, AccountError> {
    let Some(cookie) = cookie(headers, session_cookie(state)) else { return Ok(None) };
    let session = state.accounts.session(cookie).await?;
    Ok(session.filter(|session| session.account.suspended.is_none()))
}

/// Begins a session for an authenticated account and ends the browser's previous one. Returns the
/// cookie to set.
pub(super) async fn begin(
    state: &App,
    headers: &HeaderMap,
    account: &Account,
) -> Result<HeaderValue, AccountError> {
    let name = session_cookie(state);
    let browser = browser_name(state, headers).await;
    let begun = state.accounts.begin_session(account, cookie(headers, name), browser).await?;
    Ok(set_cookie(state, name, &begun.secret, begun.ttl.as_secs()))
}

/// The browser that sent these headers and its system, as in `Firefox on Windows`.
async fn browser_name(state: &App, headers: &HeaderMap) -> Option<String> {
    let agent = headers.get(USER_AGENT).map(|agent| agent.as_bytes().to_vec())?;
    let traits = classify(state, Some(agent), None).await?;
    match (traits.browser, traits.system) {
        (Some(browser), Some(system)) => Some(format!("{browser} on {system}")),
        (browser, system) => browser.or(system).map(|name| name.to_string()),
    }
}

/// Ends the session of this browser. Returns the cookie to set.
pub(super) async fn end(state: &App, headers: &HeaderMap) -> Result<HeaderValue, AccountError> {
    if let Some(cookie) = cookie(headers, session_cookie(state)) {
        state.accounts.end_session(cookie).await?;
    }
    Ok(no_cookie(state))
}

/// The cookie that deletes the session cookie.
pub(super) fn no_cookie(state: &App) -> HeaderValue {
    set_cookie(state, session_cookie(state), "", 0)
}

/// Redirects the browser after a form.
pub(super) fn redirect_to(path: &str) -> Response {
    let location = HeaderValue::from_str(path).unwrap_or_else(|_| HeaderValue::from_static("/"));
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response();
    guard(response.headers_mut());
    response
}

/// The same, and sets a cookie.
pub(super) fn redirect_with_cookie(path: &str, cookie: HeaderValue) -> Response {
    let mut response = redirect_to(path);
    response.headers_mut().append(SET_COOKIE, cookie);
    response
}

/// A page about an account, with the headers of [`guard`].
pub(super) fn private_page(status: StatusCode, html: String) -> Response {
    let mut response = page(status, html);
    guard(response.headers_mut());
    response
}

/// A page of the dashboard.
pub(super) fn app_page(status: StatusCode, html: String) -> Response {
    let mut response = private_page(status, html);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(APP_CSP));
    response
}

/// A page of the dashboard with the problem of a form.
pub(super) fn app_problem_page(problem: &Problem, html: String) -> Response {
    let mut response = problem_page(problem, html);
    guard(response.headers_mut());
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(APP_CSP));
    response
}

/// The page of a form again, with the problem that `show` adds to it. A failure of the server has a
/// page of its own; `error_page` answers if the page cannot be built.
pub(super) async fn page_with_problem<P: Template, E>(
    problem: impl Into<Problem>,
    page: impl Future<Output = Result<P, E>>,
    error_page: impl FnOnce(&E) -> Response,
    show: impl FnOnce(&mut P, &Problem),
) -> Response {
    let problem = problem.into();
    if problem.status() >= 500 {
        return message(&UNAVAILABLE);
    }
    match page.await {
        Ok(mut page) => {
            show(&mut page, &problem);
            app_problem_page(&problem, html(&page))
        }
        Err(error) => error_page(&error),
    }
}

/// Forbids caching, and keeps the path and query out of `Referer`, also to this server. Not
/// `no-referrer`: with it browsers send `Origin: null` for our own forms.
pub(super) fn guard(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin"));
}
