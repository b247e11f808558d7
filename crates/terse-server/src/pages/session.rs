//! Who is signed in: the cookie, where it comes from and where it goes.

use axum::http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use terse_core::registry::{Account, RegistryError, Session, Token};
use terse_core::{StoreError, Timestamp};

use super::page;
use crate::http::cookies::{cookie, session_cookie, set_cookie};
use crate::http::state::App;
use crate::keys::Keys;

/// Somebody whose browser is signed in.
pub(super) struct SignedIn {
    pub(super) token: Token,
    pub(super) account: Account,
}

/// Who is signed in, if anybody is.
pub(super) async fn signed_in(
    state: &App,
    headers: &HeaderMap,
) -> Result<Option<SignedIn>, RegistryError> {
    let Some(token) = token(state, headers) else { return Ok(None) };
    let found = state.registry.session(&token, state.links.now()).await?;
    Ok(found
        .filter(|(_, account)| account.suspended.is_none())
        .map(|(_, account)| SignedIn { token, account }))
}

fn token(state: &App, headers: &HeaderMap) -> Option<Token> {
    cookie(headers, session_cookie(state)).and_then(Keys::checked_hash).map(Token)
}

/// Begins a session of somebody who has shown who they are, in place of the one their browser had,
/// and gives back what the cookie is set with. The account must still be as it was when that was
/// checked.
pub(super) async fn begin(
    state: &App,
    headers: &HeaderMap,
    account: &Account,
) -> Result<HeaderValue, RegistryError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| StoreError::Unavailable(error.to_string().into()))?;
    let secret = URL_SAFE_NO_PAD.encode(secret);
    let (now, ttl) = (state.links.now(), state.accounts.session_ttl);
    let (token, expires_at) =
        (Token(Keys::hash(&secret)), now.checked_add(ttl).unwrap_or(Timestamp::MAX));
    state
        .registry
        .add_session(
            Session { token, owner: account.id, created_at: now, expires_at },
            account.revision,
        )
        .await?;
    // Whoever has set a cookie in this browser before gains nothing by it.
    if let Some(before) = self::token(state, headers) {
        state.registry.end_session(&before).await?;
    }
    Ok(set_cookie(state, session_cookie(state), &secret, ttl.as_secs()))
}

/// Ends the session of this browser, and gives back what takes its cookie away.
pub(super) async fn end(state: &App, headers: &HeaderMap) -> Result<HeaderValue, RegistryError> {
    if let Some(token) = token(state, headers) {
        state.registry.end_session(&token).await?;
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
