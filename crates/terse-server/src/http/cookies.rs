//! Cookies: reading one, setting one, and the name of the session's.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use terse_core::Domain;

use super::state::App;

/// The cookie of a browser that is signed in. By https it has a name that no other host, not even
/// one below ours, can set.
pub(crate) fn session_cookie(state: &App) -> &'static str {
    if is_secure(state) { "__Host-terse_session" } else { "terse_session" }
}

/// The value of a cookie. One that is there twice counts as none: somebody else may have set the
/// other.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let pairs = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let mut values =
        pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(have, _)| *have == name);
    let (_, value) = values.next()?;
    values.next().is_none().then_some(value)
}

/// A cookie that no script reads, that other sites' forms do not bring, and that goes by https
/// alone where we have it.
pub(crate) fn set_cookie(state: &App, name: &str, value: &str, seconds: u64) -> HeaderValue {
    let secure = if is_secure(state) { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Whether people reach us by https.
pub(crate) fn is_secure(state: &App) -> bool {
    state.links.rules().hosts.base_of(&Domain::primary()).starts_with("https:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others_and_never_twice() {
        let found = |fields: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in fields {
                headers.append(COOKIE, HeaderValue::from_static(value));
            }
            cookie(&headers, "a").map(str::to_owned)
        };
        assert_eq!(found(&["b=1; a=2;c=3"]), Some("2".to_owned()));
        assert_eq!(found(&["aa=1; b=a=2"]), None);
        assert_eq!(found(&["a=1; a=2"]), None);
        assert_eq!(found(&["a=1", "a=2"]), None);
    }
}
