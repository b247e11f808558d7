//! API keys of an account.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::accounts::{AccountError, KeyDraft};
use terse_core::registry::{ApiKey, KeyId};
use terse_core::{OwnerId, Principal, Timestamp};

use super::account_bodies::{account_id, number};
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Admin, Member, Name};
use crate::http::params::NoParams;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// A key to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "name": "newsletter", "scope": "create",
    "expires_at": "2030-01-31T12:00:00Z", "plan": "100/h" }))]
pub(crate) struct CreateKey {
    /// Its name.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// What it permits: `create` only creates links, `read` only reads, `full` permits everything
    /// that its owner may do.
    #[schema(schema_with = super::schemas::scope)]
    scope: String,
    /// When it expires: RFC 3339 with an offset, or a date meaning that day 00:00 UTC. A key that
    /// expires creates no key that expires later.
    #[serde(alias = "expiresAt")]
    #[schema(pattern = "^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?\
            |[0-9]{8}([Tt][0-9]{4}([0-9]{2}([.][0-9]{1,9})?)?\
            ([Zz]|[+-][0-9]{2}(:?[0-9]{2})?))?)$")]
    expires_at: Option<String>,
    /// How many links it may create, such as `100/h`; the server's setting by default. Only admins
    /// give more than their own key or the setting allows; `0` is no limit.
    #[schema(max_length = 32)]
    plan: Option<String>,
}

/// A key, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Key, example = json!({
    "id": 7, "name": "newsletter", "prefix": "terse_x7Kq2L", "scope": "create",
    "created_at": "2026-11-15T21:00:00Z",
    "expires_at": "2030-01-31T12:00:00Z", "plan": "100/h", "last_used_at": null,
    "requests": 0
}))]
pub(crate) struct KeyBody {
    /// Its number.
    #[schema(minimum = 1)]
    id: u64,
    /// Its name.
    name: String,
    /// Its first characters, to recognise it.
    prefix: String,
    /// What it permits.
    #[schema(schema_with = super::schemas::scope)]
    scope: &'static str,
    /// When it was created.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it expires.
    #[schema(required = true, format = DateTime)]
    expires_at: Option<String>,
    /// How many links it may create; the server's setting if null.
    #[schema(required = true)]
    plan: Option<String>,
    /// When it was last used, to about a minute.
    #[schema(required = true, format = DateTime)]
    last_used_at: Option<String>,
    /// How many requests it has made. The count is up to a minute old.
    requests: u64,
}

/// A new key.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedKey {
    /// The key itself. It is shown this once and not stored.
    key: String,
    #[serde(flatten)]
    about: KeyBody,
}

/// An owner's keys, the oldest first.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({ "keys": [] }))]
pub(crate) struct KeyList {
    #[schema(max_items = 100)]
    keys: Vec<KeyBody>,
}

impl From<&ApiKey> for KeyBody {
    fn from(key: &ApiKey) -> Self {
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            id: key.id.0,
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            scope: key.scope.as_str(),
            created_at: key.created_at.to_string(),
            expires_at: text(key.expires_at),
            plan: key.plan.clone(),
            last_used_at: text(key.last_used_at),
            requests: key.requests,
        }
    }
}

/// List your keys
#[describe::path(get, path = "/api/v1/keys", operation_id = "list_keys", tag = "Account",
    responses((status = 200, description = "Your keys", body = KeyList), super::answers::OwnReadProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
) -> Result<axum::Json<KeyList>, Problem> {
    let account = state.accounts.own_account(&principal).await?;
    keys_of(&state, &principal, account.id).await
}

/// Create a key
///
/// The answer shows the key; it is never shown again. At most 100 per account.
#[describe::path(post, path = "/api/v1/keys", operation_id = "create_key", tag = "Account",
    request_body(content = CreateKey),
    responses((status = 201, description = "The new key", body = CreatedKey), super::answers::CreateKeyProblems),
    security(("key" = [])))]
