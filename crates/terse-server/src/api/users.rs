//! All accounts, for moderators and admins.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use terse_core::accounts::{AccountDraft, AccountEdit, reason};
use terse_core::{Cursor, OwnerId};

use super::account::erased;
use super::account_bodies::{UserBody, account_id};
use super::shapes::given;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::cursor::CursorSeal;
use crate::http::extract::{Admin, Moderator, Name};
use crate::http::params::{NoParams, Params, whole_number};
use crate::http::problem::Problem;
use crate::http::state::{Web, reset_url};

/// An account to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "name": "ann", "role": "user", "password": "correct horse battery \
    staple" }))]
pub(crate) struct CreateUser {
    /// The name to sign in with: letters, digits and `. _ - + @`. Case does not matter.
    #[schema(min_length = 3, max_length = 64)]
    name: String,
    /// The role; `user` by default.
    #[schema(schema_with = super::schemas::role_or_null)]
    role: Option<String>,
    /// The password. Without one the account has only the keys that you create for it.
    #[schema(min_length = 10, max_length = 1024)]
    password: Option<String>,
}

/// Changes to an account.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "role": "moderator", "why": "helps with reports" }))]
pub(crate) struct PatchUser {
    /// Another name.
    #[schema(min_length = 3, max_length = 64)]
    name: Option<String>,
    /// Another role. A lesser one ends all sessions of the account.
    #[schema(schema_with = super::schemas::role_or_null)]
    role: Option<String>,
    /// Another password. It ends all sessions of the account.
    #[schema(min_length = 10, max_length = 1024)]
    password: Option<String>,
    /// Whether the account is suspended. `true` needs a `why`.
    suspended: Option<bool>,
    /// How many links the account may create with all its keys, such as `500/h`; `0` is no limit,
    /// null the usual one (`limits.create_per_account`).
    #[serde(default, deserialize_with = "given")]
    #[schema(max_length = 32, pattern = "^(0|[1-9][0-9]*/[smhd])$")]
    plan: Option<Option<String>>,
    /// Why, for the audit log.
    #[schema(max_length = 1000)]
    why: Option<String>,
}

/// Why an account is suspended.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "why": "sends spam" }))]
pub(crate) struct SuspendUser {
    /// Why. Shown to other moderators, and kept in the audit log.
    #[schema(min_length = 1, max_length = 1000)]
    why: String,
}

/// Why an account is no longer suspended.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "why": "another account did it" }))]
pub(crate) struct ReinstateUser {
    /// Why, for the audit log.
    #[schema(max_length = 1000)]
    why: Option<String>,
}

/// A reset link of an account.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "url": "https://go.example/login/reset?token=terse_…", "expires_at": "2026-11-16T21:00:00Z"
}))]
pub(crate) struct ResetLink {
    /// The link to send to the holder of the account. It is shown this once and works once.
    url: String,
    /// When it expires.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// A part of the accounts.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "users": [], "next_cursor": null }))]
pub(crate) struct UserList {
    /// The accounts.
    #[schema(max_items = 100)]
    users: Vec<UserBody>,
    /// Pass it as `cursor` for the next page; null at the end.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

/// List accounts
///
/// The oldest first.
#[describe::path(get, path = "/api/v1/admin/users", operation_id = "list_users", tag = "Admin",
    params(
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before",
            min_length = 1, max_length = 1024, pattern = "^[A-Za-z0-9_-]+$", nullable = false),
        ("limit" = Option<u16>, Query, description = "At most this many; 50 by \
            default", minimum = 1, maximum = 100, nullable = false),
        ("name" = Option<String>, Query, description = "Only the one with this name, in any \
            case", min_length = 3, max_length = 64,
            pattern = "^[A-Za-z0-9][A-Za-z0-9._@+-]{2,63}$", nullable = false)),
    responses((status = 200, description = "A part of the \
        list", body = UserList), super::answers::AdminListProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Admin(principal): Admin,
    mut params: Params,
) -> Result<axum::Json<UserList>, Problem> {
    let (cursor, limit, name) = (params.take("cursor"), params.take("limit"), params.take("name"));
    params.done()?;
    if let Some(name) = name {
        let found = state.accounts.named(&principal, &name).await?;
        return Ok(axum::Json(UserList {
            users: found.iter().map(UserBody::from).collect(),
            next_cursor: None,
        }));
    }
    let limit = limit.map_or(Ok(50), |text| whole_number("limit", &text, 100))? as usize;
    let mut seal = CursorSeal::new(&state.cursor_key, principal.caller);
    seal.bind(Some("users"));
    let bad_cursor = || {
        Problem::invalid(
            "cursor",
            "not a cursor that we gave out for this list; start again without one",
        )
    };
    let read = |text: String| {
        seal.open(&text)
            .and_then(|Cursor(id)| Some(OwnerId(u64::from_be_bytes(id.try_into().ok()?))))
    };
    let after = cursor.map(|text| read(text).ok_or_else(bad_cursor)).transpose()?;
    let mut users = state.accounts.accounts(&principal, after, limit + 1).await?;
    let more = users.len() > limit;
    users.truncate(limit);
    let last =
        users.last().filter(|_| more).map(|account| Cursor(account.id.0.to_be_bytes().to_vec()));
    let next_cursor = last.map(|cursor| seal.close(&cursor));
    Ok(axum::Json(UserList { users: users.iter().map(UserBody::from).collect(), next_cursor }))
}

/// Create an account
#[describe::path(post, path = "/api/v1/admin/users", operation_id = "create_user", tag = "Admin",
    request_body(content = CreateUser),
    responses((status = 201, description = "The new account", body = UserBody,
            headers(("Location" = String, description = "Its address in the API"))),
        super::answers::CreateUserProblems),
    security(("key" = [])))]
