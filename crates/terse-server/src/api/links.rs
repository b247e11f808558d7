//! Creates, reads, changes, deletes and restores one link at a time.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use terse_core::{
    Caller, Code, Created, Creator, Domain, Hosts, Link, LinkError, LinkKey, Revision, Timestamp,
    ValidationErrorKind,
};

use super::shapes::{CreateLinkBody, LinkBody, PatchLink};
use crate::counts::click_counts;
use crate::describe;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Authenticated, MayCreate, Name};
use crate::http::limit_headers;
use crate::http::params::{NoParams, Params};
use crate::http::problem::{PRECONDITION_FAILED, Problem};
use crate::http::spelling::{Spelling, in_camel_case};
use crate::http::state::{App, Web};

const REPLAYED: &str = "idempotency-replayed";

/// Create a link
///
/// Answers once the link is on stable storage and can be followed everywhere. Asking for the same
/// target with the same alias and options again returns the same link (200) unless `reuse` is
/// false; a `ttl` counts from the first time. A request in camelCase is answered in camelCase.
/// Without a key this works where the operator allows it, and such links expire soon.
#[describe::path(post, path = "/api/v1/urls", operation_id = "create_link", tag = "Links",
    request_body(content = CreateLinkBody),
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Makes it safe to repeat the same request for 24 hours: it gets \
                the first answer again. 1 to 255 visible ASCII characters.",
        min_length = 1, max_length = 255, pattern = "^[!-~]+$", nullable = false)),
    responses(
        (status = 201, description = "The new link", body = LinkBody, headers(
            ("ETag" = String, description = "The revision"),
            ("Location" = String, description = "The link's address in the API"),
            ("Idempotency-Replayed" = String,
                description = "`true` if this repeats the answer to an earlier request"),
            ("RateLimit-Limit" = u32,
                description = "How many links may be created, where that is limited"),
            ("RateLimit-Remaining" = u32, description = "How many of them are left"),
            ("RateLimit-Reset" = u64,
                description = "Seconds until the whole limit is available again"))),
        (status = 200, description = "A link that existed before", body = LinkBody, headers(
            ("ETag" = String, description = "The revision"),
            ("Idempotency-Replayed" = String,
                description = "`true` if this repeats the answer to an earlier request"),
            ("RateLimit-Limit" = u32,
                description = "How many links may be created, where that is limited"),
            ("RateLimit-Remaining" = u32, description = "How many of them are left"),
            ("RateLimit-Reset" = u64,
                description = "Seconds until the whole limit is available again"))),
        super::answers::CreateProblems),
    security((), ("key" = [])))]
pub(super) async fn create(
    State(state): Web,
    MayCreate(creator): MayCreate,
    _: NoParams,
    headers: HeaderMap,
    Json(body): Json<SMALL>,
) -> Result<Response, Problem> {
    create_one(&state, &creator, &headers, &body).await
}

/// Create a link (the same as `POST /api/v1/urls`)
#[describe::path(post, path = "/api/v1/shorten", operation_id = "shorten", tag = "Links",
    request_body(content = CreateLinkBody),
    params(("Idempotency-Key" = Option<String>, Header, description = "As for `POST /api/v1/urls`.",
        min_length = 1, max_length = 255, pattern = "^[!-~]+$", nullable = false)),
    responses(
        (status = 201, description = "The new link", body = LinkBody, headers(
            ("ETag" = String, description = "The revision"),
            ("Location" = String, description = "The link's address in the API"),
            ("Idempotency-Replayed" = String,
                description = "`true` if this repeats the answer to an earlier request"),
            ("RateLimit-Limit" = u32,
                description = "How many links may be created, where that is limited"),
            ("RateLimit-Remaining" = u32, description = "How many of them are left"),
            ("RateLimit-Reset" = u64,
                description = "Seconds until the whole limit is available again"))),
        (status = 200, description = "A link that existed before", body = LinkBody, headers(
            ("ETag" = String, description = "The revision"),
            ("Idempotency-Replayed" = String,
                description = "`true` if this repeats the answer to an earlier request"),
            ("RateLimit-Limit" = u32,
                description = "How many links may be created, where that is limited"),
            ("RateLimit-Remaining" = u32, description = "How many of them are left"),
            ("RateLimit-Reset" = u64,
                description = "Seconds until the whole limit is available again"))),
        super::answers::CreateProblems),
    security((), ("key" = [])))]
