//! What moderators do about links and their owners. Each act is in the audit log before it is done:
//! a crash in between leaves a line too many, never one too few.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use terse_core::registry::{
    Account, AccountChange, AuditAction, ChangeAccount, ReportState, Role, Suspension, subject,
};
use terse_core::{Caller, Link, LinkError, LinkKey, ModerationStatus, OwnerId, Patch, REPORTED};
use utoipa::ToSchema;

use super::account_bodies::reason;
use super::answers::{BanProblems, StandingProblems};
use super::links::link_key;
use super::moderated::{ModeratedLink, Names, judge_word, standing_word};
use super::shapes::SetStanding;
use super::users::not_yourself;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Moderator, Name};
use crate::http::params::Params;
use crate::http::problem::{CONFLICT, FORBIDDEN, NO_OWNER, Problem};
use crate::http::state::{App, Web};
use terse_core::Principal;

/// How often a judgement is tried again when others change the same link.
const ATTEMPTS: u32 = 8;

/// Why something is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Because, example = json!({ "why": "imitates a bank" }))]
pub(crate) struct RequiredReason {
    /// For the audit log.
    #[schema(min_length = 1, max_length = 1000)]
    why: String,
}

/// Judge a link
#[utoipa::path(put, path = "/api/v1/admin/links/{code}/standing", operation_id = "judge_link", tag = "Admin",
    request_body(content = SetStanding),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{3,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The link as it is now", body = ModeratedLink,
            headers(("ETag" = String, description = "The revision"))),
        StandingProblems),
    security(("key" = [])))]
pub(super) async fn set_standing(
    State(state): Web,
    Moderator(principal): Moderator,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<Response, Problem> {
    let key = link_key(&state, params, &code)?;
    let SetStanding { standing, why } = parse_object(&body)?;
    let why = why.as_deref().map(reason).transpose()?;
    judge(&state, &principal, &key, standing.into(), why).await
}

/// Confirm reports: take the link down
///
/// It answers 451 from now on, and its code is never given out again. Its open reports are settled.
#[utoipa::path(post, path = "/api/v1/admin/links/{code}/confirm", operation_id = "confirm_reports", tag = "Admin",
    request_body(content = RequiredReason),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{3,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The link as it is now", body = ModeratedLink,
            headers(("ETag" = String, description = "The revision"))),
        StandingProblems),
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
    judge(&state, &principal, &key, ModerationStatus::Blocked, Some(why)).await
}

/// Clear a link: nothing is wrong with it
///
/// It redirects from now on, whatever lists, flags and reports say, until its target changes or a
/// moderator thinks otherwise. Its open reports are settled.
#[utoipa::path(post, path = "/api/v1/admin/links/{code}/clear", operation_id = "clear_link", tag = "Admin",
    request_body(content = RequiredReason),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{3,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The link as it is now", body = ModeratedLink,
            headers(("ETag" = String, description = "The revision"))),
        StandingProblems),
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
    judge(&state, &principal, &key, ModerationStatus::Clear, Some(why)).await
}

/// An owner who was suspended.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "id": 1000, "name": "ann", "suspended_at": "2026-11-15T21:00:00Z" }))]
pub(crate) struct BannedOwner {
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
/// Their keys and sessions open nothing and their links lead nowhere, until they are reinstated.
/// Only an admin suspends a moderator or an admin.
#[utoipa::path(post, path = "/api/v1/admin/links/{code}/ban_owner", operation_id = "ban_owner", tag = "Admin",
    request_body(content = RequiredReason),
    params(("code" = String, Path, description = "The link's \
        code", pattern = "^[A-Za-z0-9_-]{3,64}$"),
        ("domain" = Option<String>, Query, description = "The link's short domain, if not the \
            primary one", max_length = 253, nullable = false)),
    responses((status = 200, description = "The owner as they are \
        now", body = BannedOwner), BanProblems),
    security(("key" = [])))]
