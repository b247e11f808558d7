//! Cross-origin requests: which web pages elsewhere may call the API from a browser.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const REQUEST_HEADERS: &str =
    "Authorization, Content-Type, Idempotency-Key, If-Match, X-Request-Id";
const RESPONSE_HEADERS: &str = "Content-Disposition, ETag, Idempotency-Replayed, Location, \
    RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id";
/// How long browsers may remember the answer to a preflight, in seconds.
const MAX_AGE: &str = "600";

/// The origins whose pages may call the API.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CorsOrigins {
    any: bool,
    origins: Vec<String>,
}

impl CorsOrigins {
    /// Parses origins such as `https://app.example`, or a single `*` for all.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        if texts.iter().any(|text| text == "*") {
            return match texts.len() {
                1 => Ok(Self { any: true, origins: Vec::new() }),
                _ => Err("`*` allows every origin and stands alone".into()),
            };
        }
        let origins = texts.iter().map(|text| origin(text)).collect::<Result<_, _>>()?;
        Ok(Self { any: false, origins })
    }

    /// The headers to add to the response for a request's `Origin`; `None` for one that is not
    /// allowed. With `*`, a response never permits credentials: cookies stay with our own pages.
    fn headers_for(&self, headers: &HeaderMap) -> Option<Vec<(header::HeaderName, HeaderValue)>> {
        let origin = headers.get(header::ORIGIN)?;
        if self.any {
            let any = HeaderValue::from_static("*");
            return Some(vec![(header::ACCESS_CONTROL_ALLOW_ORIGIN, any)]);
        }
        let known = |known: &String| known.as_bytes().eq_ignore_ascii_case(origin.as_bytes());
        self.origins.iter().any(known).then(|| {
            let allowed = HeaderValue::from_static("true");
            vec![
                (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
                (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, allowed),
            ]
        })
    }

    fn is_off(&self) -> bool {
        !self.any && self.origins.is_empty()
    }

    /// The answer to a preflight from an allowed origin.
    pub(crate) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        if *method != Method::OPTIONS
            || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        {
            return None;
        }
        let allowed = self.headers_for(headers)?;
        let mut response = StatusCode::NO_CONTENT.into_response();
        let answer = response.headers_mut();
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
        ] {
            answer.insert(name, HeaderValue::from_static(value));
        }
        answer.extend(allowed);
        answer.append(header::VARY, HeaderValue::from_static("Origin"));
        Some(response)
    }

    /// Adds to the answer of a request from an allowed origin.
    pub(crate) fn allow(&self, request: &HeaderMap, response: &mut HeaderMap) {
        if self.is_off() {
            return;
        }
        if let Some(allowed) = self.headers_for(request) {
            response.extend(allowed);
            let exposed = HeaderValue::from_static(RESPONSE_HEADERS);
            response.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        // Also without an allowed origin, so that no cache gives the answer to another one.
        response.append(header::VARY, HeaderValue::from_static("Origin"));
    }
}

/// A scheme, a host and a port where it is not the usual one, as browsers write it.
fn origin(text: &str) -> Result<String, String> {
    let wrong = || format!("must be an origin such as https://app.example (got {text:?})");
    let url = url::Url::parse(text).map_err(|_| wrong())?;
    let plain = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    let origin = url.origin().ascii_serialization();
    let bare = text.trim_end_matches('/').eq_ignore_ascii_case(&origin);
    if plain && bare { Ok(origin) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let parse = |texts: &[&str]| {
            CorsOrigins::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert!(parse(&["https://app.example", "http://localhost:3000/"]).is_ok());
        assert!(parse(&["*"]).is_ok() && parse(&[]).unwrap().is_off());
        for bad in ["app.example", "https://app.example/x", "https://u@app.example", "null", ""] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
        assert!(parse(&["*", "https://app.example"]).is_err());
    }
}
