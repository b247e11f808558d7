//! Reads request bodies with a size limit and a timeout, and parses JSON strictly: an unknown field
//! is an error.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use bytes::Bytes;
use serde::Deserialize;

use super::params::short;
use super::problem::{
    INVALID_REQUEST, Problem, REQUEST_TIMEOUT, STORE_UNAVAILABLE, SentBody, TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
};
use super::state::App;

/// The largest body of a single link: four times the longest target, and room for the other fields.
pub(crate) const SMALL: usize = 64 * 1024;
/// The largest body of a list of links.
pub(crate) const LARGE: usize = 10 * 1024 * 1024;
/// The longest time that a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A JSON body of at most `LIMIT` bytes, not yet parsed.
pub(crate) struct Json<const LIMIT: usize>(pub(crate) Bytes);

impl<const LIMIT: usize> FromRequest<Arc<App>> for Json<LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Arc<App>) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        let essence = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let essence = essence.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(
                &UNSUPPORTED_MEDIA_TYPE,
                "the body should be application/json",
            )
            .on("Content-Type"));
        }
        refuse_encoding(&head.headers)?;
        refuse_announced(&head.headers, LIMIT)?;
        if LIMIT <= SMALL {
            let body = read(body, LIMIT).await?;
            head.extensions.get::<SentBody>().into_iter().for_each(|sent| sent.keep(&body));
            return Ok(Self(body));
        }
        let turns = &state.turns.large_bodies;
        let _turn = turns
            .try_acquire()
            .map_err(|_| Problem::new(&STORE_UNAVAILABLE, "too many long lists at once"))?;
        read(body, LIMIT).await.map(Self)
    }
}

/// An optional JSON body.
pub(crate) struct MaybeJson<const LIMIT: usize>(pub(crate) Option<Bytes>);

impl<const LIMIT: usize> FromRequest<Arc<App>> for MaybeJson<LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Arc<App>) -> Result<Self, Problem> {
        if request.headers().contains_key(CONTENT_TYPE) {
            return Json::<LIMIT>::from_request(request, state)
                .await
                .map(|Json(body)| Self(Some(body)));
        }
        if read(request.into_body(), LIMIT).await?.is_empty() {
            return Ok(Self(None));
        }
        Err(Problem::new(&UNSUPPORTED_MEDIA_TYPE, "the body should be application/json")
            .on("Content-Type"))
    }
}

/// Refuses a body that `Content-Length` announces as too large, before it arrives.
fn refuse_announced(headers: &HeaderMap, limit: usize) -> Result<(), Problem> {
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|announced: u64| announced > limit as u64) {
        return Err(too_large(limit));
    }
    Ok(())
}

fn too_large(limit: usize) -> Problem {
    Problem::new(&TOO_LARGE, format!("a body of this call may have at most {limit} bytes"))
}

/// Refuses compressed bodies: a small one can expand to a huge one.
fn refuse_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            Err(Problem::new(&UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not accepted")
                .on("Content-Encoding"))
        }
        _ => Ok(()),
    }
}

/// Reads the whole body within the size limit and the timeout.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Problem> {
    // What `Content-Length` announces is refused before it arrives.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_large(&error) => Err(too_large(limit)),
        Ok(Err(_)) => Err(Problem::new(&INVALID_REQUEST, "the body ended early")),
        Err(_) => Err(Problem::new(
            &REQUEST_TIMEOUT,
            format!("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs()),
        )),
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Parses a JSON object as a `T`. An error names the field.
pub(crate) fn parse_object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    // serde would also accept an array of the struct's values in order.
    if json.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|&byte| byte != b'{') {
        let problem = Problem::new(&INVALID_REQUEST, "expected a JSON object");
        return Err(if serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok() {
            problem
        } else {
            not_json()
        });
    }
    if let Ok(value) = serde_json::from_slice(json) {
        return Ok(value);
    }
    // Again, to find out which field is wrong: keeping track of the path costs as much as parsing.
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value =
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| describe(&error))?;
    deserializer.end().map_err(|_| not_json())?;
    Ok(value)
}

pub(crate) fn not_json() -> Problem {
    Problem::new(&INVALID_REQUEST, "the body is not JSON")
}

fn describe(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let inner = error.inner();
    if !inner.is_data() {
        return not_json();
    }
    let message = inner.to_string();
    // serde names a missing or unknown field only in its message; the path ends at the parent.
    for start in ["unknown field `", "missing field `", "duplicate field `"] {
        if let Some(name) = message.strip_prefix(start).and_then(|rest| rest.split('`').next()) {
            let what = start.trim_end_matches(" field `");
            return Problem::invalid(short(name), format!("{what} field `{}`", short(name)));
        }
    }
    let path = error.path().to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let mut detail: String = message.chars().take(200).collect();
    // Replace the names of Rust types, which mean nothing to a client.
    for (ours, theirs) in
        [("u64", "a whole number, 0 or more"), ("a sequence", "a list"), ("struct ", "an object ")]
    {
        detail = detail.replace(&format!("expected {ours}"), &format!("expected {theirs}"));
    }
    match path.as_str() {
        "." | "?" => Problem::new(&INVALID_REQUEST, detail),
        path => Problem::invalid(short(path), detail),
    }
}