pub(super) async fn create(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<(StatusCode, axum::Json<CreatedKey>), Problem> {
    let draft = parse_object::<CreateKey>(&body)?.into();
    Ok(made(state.accounts.create_own_key(&principal, draft).await?))
}

/// Revoke a key
///
/// It stops working at once.
#[describe::path(delete, path = "/api/v1/keys/{id}", operation_id = "revoke_key", tag = "Account",
    params(("id" = u64, Path, description = "The key's number", minimum = 1)),
    responses((status = 204, description = "It is revoked"), super::answers::RevokeProblems),
    security(("key" = [])))]
pub(super) async fn revoke(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
    Name(id): Name,
) -> Result<StatusCode, Problem> {
    let account = state.accounts.own_account(&principal).await?;
    state.accounts.revoke_key(&principal, account.id, key_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the keys of an account
#[describe::path(get, path = "/api/v1/admin/users/{id}/keys", operation_id = "list_user_keys",
    tag = "Admin",
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 200, description = "Its keys", body = KeyList), super::answers::UserReadProblems),
    security(("key" = [])))]
pub(super) async fn list_of_user(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(id): Name,
) -> Result<axum::Json<KeyList>, Problem> {
    let account = state.accounts.account(&principal, account_id(&id)?).await?;
    keys_of(&state, &principal, account.id).await
}

/// Create a key for an account
///
/// With any limit. The answer shows the key; it is never shown again.
#[describe::path(post, path = "/api/v1/admin/users/{id}/keys", operation_id = "create_user_key",
    tag = "Admin",
    request_body(content = CreateKey),
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 201, description = "The new key", body = CreatedKey), super::answers::CreateUserKeyProblems),
    security(("key" = [])))]
pub(super) async fn create_of_user(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    Name(id): Name,
    Json(body): Json<SMALL>,
) -> Result<(StatusCode, axum::Json<CreatedKey>), Problem> {
    let draft = parse_object::<CreateKey>(&body)?.into();
    let owner = account_id(&id)?;
    Ok(made(state.accounts.create_key_of(&principal, owner, draft).await?))
}

/// Revoke a key of an account
#[describe::path(delete, path = "/api/v1/admin/users/{id}/keys/{key}",
    operation_id = "revoke_user_key", tag = "Admin",
    params(("id" = u64, Path, description = "The account's number", minimum = 1),
        ("key" = u64, Path, description = "The key's number", minimum = 1)),
    responses((status = 204, description = "It is revoked"), super::answers::RevokeOfOthersProblems),
    security(("key" = [])))]
pub(super) async fn revoke_of_user(
    State(state): Web,
    Admin(principal): Admin,
    _: NoParams,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
) -> Result<StatusCode, Problem> {
    let Path((id, key)) = path.map_err(|_| no_key())?;
    let account = state.accounts.account(&principal, account_id(&id)?).await?;
    state.accounts.revoke_key(&principal, account.id, key_id(&key)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn keys_of(
    state: &App,
    principal: &Principal,
    owner: OwnerId,
) -> Result<axum::Json<KeyList>, Problem> {
    let keys = state.accounts.keys(principal, owner).await?;
    Ok(axum::Json(KeyList { keys: keys.iter().map(KeyBody::from).collect() }))
}

fn made((key, made): (String, ApiKey)) -> (StatusCode, axum::Json<CreatedKey>) {
    (StatusCode::CREATED, axum::Json(CreatedKey { key, about: KeyBody::from(&made) }))
}

/// Parses the key id in a path. An invalid id is reported as not found.
fn key_id(id: &str) -> Result<KeyId, Problem> {
    number(id).map(KeyId).ok_or_else(no_key)
}

fn no_key() -> Problem {
    AccountError::NotFound("key").into()
}

impl From<CreateKey> for KeyDraft {
    fn from(key: CreateKey) -> Self {
        let CreateKey { name, scope, expires_at, plan } = key;
        Self { name, scope, expires_at, plan }
    }
}
