//! Authentication: which principal sent a request.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, Uri};
use terse_core::Principal;
use terse_core::accounts::AccountError;

use super::cookies::{cookie, session_cookie};
use super::origin::Origin;
use super::problem::{FORBIDDEN, Problem};
use super::state::App;

/// Finds the principal of a request. A key that is presented must be valid, even where none is
/// needed; an ended session counts as none.
pub(crate) async fn principal_of(
    state: &App,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Principal, Problem> {
    match shown_key(headers)? {
        Some(key) => by_key(state, key).await,
        None => by_session(state, method, uri, headers).await,
    }
}

/// The principal of a request that changes nothing: which site caused it does not matter.
pub(crate) async fn reader_of(state: &App, headers: &HeaderMap) -> Result<Principal, Problem> {
    principal_of(state, &Method::GET, &Uri::default(), headers).await
}

/// Refuses principals whose key does not permit a method: reading where the method only reads, else
/// everything.
pub(crate) fn in_scope(principal: Principal, method: &Method) -> Result<Principal, Problem> {
    Ok(if method.is_safe() { principal.may_read() } else { principal.may_change() }?)
}

async fn by_key(state: &App, key: &str) -> Result<Principal, Problem> {
    // The operator's keys work even if the registry is unavailable.
    if state.keys.is_operator(key) {
        return Ok(Principal::OPERATOR);
    }
    Ok(state.accounts.by_key(key).await?)
}

async fn by_session(
    state: &App,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Principal, Problem> {
    let Some(cookie) = cookie(headers, session_cookie(state)) else {
        return Ok(Principal::ANONYMOUS);
    };
    let Some(session) = state.accounts.session(cookie).await? else {
        return Ok(Principal::ANONYMOUS);
    };
    if !method.is_safe() && Origin::of(state, uri, headers) != Origin::Own {
        let detail = "a page of another site sent this request";
        return Err(Problem::new(&FORBIDDEN, detail).on("Origin"));
    }
    Ok(state.accounts.principal(&session)?)
}

fn unknown_key() -> Problem {
    AccountError::UnknownKey.into()
}

/// The API key in a request's headers, bare or as a bearer token.
fn shown_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut credential = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = credential.next() else { return Ok(None) };
    let text = value.to_str().map_err(|_| unknown_key())?.trim();
    let key = match text.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => key.trim_start(),
        Some(_) => return Err(unknown_key()),
        None => text,
    };
    if credential.next().is_some() {
        return Err(unknown_key());
    }
    Ok(Some(key))
}
