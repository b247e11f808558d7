//! Moderators' actions on links and their owners.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use terse_core::accounts::reason;
use terse_core::registry::Account;
use terse_core::{LinkKey, ModerationStatus, Principal};

use super::links::link_key;
use super::moderated::{ModeratedLink, Names};
use super::shapes::SetModerationStatus;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Moderator, Name};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// A reason.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RequiredReason, example = json!({ "why": "imitates a bank" }))]
pub(crate) struct RequiredReason {
    /// For the audit log.
    #[schema(min_length = 1, max_length = 1000)]
    why: String,
}

/// Set the moderation status of a link
#[describe::path(put, path = "/api/v1/admin/links/{code}/standing", operation_id = "judge_link",
    tag = "Admin",
    request_body(content = SetModerationStatus),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The link as it is now", body = ModeratedLink,
            headers(("ETag" = String, description = "The revision"))),
        super::answers::ModerationStatusProblems),
    security(("key" = [])))]
pub(super) async fn set_standing(
    State(state): Web,
    Moderator(principal): Moderator,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<Response, Problem> {
    let key = link_key(&state, params, &code)?;
    let SetModerationStatus { standing, why } = parse_object(&body)?;
    let why = why.as_deref().map(reason).transpose()?;
    set_status(&state, &principal, &key, standing.into(), why).await
}

/// Confirm reports and block the link
///
/// It answers 451 from now on, and its code is never issued again. Its open reports are settled.
#[describe::path(post, path = "/api/v1/admin/links/{code}/confirm", operation_id = "confirm_reports",
    tag = "Admin",
    request_body(content = RequiredReason),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The link as it is now", body = ModeratedLink,
            headers(("ETag" = String, description = "The revision"))),
        super::answers::ModerationStatusProblems),
    security(("key" = [])))]
pub(super) async fn confirm(
    State(state): Web,
    Moderator(principal): Moderator,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<Response, Problem> {
    let key = link_key(&state, params, &code)?;
    let why = reason(&parse_object::<RequiredReason>(&body)?.why)?;
    set_status(&state, &principal, &key, ModerationStatus::Blocked, Some(why)).await
}

/// Clear a link
///
/// It redirects from now on, whatever lists, flags and reports say, until its target changes or a
/// moderator decides otherwise. Its open reports are settled.
#[describe::path(post, path = "/api/v1/admin/links/{code}/clear", operation_id = "clear_link",
    tag = "Admin",
    request_body(content = RequiredReason),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The link as it is now", body = ModeratedLink,
            headers(("ETag" = String, description = "The revision"))),
        super::answers::ModerationStatusProblems),
    security(("key" = [])))]
pub(super) async fn clear(
    State(state): Web,
    Moderator(principal): Moderator,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<Response, Problem> {
    let key = link_key(&state, params, &code)?;
    let why = reason(&parse_object::<RequiredReason>(&body)?.why)?;
    set_status(&state, &principal, &key, ModerationStatus::Clear, Some(why)).await
}

/// An owner who was suspended.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "id": 1000, "name": "ann", "suspended_at": "2026-11-15T21:00:00Z" }))]
pub(crate) struct SuspendedOwner {
    /// The account.
    #[schema(minimum = 1000)]
    id: u64,
    /// Its name.
    name: String,
    /// Since when it is suspended.
    #[schema(required = true, format = DateTime)]
    suspended_at: Option<String>,
}

/// Suspend a link's owner
///
/// The account's keys and sessions stop working and its links stop redirecting until it is
/// reinstated. Only an admin suspends a moderator or an admin.
#[describe::path(post, path = "/api/v1/admin/links/{code}/suspend_owner", operation_id = "suspend_owner",
    tag = "Admin",
    request_body(content = RequiredReason),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The owner as it is now", body = SuspendedOwner),
        super::answers::SuspendOwnerProblems),
    security(("key" = [])))]
pub(super) async fn suspend_owner(
    State(state): Web,
    Moderator(principal): Moderator,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<SuspendedOwner>, Problem> {
    let key = link_key(&state, params, &code)?;
    let why = reason(&parse_object::<RequiredReason>(&body)?.why)?;
    let owner = state.moderation.suspend_owner(&principal, &key, why).await?;
    let Account { id, name, suspended, .. } = owner;
    let suspended_at = suspended.map(|since| since.at.to_string());
    Ok(axum::Json(SuspendedOwner { id: id.0, name: name.as_str().to_owned(), suspended_at }))
}

/// Suspend a link's owner, by the old name of the call
///
/// The same as `suspend_owner`, for clients of earlier versions.
#[describe::path(post, path = "/api/v1/admin/links/{code}/ban_owner", operation_id = "ban_owner",
    tag = "Admin",
    request_body(content = RequiredReason),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{1,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The owner as it is now", body = SuspendedOwner),
        super::answers::SuspendOwnerProblems),
    security(("key" = [])))]
pub(super) async fn ban_owner(
    state: Web,
    moderator: Moderator,
    params: Params,
    name: Name,
    body: Json<SMALL>,
) -> Result<axum::Json<SuspendedOwner>, Problem> {
    suspend_owner(state, moderator, params, name, body).await
}

/// Applies a moderation decision and returns the link.
async fn set_status(
    state: &App,
    principal: &Principal,
    key: &LinkKey,
    status: ModerationStatus,
    why: Option<String>,
) -> Result<Response, Problem> {
    let link = state.moderation.set_status(principal, key, status, why).await?;
    let body = ModeratedLink::new(state, &mut Names::default(), &link).await?;
    let tag = HeaderValue::try_from(format!("\"{}\"", body.revision)).ok();
    let mut response = axum::Json(body).into_response();
    if let Some(tag) = tag {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}
