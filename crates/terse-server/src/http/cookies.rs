//! Reads and sets cookies, and names the session cookie.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use terse_core::Domain;

use super::state::App;

/// The name of the session cookie. With https it has the prefix `__Host-`, so that no other host,
/// not even a subdomain, can set it.
pub(crate) fn session_cookie(state: &App) -> &'static str {
    if is_secure(state) { "__Host-terse_session" } else { "terse_session" }
}

/// The value of a cookie. A cookie that is present twice counts as absent: another host may have
/// set one of the two.
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

/// A cookie that scripts cannot read, that forms on other sites do not send, and that only https
/// carries if `base_url` is https.
pub(crate) fn set_cookie(state: &App, name: &str, value: &str, seconds: u64) -> HeaderValue {
    let secure = if is_secure(state) { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Whether `base_url` is https.
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
