//! The caller's own account.

use crate::describe;
use crate::describe::ToSchema;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::Principal;
use terse_core::accounts::{ErasureConfirmation, ErasureProgress, ProfileEdit};
use terse_core::registry::Account;

use super::account_bodies::UserBody;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::Member;
use crate::http::params::NoParams;
use crate::http::problem::Problem;
use crate::http::state::{App, Web};

/// Your account, and what this request's credential permits.
#[derive(Serialize, ToSchema)]
#[schema(as = Account)]
pub(crate) struct AccountBody {
    #[serde(flatten)]
    account: UserBody,
    /// How many keys it has.
    #[schema(minimum = 0, maximum = 100)]
    keys: usize,
    /// What the credential of this request permits.
    #[schema(schema_with = super::schemas::scope)]
    scope: &'static str,
}

/// Changes to your account.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "name": "ann.example" }))]
pub(crate) struct PatchAccount {
    /// Another name.
    #[schema(min_length = 3, max_length = 64)]
    name: Option<String>,
    /// Another password. All other sessions end.
    #[schema(min_length = 10, max_length = 1024)]
    password: Option<String>,
    /// The current password, if `password` is given.
    #[serde(alias = "currentPassword")]
    #[schema(max_length = 1024)]
    current_password: Option<String>,
}

/// The confirmation of an erasure.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "password": "correct horse battery staple" }))]
pub(crate) struct EraseAccount {
    /// Your password, if you have one.
    #[schema(max_length = 1024)]
    password: Option<String>,
    /// The name of your account, if you have no password.
    #[schema(max_length = 64)]
    confirm: Option<String>,
}

/// Read your account
#[describe::path(get, path = "/api/v1/account", operation_id = "get_account", tag = "Account",
    responses((status = 200, description = "Your account", body = AccountBody), super::answers::OwnReadProblems),
    security(("key" = [])))]
pub(super) async fn get(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
) -> Result<axum::Json<AccountBody>, Problem> {
    let account = state.accounts.own_account(&principal).await?;
    answer(&state, &principal, &account).await
}

/// Change your account
///
/// A new password needs the current one. An account without a password gets its first in the
/// browser or from an admin, not with a key.
#[describe::path(patch, path = "/api/v1/account", operation_id = "change_account", tag = "Account",
    request_body(content = PatchAccount),
    responses((status = 200, description = "Your account as it is \
        now", body = AccountBody), super::answers::EditAccountProblems),
    security(("key" = [])))]
pub(super) async fn patch(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<AccountBody>, Problem> {
    let PatchAccount { name, password, current_password } = parse_object(&body)?;
    let edit = ProfileEdit { name, password, current_password };
    let changed = state.accounts.edit_profile(&principal, edit).await?;
    answer(&state, &principal, &changed).await
}

/// Erase your account
///
/// With all its links, their clicks, its keys and sessions. Nothing can be restored: export it
/// first. Needs your password, or the account's name as `confirm` if it has none.
#[describe::path(delete, path = "/api/v1/account", operation_id = "erase_account", tag = "Account",
    request_body(content = EraseAccount),
    responses((status = 204, description = "Everything is erased"),
        (status = 202, description = "The account is closed, and the rest is being \
            erased"), super::answers::EraseAccountProblems),
    security(("key" = [])))]
pub(super) async fn erase(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<StatusCode, Problem> {
    let EraseAccount { password, confirm } = parse_object(&body)?;
    let proof = ErasureConfirmation { password, confirm };
    Ok(erased(state.accounts.erase_own(&state.erasures, &principal, proof).await?))
}

/// The status of an erasure.
pub(super) fn erased(erased: ErasureProgress) -> StatusCode {
    match erased {
        ErasureProgress::Done => StatusCode::NO_CONTENT,
        ErasureProgress::UnderWay => StatusCode::ACCEPTED,
    }
}

async fn answer(
    state: &App,
    principal: &Principal,
    account: &Account,
) -> Result<axum::Json<AccountBody>, Problem> {
    let keys = state.accounts.keys(principal, account.id).await?.len();
    Ok(axum::Json(AccountBody { account: account.into(), keys, scope: principal.scope.as_str() }))
}
