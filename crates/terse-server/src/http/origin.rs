//! Which site made a browser send a request: the one check against cross-site request forgery.
//!
//! A browser sends our cookies with every request to us, whichever page caused it. So a request
//! that a cookie authorises, or that sets one, must be [`Origin::Own`]. A request without any
//! credential may also be [`Origin::Unknown`]: programs name no origin, and without a cookie
//! another site gains nothing. [`Origin::Foreign`] is always refused.

use axum::http::{HeaderMap, Uri};

use super::host::base_of;
use super::state::App;

/// The site that caused a request, as the browser reports it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// One of our pages, or the address bar.
    Own,
    /// A page of another site.
    Foreign,
    /// The client sends neither header. Every browser that keeps cookies sends one.
    Unknown,
}

impl Origin {
    /// Reads `Sec-Fetch-Site`, or else `Origin`.
    pub(crate) fn of(state: &App, uri: &Uri, headers: &HeaderMap) -> Self {
        Self::classify(uri, headers, &base_of(state, uri, headers))
    }

    fn classify(uri: &Uri, headers: &HeaderMap, base: &str) -> Self {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        if let Some(site) = text("sec-fetch-site") {
            return Self::own_if(matches!(site, "same-origin" | "none"));
        }
        let Some(origin) = text("origin") else { return Self::Unknown };
        let Some((scheme, sender)) = origin.split_once("://") else { return Self::Foreign };
        // HTTP/2 sends the host in `:authority`.
        let host = text("host").or_else(|| uri.authority().map(axum::http::uri::Authority::as_str));
        // All domains have the scheme of `base_url`. A request to an IP address or to localhost may
        // come without TLS, past the proxy.
        let is_scheme = base.split_once("://").is_none_or(|(ours, _)| {
            scheme.eq_ignore_ascii_case(ours) || is_direct(sender) && scheme == "http"
        });
        let is_host = is_scheme && host.is_some_and(|host| sender.eq_ignore_ascii_case(host));
        // Behind a proxy that changes `Host`, browsers still send the host of `base_url`.
        let is_base = base.split_once("://").is_some_and(|(base_scheme, rest)| {
            let known = rest.split('/').next().unwrap_or_default();
            scheme.eq_ignore_ascii_case(base_scheme) && sender.eq_ignore_ascii_case(known)
        });
        Self::own_if(!sender.is_empty() && (is_host || is_base))
    }

    fn own_if(own: bool) -> Self {
        if own { Self::Own } else { Self::Foreign }
    }
}

/// Whether a host with its port is an address or localhost.
fn is_direct(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_pages_of_ours_are_our_own_and_silence_is_told_apart() {
        let (own, foreign, unknown) = (Origin::Own, Origin::Foreign, Origin::Unknown);
        for (fields, want) in [
            (&[("sec-fetch-site", "same-origin"), ("origin", "null")][..], own),
            (&[("sec-fetch-site", "none")], own),
            (&[("sec-fetch-site", "same-site")], foreign),
            (
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("host", "go.example"),
                    ("origin", "https://go.example"),
                ],
                foreign,
            ),
            (&[("host", "go.example"), ("origin", "https://go.example")], own),
            (&[("host", "go.example:80"), ("origin", "http://go.example:80")], foreign),
            (&[("host", "go.example"), ("origin", "http://go.example")], foreign),
            (&[("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080")], own),
            (&[("host", "[::1]:8080"), ("origin", "http://[::1]:8080")], own),
            (&[("host", "localhost:8080"), ("origin", "http://localhost:8080")], own),
            (&[("host", "go.example"), ("origin", "https://evil.example")], foreign),
            (&[("host", "go.example"), ("origin", "null")], foreign),
            (&[("host", ""), ("origin", "https://")], foreign),
            (&[("host", "10.0.0.7"), ("origin", "https://short.example")], own),
            (&[("host", "10.0.0.7"), ("origin", "http://short.example")], foreign),
            (&[("host", "go.example")], unknown),
            (&[], unknown),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            let uri = Uri::from_static("/");
            let found = Origin::classify(&uri, &headers, "https://short.example/base");
            assert_eq!(found, want, "{fields:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append("origin", HeaderValue::from_static("https://go.example"));
        let uri = Uri::from_static("https://go.example/login");
        assert_eq!(Origin::classify(&uri, &headers, "https://short.example"), own, "HTTP/2");
    }
}