pub(super) async fn ban_owner(
    State(state): Web,
    Moderator(principal): Moderator,
    params: Params,
    Name(code): Name,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<BannedOwner>, Problem> {
    let key = link_key(&state, params, &code)?;
    let why = reason(&parse_object::<RequiredReason>(&body)?.why)?;
    let link = state.links.get(Caller::OPERATOR, &key).await?;
    let nobody = || Problem::new(&NO_OWNER, "nobody with an account owns this link");
    if link.owner == OwnerId::ADMIN {
        return Err(Problem::new(&FORBIDDEN, "this link is the operator's"));
    }
    let mut owner = state.registry.account(link.owner).await?.ok_or_else(nobody)?;
    if owner.id == principal.owner() {
        return Err(not_yourself());
    }
    if owner.role >= Role::Moderator && principal.role < Role::Admin {
        return Err(Problem::new(&FORBIDDEN, "only an admin suspends a moderator or an admin"));
    }
    // A suspension that is there already stays as it is, with its own reason.
    if owner.suspended.is_none() {
        let by = state.by(principal.owner(), Some(why.clone()));
        let suspended = Some(Some(Suspension { at: by.at, why }));
        // At this very revision: who has become a moderator since is another matter.
        let change = ChangeAccount {
            id: owner.id,
            change: AccountChange { suspended, ..AccountChange::default() },
            expected: Some(owner.revision),
        };
        owner = state.registry.change_account(change, by).await?;
        state.registry_refresh.refresh().await;
    }
    let Account { id, name, suspended, .. } = owner;
    let suspended_at = suspended.map(|since| since.at.to_string());
    Ok(axum::Json(BannedOwner { id: id.0, name: name.as_str().to_owned(), suspended_at }))
}

/// Notes what is about to be done, does it, settles the reports, and answers with the link.
async fn judge(
    state: &App,
    principal: &Principal,
    key: &LinkKey,
    standing: ModerationStatus,
    why: Option<String>,
) -> Result<Response, Problem> {
    let link = judged(state, principal, key, standing, why.clone()).await?;
    let settled = match standing {
        ModerationStatus::Clear => ReportState::Cleared,
        ModerationStatus::Blocked => ReportState::Confirmed,
        ModerationStatus::Suspicious => ReportState::Open,
    };
    if settled != ReportState::Open {
        state.registry.settle_reports(key, settled, state.by(principal.owner(), why)).await?;
    }
    let body = ModeratedLink::new(state, &mut Names::default(), &link).await?;
    let tag = HeaderValue::try_from(format!("\"{}\"", body.revision)).ok();
    let mut response = axum::Json(body).into_response();
    if let Some(tag) = tag {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

async fn judged(
    state: &App,
    principal: &Principal,
    key: &LinkKey,
    standing: ModerationStatus,
    why: Option<String>,
) -> Result<Link, Problem> {
    let patch = Patch { standing: Some(standing), ..Patch::default() };
    let mut noted = None;
    for _ in 0..ATTEMPTS {
        let link = state.links.get(Caller::OPERATOR, key).await?;
        let (before, after) = (told(&link), told_after(&link, standing));
        if before == after {
            return Ok(link);
        }
        // Somebody who changed the title meanwhile makes it no other act.
        if noted.as_ref() != Some(&before) {
            let change = (Some(before.to_string()), Some(after.to_string()));
            let by = state.by(principal.owner(), why.clone());
            state.registry.note(AuditAction::LinkJudged, &subject::link(key), change, by).await?;
            noted = Some(before);
        }
        match state.links.patch(Caller::OPERATOR, key, &patch, Some(link.revision)).await {
            Err(LinkError::Conflict) => {}
            outcome => return Ok(outcome?),
        }
    }
    Err(Problem::new(&CONFLICT, "somebody else keeps changing the link; try again"))
}

fn told(link: &Link) -> Value {
    let flags: Vec<&str> = link.flags.iter().collect();
    json!({ "standing": standing_word(link.standing), "judged_by": judge_word(link.judged), "flags": flags })
}

fn told_after(link: &Link, standing: ModerationStatus) -> Value {
    let flags: Vec<&str> = link
        .flags
        .iter()
        .filter(|flag| standing != ModerationStatus::Clear || *flag != REPORTED)
        .collect();
    json!({ "standing": standing_word(standing), "judged_by": "moderator", "flags": flags })
}
