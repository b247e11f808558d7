//! What a request asks for: its host, what its path is for, and the code in it.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use percent_encoding::percent_decode_str;
use terse_core::{Code, Hosts, is_reserved};

use super::RequestBody;
use super::web_plane::RejectedRequest;

/// Probes address a node by its IP address.
pub(super) const OPERATING: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// What a path is for. It matters where API and dashboard have a host of their own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// A link, its pages, or the page of a failed visit.
    Link,
    /// What every host needs: style sheets, icons, contacts, health.
    Common,
    /// API, sign-in and dashboard.
    Control,
}

/// The host that a request names: the authority of an absolute target, or of HTTP/2, comes before
/// the field.
pub(super) fn host_of<B>(request: &Request<B>) -> Option<&[u8]> {
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    authority.or_else(|| request.headers().get(header::HOST).map(HeaderValue::as_bytes))
}

pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

pub(super) fn is_api_host(hosts: &Hosts, host: &[u8]) -> bool {
    std::str::from_utf8(host).is_ok_and(|host| hosts.is_api_host(without_port(host)))
}

/// What a path is for, by its first segment.
pub(super) fn purpose_of(path: &str) -> Purpose {
    let common = ["/favicon.ico", "/robots.txt", "/.well-known/security.txt"];
    if answers_for_any_host(path) || common.contains(&path) {
        return Purpose::Common;
    }
    let first = path.strip_prefix('/').unwrap_or_default().split('/').next().unwrap_or_default();
    let first = percent_decode_str(first).decode_utf8_lossy();
    let code = first.strip_suffix('+').unwrap_or(&first);
    let is_link = Code::has_code_form(code.as_bytes()) && !is_reserved(code);
    let is_page = first == "r" && path.len() > "/r/".len();
    if is_link || is_page { Purpose::Link } else { Purpose::Control }
}

/// Whether a path is answered for any `Host`: health checks, and the style sheet of the page for an
/// unknown host.
pub(super) fn answers_for_any_host(path: &str) -> bool {
    OPERATING.contains(&path) || path.starts_with("/assets/") || path == "/favicon.svg"
}

/// Copies the authority of an absolute target, or of HTTP/2, to `Host`, where handlers look for it.
pub(super) fn name_host(uri: &Uri, headers: &mut HeaderMap) {
    if let Some(host) =
        uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
    {
        headers.insert(header::HOST, host);
    }
}

/// The code in a path of one segment, percent-decoded once; `None` if the path cannot be a link.
pub(super) fn code_in(path: &str) -> Result<Option<Cow<'_, str>>, RejectedRequest> {
    let escaped =
        |detail: &str| RejectedRequest::new(StatusCode::BAD_REQUEST, "invalid_request", detail);
    if path.contains('%') {
        let mut rest = path;
        while let Some((_, after)) = rest.split_once('%') {
            if !after.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)) {
                return Err(escaped(
                    "a percent sign in a path is followed by two hexadecimal digits",
                ));
            }
            rest = after;
        }
    }
    let segment = path.strip_prefix('/').unwrap_or_default();
    let decoded =
        percent_decode_str(segment).decode_utf8().map_err(|_| escaped("a path is UTF-8"))?;
    Ok((Code::has_code_form(decoded.as_bytes()) && !is_reserved(&decoded)).then_some(decoded))
}

/// The code of a link in `/{code}/go`, where its warning page leads.
pub(super) fn has_warning_pass<B>(request: &Request<B>) -> Option<Code> {
    let get = matches!(*request.method(), Method::GET | Method::HEAD);
    let code = request.uri().path().strip_prefix('/')?.strip_suffix("/go").filter(|_| get)?;
    Code::parse(code).filter(|code| !is_reserved(code.as_str()))
}

/// The pass, and the query that came with the visit, in the query of `/{code}/go`.
pub(super) fn pass_and_query(query: &str) -> (&str, Option<&str>) {
    let (pass, rest) = match query.split_once('&') {
        Some((pass, rest)) => (pass, Some(rest)),
        None => (query, None),
    };
    (pass.strip_prefix("pass=").unwrap_or_default(), rest)
}

/// Whether the request shows or sends the form that reports a link.
pub(super) fn is_about_report(request: &Request<RequestBody>) -> bool {
    request.uri().query() == Some("report")
        && matches!(*request.method(), Method::GET | Method::HEAD | Method::POST)
}

pub(super) fn target_length(uri: &Uri) -> usize {
    uri.path_and_query().map_or(0, |target| target.as_str().len())
}

/// The same request for another path.
pub(super) fn with_path(mut request: Request<RequestBody>, path: &str) -> Request<RequestBody> {
    let mut state = request.uri().clone().into_parts();
    state.path_and_query = path.parse().ok();
    if let Ok(uri) = Uri::from_parts(state) {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_a_link_to_every_host_or_to_the_dashboard() {
        for (purpose, paths) in [
            (
                Purpose::Link,
                &["/x7Kq", "/a", "/x7Kq+", "/x7Kq%2B", "/x7Kq/qr", "/x7Kq/go", "/r/x7Kq"][..],
            ),
            (
                Purpose::Common,
                &["/assets/a.css", "/favicon.ico", "/favicon.svg", "/robots.txt", "/readyz"],
            ),
            (
                Purpose::Control,
                &["/", "/api/v1/urls", "/%61pi/v1/urls", "/API/v1", "/openapi.json", "/login"],
            ),
            (Purpose::Control, &["/links", "/account/keys", "/auth/oidc", "/r", "//x7Kq", "*"]),
        ] {
            for path in paths {
                assert_eq!(purpose_of(path), purpose, "{path}");
            }
        }
    }

    #[test]
    fn a_code_is_unescaped_once_and_must_be_the_whole_path() {
        let code = |path| code_in(path).map_err(|rejected| rejected.status);
        assert_eq!(code("/%6Fk1234"), Ok(Some("ok1234".into())));
        assert_eq!(code("/a"), Ok(Some("a".into())));
        for path in [
            "/",
            "/r",
            "/ok1234/",
            "/ok1234%2F",
            "/ok1234%252e",
            "//ok1234",
            "/login",
            "/ok1234+",
            "/%E2%80%AEok1234",
            "*",
        ] {
            assert_eq!(code(path), Ok(None), "{path}");
        }
        for path in ["/%", "/%4", "/%zz", "/%c0%af", "/%ed%a0%80"] {
            assert_eq!(code(path), Err(StatusCode::BAD_REQUEST), "{path}");
        }
    }
}