pub(super) async fn shorten(
    State(state): Web,
    MayCreate(creator): MayCreate,
    _: NoParams,
    headers: HeaderMap,
    Json(body): Json<SMALL>,
) -> Result<Response, Problem> {
    create_one(&state, &creator, &headers, &body).await
}

async fn create_one(
    state: &App,
    creator: &Creator,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, Problem> {
    let key = idempotency_key(headers)?;
    let create =
        parse_object::<CreateLinkBody>(body).inspect_err(|_| state.creation.count_malformed())?;
    let creation = state.creation.begin(creator, 1).await?;
    let result = creation.create(create.into_draft(creator, key, None)).await;
    let left = creation.finish().await;
    let mut response = match result {
        Ok(made) => created(state, &made, Spelling::of(body).is_camel_case()).await,
        Err(error) => Problem::from(error).into_response(),
    };
    limit_headers::add(&left, response.headers_mut());
    Ok(response)
}

async fn created(state: &App, made: &Created, camel_case: bool) -> Response {
    let link = &made.link;
    let status = if made.new { StatusCode::CREATED } else { StatusCode::OK };
    let clicks = match made.new {
        // A new link has no clicks, so this does not query the click store.
        true => Some(0),
        false => clicks_of(state, link).await,
    };
    // A replay repeats the first answer, whatever has happened to the link since.
    let now = if made.new && made.replayed { link.created_at } else { state.links.now() };
    let mut response = answer_with(state, status, link, clicks, now, camel_case);
    if made.new
        && let Ok(place) = HeaderValue::try_from(location(link))
    {
        response.headers_mut().insert(header::LOCATION, place);
    }
    if made.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// The link's path in the API.
fn location(link: &Link) -> String {
    let LinkKey { domain, code } = &link.key;
    match domain.is_primary() {
        true => format!("/api/v1/urls/{code}"),
        false => format!("/api/v1/urls/{code}?domain={}", domain.as_str()),
    }
}

/// The caller's idempotency key, if one was sent.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut sent = headers.get_all("idempotency-key").iter();
    let Some(value) = sent.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| {
        (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    });
    match (text, sent.next()) {
        (Some(text), None) => Ok(Some(text)),
        _ => {
            Err(Problem::invalid("Idempotency-Key", "one key of 1 to 255 visible ASCII characters"))
        }
    }
}

/// Read a link
#[describe::path(get, path = "/api/v1/urls/{code}", operation_id = "get_link", tag = "Links",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The \
        link", body = LinkBody, headers(("ETag" = String, description = "The revision"))),
        super::answers::GetProblems),
    security(("key" = [])))]
pub(super) async fn get(
    State(state): Web,
    Authenticated(caller): Authenticated,
    params: Params,
    Name(code): Name,
) -> Result<Response, Problem> {
    let link = readable(&state, caller, params, &code).await?;
    Ok(answer(&state, StatusCode::OK, &link).await)
}

/// Change a link
///
/// With `If-Match`, only if the link is still at that revision.
#[describe::path(patch, path = "/api/v1/urls/{code}", operation_id = "change_link", tag = "Links",
    request_body(content = PatchLink),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false),
        ("If-Match" = Option<String>, Header,
            description = "The `ETag` of the link as you read it, or `*`",
            min_length = 1, pattern = "^(\"[0-9]{1,19}\"|[0-9]{1,19}|[*])$", nullable = false)),
    responses((status = 200, description = "The link as it is now", body = LinkBody,
            headers(("ETag" = String, description = "The revision"))),
        super::answers::PatchProblems),
    security(("key" = [])))]
pub(super) async fn patch(
    State(state): Web,
    Authenticated(caller): Authenticated,
    params: Params,
    Name(code): Name,
    headers: HeaderMap,
    Json(body): Json<SMALL>,
) -> Result<Response, Problem> {
    let key = link_key(&state, params, &code)?;
    let expected = if_match(&headers)?;
    let patch: PatchLink = parse_object(&body)?;
    let changed = state.links.patch(caller, &key, &patch.into_patch(), expected).await;
    let link = changed.map_err(|error| conflict(error, expected))?;
    Ok(answer(&state, StatusCode::OK, &link).await)
}

/// Maps the error of a change. After a conflict, a client that sent `If-Match` gets 412.
pub(super) fn conflict(error: LinkError, expected: Option<Revision>) -> Problem {
    match error {
        LinkError::Conflict if expected.is_some() => {
            Problem::new(&PRECONDITION_FAILED, "the link was changed since; read it again")
                .on("If-Match")
        }
        error => error.into(),
    }
}