pub(super) async fn create(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<Response, Problem> {
    let CreateUser { name, role, password } = parse_object(&body)?;
    let draft = AccountDraft { name, role, password };
    let account = state.accounts.create(&principal, draft).await?;
    let mut response = (StatusCode::CREATED, axum::Json(UserBody::from(&account))).into_response();
    let place = HeaderValue::try_from(format!("/api/v1/admin/users/{}", account.id.0));
    response.headers_mut().extend(place.ok().map(|place| (header::LOCATION, place)));
    Ok(response)
}

/// Read an account
#[describe::path(get, path = "/api/v1/admin/users/{id}", operation_id = "get_user", tag = "Admin",
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 200, description = "The account", body = UserBody), super::answers::UserReadProblems),
    security(("key" = [])))]
pub(super) async fn get(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(id): Name,
) -> Result<axum::Json<UserBody>, Problem> {
    let account = state.accounts.account(&principal, account_id(&id)?).await?;
    Ok(axum::Json(UserBody::from(&account)))
}

/// Change an account
#[describe::path(patch, path = "/api/v1/admin/users/{id}", operation_id = "change_user",
    tag = "Admin",
    request_body(content = PatchUser),
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 200, description = "The account as it is \
        now", body = UserBody), super::answers::ChangeUserProblems),
    security(("key" = [])))]
pub(super) async fn patch(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(id): Name,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<UserBody>, Problem> {
    let PatchUser { name, role, password, suspended, plan, why } = parse_object(&body)?;
    let edit = AccountEdit { name, role, password, suspended, plan, why };
    let changed = state.accounts.edit(&principal, account_id(&id)?, edit).await?;
    Ok(axum::Json(UserBody::from(&changed)))
}

/// Erase an account
///
/// With all its links, their clicks, its keys and sessions. Nothing can be restored.
#[describe::path(delete, path = "/api/v1/admin/users/{id}", operation_id = "erase_user",
    tag = "Admin",
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 204, description = "Everything is erased"),
        (status = 202, description = "The account is closed, and the rest is being \
            erased"), super::answers::EraseUserProblems),
    security(("key" = [])))]
pub(super) async fn erase(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(id): Name,
) -> Result<StatusCode, Problem> {
    let id = account_id(&id)?;
    Ok(erased(state.accounts.erase(&state.erasures, &principal, id).await?))
}

/// Suspend an account
///
/// Its links stop redirecting, its keys stop working and its sessions end, in one step. Moderators
/// suspend users, admins anyone but themselves.
#[describe::path(post, path = "/api/v1/admin/users/{id}/suspend", operation_id = "suspend_user",
    tag = "Admin",
    request_body(content = SuspendUser),
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 200, description = "The account as it is \
        now", body = UserBody), super::answers::SuspendUserProblems),
    security(("key" = [])))]
pub(super) async fn suspend(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
    Name(id): Name,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<UserBody>, Problem> {
    let SuspendUser { why } = parse_object(&body)?;
    let changed = state.accounts.suspend(&principal, account_id(&id)?, reason(&why)?).await?;
    Ok(axum::Json(UserBody::from(&changed)))
}

/// Reinstate an account
///
/// Its links and keys work again.
#[describe::path(post, path = "/api/v1/admin/users/{id}/reinstate", operation_id = "reinstate_user",
    tag = "Admin",
    request_body(content = ReinstateUser),
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 200, description = "The account as it is \
        now", body = UserBody), super::answers::SuspendUserProblems),
    security(("key" = [])))]
pub(super) async fn reinstate(
    State(state): Web,
    Moderator(principal): Moderator,
    _: NoParams,
    Name(id): Name,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<UserBody>, Problem> {
    let ReinstateUser { why } = parse_object(&body)?;
    let why = why.as_deref().map(reason).transpose()?;
    let changed = state.accounts.reinstate(&principal, account_id(&id)?, why).await?;
    Ok(axum::Json(UserBody::from(&changed)))
}

/// Make a reset link
///
/// The answer has a link with which the holder of the account chooses a new password, once, within
/// a day. A new link invalidates the earlier one, and so does a new password. Its use ends all
/// sessions of the account.
#[describe::path(post, path = "/api/v1/admin/users/{id}/reset_link",
    operation_id = "create_reset_link", tag = "Admin",
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 201, description = "The \
        link", body = ResetLink), super::answers::RevokeOfOthersProblems),
    security(("key" = [])))]
pub(super) async fn reset_link(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(id): Name,
) -> Result<(StatusCode, axum::Json<ResetLink>), Problem> {
    let (secret, end) = state.accounts.make_reset(&principal, account_id(&id)?).await?;
    let made = ResetLink { url: reset_url(&state, &secret), expires_at: end.to_string() };
    Ok((StatusCode::CREATED, axum::Json(made)))
}

/// Turn two-factor sign-in off
///
/// For the holder of an account who lost the device and the recovery codes. Does nothing if it is
/// off.
#[describe::path(delete, path = "/api/v1/admin/users/{id}/two_factor",
    operation_id = "remove_two_factor", tag = "Admin",
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 200, description = "The account as it is \
        now", body = UserBody), super::answers::RevokeOfOthersProblems),
    security(("key" = [])))]
pub(super) async fn remove_two_factor(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(id): Name,
) -> Result<axum::Json<UserBody>, Problem> {
    let changed = state.accounts.remove_two_factor(&principal, account_id(&id)?).await?;
    Ok(axum::Json(UserBody::from(&changed)))
}
