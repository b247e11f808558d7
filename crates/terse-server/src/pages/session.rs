//! Who is signed in: the cookie, where it comes from and where it goes.

use axum::http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use terse_core::accounts::{AccountError, SignedIn};
use terse_core::registry::Account;

use super::page;
use crate::http::cookies::{cookie, session_cookie, set_cookie};
use crate::http::state::App;

/// Who is signed in, if anybody is. A suspended account is not.
pub(super) async fn signed_in(
    state: &App,
    headers: &HeaderMap,
) -> Result<Option<SignedIn>, AccountError> {
    let Some(cookie) = cookie(headers, session_cookie(state)) else { return Ok(None) };
    let session = state.accounts.session(cookie).await?;
    Ok(session.filter(|session| session.account.suspended.is_none()))
}

/// Begins a session of an account that has proved itself, in place of the one that the browser had:
/// the cookie to set.
pub(super) async fn begin(
    state: &App,
    headers: &HeaderMap,
    account: &Account,
) -> Result<HeaderValue, AccountError> {
    let name = session_cookie(state);
    let begun = state.accounts.begin_session(account, cookie(headers, name)).await?;
    Ok(set_cookie(state, name, &begun.secret, begun.ttl.as_secs()))
}

/// Ends the session of this browser: the cookie to set.
pub(super) async fn end(state: &App, headers: &HeaderMap) -> Result<HeaderValue, AccountError> {
    if let Some(cookie) = cookie(headers, session_cookie(state)) {
        state.accounts.end_session(cookie).await?;
    }
    Ok(no_cookie(state))
}

/// Takes the cookie away.
pub(super) fn no_cookie(state: &App) -> HeaderValue {
    set_cookie(state, session_cookie(state), "", 0)
}

/// Sends a browser on, after a form.
pub(super) fn go(path: &str) -> Response {
    let location = HeaderValue::from_str(path).unwrap_or_else(|_| HeaderValue::from_static("/"));
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response();
    guard(response.headers_mut());
    response
}

/// The same, with a cookie.
pub(super) fn go_with(path: &str, cookie: HeaderValue) -> Response {
    let mut response = go(path);
    response.headers_mut().append(SET_COOKIE, cookie);
    response
}

/// A page about somebody's account.
pub(super) fn private_page(status: StatusCode, html: String) -> Response {
    let mut response = page(status, html);
    guard(response.headers_mut());
    response
}

/// Nobody keeps it, and what stands in its address is told to nobody: not even to ourselves. With
/// `no-referrer` browsers would not say that our own forms are ours.
pub(super) fn guard(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin"));
}
