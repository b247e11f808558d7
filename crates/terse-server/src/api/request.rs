//! What a request says: who is asking, the query, the body. Each is read strictly, so that a typo
//! never passes silently.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, request};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use terse_core::Caller;
use terse_core::registry::Role;
use tokio::sync::Semaphore;

use super::problem::{
    INVALID_REQUEST, Problem, STORE_UNAVAILABLE, TOO_LARGE, UNAUTHORIZED, UNSUPPORTED_MEDIA_TYPE,
};
use crate::limits::Allowance;
use crate::principal::Principal;
use crate::router::AppState;
use crate::stats::CreateResult;

/// The most a single link's body may hold: the longest target, four times over, and all the rest.
pub(crate) const SMALL: usize = 64 * 1024;
/// The most a list of links may hold.
pub(crate) const LARGE: usize = 10 * 1024 * 1024;
/// How many long lists are read at the same time: together they are held in memory.
static LARGE_BODIES: Semaphore = Semaphore::const_new(16);
/// A body that trickles in is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// Whoever asks, with a key or without. A key that is shown must be right, even where none is
/// needed.
pub(crate) struct Anyone(pub(crate) Principal);
/// Whoever may make links here. Strangers who may not, and those who ask too often, are turned away
/// before their body is read.
pub(crate) struct Creator {
    pub(crate) caller: Caller,
    /// Tells strangers apart, who have no key to be known by; empty for owners.
    pub(crate) place: String,
    /// How much may be made.
    pub(crate) allowance: Allowance,
}
/// Whom a request is from, as far as whoever took it in knows: the client's address, not that of a
/// proxy.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);
impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(request: &mut request::Parts, _: &S) -> Result<Self, Infallible> {
        // Those of whom nobody knows where they are count as one.
        Ok(request
            .extensions
            .get()
            .copied()
            .unwrap_or(Self(std::net::Ipv4Addr::UNSPECIFIED.into())))
    }
}

/// Somebody with a key or a session, good for looking if the method only looks, else for
/// everything.
pub(crate) struct Keyed(pub(crate) Caller);
/// The same for a method that says more than it does: it looks, and changes nothing.
pub(crate) struct ReadOnly(pub(crate) Caller);
/// The same, for what is about the account rather than about links.
pub(crate) struct Member(pub(crate) Principal);
/// A moderator or an admin.
pub(crate) struct Moderator(pub(crate) Principal);
/// An admin.
pub(crate) struct Operator(pub(crate) Caller);

impl FromRequestParts<Arc<AppState>> for Anyone {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        Principal::of(state, &request.method, &request.headers).await.map(Self)
    }
}

impl FromRequestParts<Arc<AppState>> for Creator {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        let principal = Anyone::from_request_parts(request, state).await?.0.may_create()?;
        let caller = principal.caller;
        if caller == Caller::Anonymous && !state.links.rules().anonymous_create {
            return Err(
                Problem::new(&UNAUTHORIZED, "making links needs a key here").on("Authorization")
            );
        }
        let peer = request.extensions.get::<Peer>().map(|peer| peer.0);
        let allowance = state.limits.allowance(&principal, peer);
        state
            .limits
            .ask(allowance)
            .await
            .inspect_err(|_| state.stats.count_create(CreateResult::Limited))?;
        let place = peer
            .filter(|_| caller == Caller::Anonymous)
            .map(|peer| peer.to_string())
            .unwrap_or_default();
        Ok(Self { caller, place, allowance })
    }
}

impl FromRequestParts<Arc<AppState>> for Keyed {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        known(request, state).await.map(|principal| Self(principal.caller))
    }
}

impl FromRequestParts<Arc<AppState>> for ReadOnly {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        let principal = Anyone::from_request_parts(request, state)
            .await?
            .0
            .known()?
            .in_scope(&axum::http::Method::GET)?;
        Ok(Self(principal.caller))
    }
}

impl FromRequestParts<Arc<AppState>> for Member {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        known(request, state).await.map(Self)
    }
}

impl FromRequestParts<Arc<AppState>> for Moderator {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        known(request, state).await?.at_least(Role::Moderator).map(Self)
    }
}

impl FromRequestParts<Arc<AppState>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        known(request, state).await?.at_least(Role::Admin).map(|principal| Self(principal.caller))
    }
}

/// Somebody who has shown what opens this method.
async fn known(request: &mut request::Parts, state: &Arc<AppState>) -> Result<Principal, Problem> {
    Anyone::from_request_parts(request, state).await?.0.known()?.in_scope(&request.method)
}