/// Delete a link
///
/// It stops redirecting at once. For a while it can be restored; deleting it again changes nothing.
#[describe::path(delete, path = "/api/v1/urls/{code}", operation_id = "delete_link", tag = "Links",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 204, description = "It is deleted"), super::answers::TouchProblems),
    security(("key" = [])))]
pub(super) async fn delete(
    State(state): Web,
    Authenticated(caller): Authenticated,
    params: Params,
    Name(code): Name,
) -> Result<StatusCode, Problem> {
    let key = link_key(&state, params, &code)?;
    state.links.delete(caller, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Restore a deleted link
#[describe::path(post, path = "/api/v1/urls/{code}/restore", operation_id = "restore_link",
    tag = "Links",
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The link, as before", body = LinkBody,
            headers(("ETag" = String, description = "The revision"))),
        super::answers::TouchProblems),
    security(("key" = [])))]
pub(super) async fn restore(
    State(state): Web,
    Authenticated(caller): Authenticated,
    params: Params,
    Name(code): Name,
) -> Result<Response, Problem> {
    let key = link_key(&state, params, &code)?;
    let link = state.links.restore(caller, &key).await?;
    Ok(answer(&state, StatusCode::OK, &link).await)
}

/// The key of the link that a path and `?domain=` name. An invalid code is reported as not found.
pub(super) fn link_key(state: &App, mut params: Params, code: &str) -> Result<LinkKey, Problem> {
    let domain = params.take("domain");
    params.done()?;
    let domain = domain
        .map(|host| domain_of(&state.links.rules().hosts, &host))
        .transpose()?
        .unwrap_or_else(Domain::primary);
    let code = Code::parse(code).ok_or_else(Problem::no_link)?;
    Ok(LinkKey { domain, code })
}

pub(super) fn domain_of(hosts: &Hosts, host: &str) -> Result<Domain, Problem> {
    let refusal = || {
        terse_core::ValidationError::new(
            ValidationErrorKind::InvalidRequest,
            "domain",
            "not a short domain of this server",
        )
        .into()
    };
    hosts.domain_of(host).ok_or_else(refusal)
}

/// The revision in `If-Match`; `None` for `*` or without the header.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<Revision>, Problem> {
    let refuse = || Problem::invalid("If-Match", "one ETag as we gave it, such as \"3\", or *");
    let mut sent = headers.get_all(header::IF_MATCH).iter();
    let Some(value) = sent.next() else { return Ok(None) };
    let text = value.to_str().map_err(|_| refuse())?.trim();
    if sent.next().is_some() {
        return Err(refuse());
    }
    if text == "*" {
        return Ok(None);
    }
    // Many clients drop the quotation marks; the value is unambiguous without them.
    let digits = text.strip_prefix('"').map_or(Some(text), |rest| rest.strip_suffix('"'));
    let digits = digits.filter(|digits| {
        (1..=19).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
    });
    digits
        .and_then(|digits| digits.parse().ok())
        .map(|revision| Some(Revision(revision)))
        .ok_or_else(refuse)
}

/// The caller's link that a path and `?domain=` name.
pub(super) async fn readable(
    state: &App,
    caller: Caller,
    params: Params,
    code: &str,
) -> Result<Link, Problem> {
    let link = state.links.get(caller, &link_key(state, params, code)?).await?;
    // A deleted link can be listed and restored, but not read.
    if link.deleted_at.is_some() { Err(Problem::no_link()) } else { Ok(link) }
}

/// A link as JSON, with its revision as `ETag`.
pub(super) async fn answer(state: &App, status: StatusCode, link: &Link) -> Response {
    let clicks = clicks_of(state, link).await;
    answer_with(state, status, link, clicks, state.links.now(), false)
}

async fn clicks_of(state: &App, link: &Link) -> Option<u64> {
    click_counts(state, std::iter::once(link)).await.pop().flatten()
}

fn answer_with(
    state: &App,
    status: StatusCode,
    link: &Link,
    clicks: Option<u64>,
    now: Timestamp,
    camel_case: bool,
) -> Response {
    let body = LinkBody::new(link, clicks, &state.links.rules().hosts, now);
    let etag = [(header::ETAG, format!("\"{}\"", body.revision))];
    match camel_case {
        true => (status, etag, axum::Json(in_camel_case(&body))).into_response(),
        false => (status, etag, axum::Json(body)).into_response(),
    }
}