/// The variable part of a path. What is not even UTF-8 is empty, and so never found, rather than an
/// error of its own.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Infallible;

    async fn from_request_parts(
        request: &mut request::Parts,
        state: &S,
    ) -> Result<Self, Infallible> {
        let name = Path::<String>::from_request_parts(request, state).await;
        Ok(Self(name.map(|Path(name)| name).unwrap_or_default()))
    }
}

/// The query, taken apart. Whoever reads it takes what they know and then says `done`: what is left
/// was a mistake.
#[derive(Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// From `a=b&c=d`, as in a query or a form. A name given twice is refused: one of the two would
    /// be ignored.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let mut params: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).ok_or_else(|| {
                Problem::new(&INVALID_REQUEST, "a name in the query is not UTF-8")
            })?;
            let value = decode(value).ok_or_else(|| Problem::invalid(short(&name), "not UTF-8"))?;
            if params.iter().any(|(have, _)| *have == name) {
                return Err(Problem::invalid(
                    short(&name),
                    format!("`{}` is given twice", short(&name)),
                ));
            }
            params.push((name, value));
            if params.len() > 32 {
                return Err(Problem::new(&INVALID_REQUEST, "too many parameters"));
            }
        }
        Ok(Self(params))
    }

    /// The value of a parameter, once.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(have, _)| have == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Nothing may be left.
    pub(crate) fn done(self) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Problem::invalid(
                short(name),
                format!("`{}` is not a parameter of this call", short(name)),
            )),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut request::Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(request.uri.query().unwrap_or_default())
    }
}

/// A call that knows no parameters.
pub(crate) struct NoParams;

impl<S: Sync> FromRequestParts<S> for NoParams {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut request::Parts, state: &S) -> Result<Self, Problem> {
        Params::from_request_parts(request, state).await?.done().map(|()| Self)
    }
}

fn decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// Names of strangers are shown, but not at length.
fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

/// A number from 1 to `most`. Digits only, so that neither a sign nor a space passes; zeros in
/// front do not make it octal.
pub(crate) fn whole_number(field: &'static str, text: &str, most: u64) -> Result<u64, Problem> {
    let digits =
        !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.trim_start_matches('0').parse().ok()).flatten();
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| Problem::invalid(field, format!("a whole number from 1 to {most}")))
}

/// A JSON body of at most `LIMIT` octets, not yet parsed.
pub(crate) struct Json<const LIMIT: usize>(pub(crate) Bytes);

impl<const LIMIT: usize> FromRequest<Arc<AppState>> for Json<LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Arc<AppState>) -> Result<Self, Problem> {
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
        if LIMIT <= SMALL {
            return read(body, LIMIT).await.map(Self);
        }
        let _turn = LARGE_BODIES
            .try_acquire()
            .map_err(|_| Problem::new(&STORE_UNAVAILABLE, "too many long lists at once"))?;
        read(body, LIMIT).await.map(Self)
    }
}

/// A JSON body that may be left out.
pub(crate) struct MaybeJson<const LIMIT: usize>(pub(crate) Option<Bytes>);

impl<const LIMIT: usize> FromRequest<Arc<AppState>> for MaybeJson<LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Arc<AppState>) -> Result<Self, Problem> {
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

/// A small compressed body may be a huge one: nobody needs that here.
fn refuse_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            Err(Problem::new(&UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not taken")
                .on("Content-Encoding"))
        }
        _ => Ok(()),
    }
}

/// The whole body, if it is not too large and does not take too long.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Problem> {
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_large(&error) => {
            Err(Problem::new(&TOO_LARGE, format!("a body has at most {limit} octets here")))
        }
        Ok(Err(_)) => Err(Problem::new(&INVALID_REQUEST, "the body ended early")),
        Err(_) => Err(Problem::new(&INVALID_REQUEST, "the body took too long to arrive")),
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

/// A JSON object as a `T`; the problem names the field.
pub(crate) fn parse_object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    // A struct could also be read from an array of its values in order, which nobody means.
    if json.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|&byte| byte != b'{') {
        let problem = Problem::new(&INVALID_REQUEST, "expected a JSON object");
        return Err(if serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok() {
            problem
        } else {
            not_json()
        });
    }
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
    // serde names the field in the text only; where it is missing or unknown the path stops at its
    // parent.
    for start in ["unknown field `", "missing field `", "duplicate field `"] {
        if let Some(name) = message.strip_prefix(start).and_then(|rest| rest.split('`').next()) {
            let what = start.trim_end_matches(" field `");
            return Problem::invalid(short(name), format!("{what} field `{}`", short(name)));
        }
    }
    let path = error.path().to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let mut detail: String = message.chars().take(200).collect();
    // The names of our own types mean nothing to a client.
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
