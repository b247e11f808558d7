//! The account of whoever asks.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::OwnerId;
use terse_core::PasswordHasher as _;
use terse_core::registry::{Account, AccountChange, Attribution, ChangeAccount};
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use super::account_bodies::{UserBody, account_of, hash_password, user_name};
use super::answers::{OwnChangeProblems, OwnReadProblems};
use super::schemas;
use crate::erasure::Erasures;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::Member;
use crate::http::params::NoParams;
use crate::http::problem::{FORBIDDEN, Problem, WRONG_PASSWORD};
use crate::http::state::{App, Web};
use terse_core::{Credential, Principal};

/// So long an erasure is waited for; a large one goes on by itself.
const ERASING: Duration = Duration::from_secs(10);
/// So many erasures are under way at once. Further ones are begun, and left to the next round of
/// chores.
static UNDER_WAY: Semaphore = Semaphore::const_new(4);

/// Your account, and what you showed.
#[derive(Serialize, ToSchema)]
pub(crate) struct AccountBody {
    #[serde(flatten)]
    account: UserBody,
    /// How many keys it has.
    #[schema(minimum = 0, maximum = 100)]
    keys: usize,
    /// What this request may do.
    #[schema(schema_with = schemas::scope)]
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
    /// The password until now, where another one is given.
    #[serde(alias = "currentPassword")]
    #[schema(max_length = 1024)]
    current_password: Option<String>,
}

/// That you mean it.
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

/// Who am I?
#[utoipa::path(get, path = "/api/v1/account", operation_id = "get_account", tag = "Account",
    responses((status = 200, description = "Your account", body = AccountBody), OwnReadProblems),
    security(("key" = [])))]
pub(super) async fn get(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
) -> Result<axum::Json<AccountBody>, Problem> {
    let account = account_of(&state, &principal).await?;
    answer(&state, &principal, &account).await
}

/// Change your account
///
/// A new password needs the old one. An account without one gets its first in the browser or from
/// an admin, not by a key.
#[utoipa::path(patch, path = "/api/v1/account", operation_id = "change_account", tag = "Account",
    request_body(content = PatchAccount),
    responses((status = 200, description = "Your account as it is \
        now", body = AccountBody), OwnChangeProblems),
    security(("key" = [])))]
pub(super) async fn patch(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<axum::Json<AccountBody>, Problem> {
    let PatchAccount { name, password, current_password } = parse_object(&body)?;
    let account = account_of(&state, &principal).await?;
    let name = name.map(|name| user_name(&name)).transpose()?;
    let password = match (password, &account.password) {
        (None, _) => None,
        (Some(new), Some(kept)) => {
            let old = current_password.ok_or_else(|| {
                Problem::invalid("current_password", "a new password needs the old one")
            })?;
            prove(&state, &account, old, kept, "current_password").await?;
            Some(Some(hash_password(&state, new).await?))
        }
        (Some(new), None) if matches!(principal.credential, Credential::Session(_)) => {
            Some(Some(hash_password(&state, new).await?))
        }
        // A key that somebody found would otherwise become the whole account.
        (Some(_), None) => {
            let detail = "this account has no password; it gets its first one in the browser or \
                from an admin";
            return Err(Problem::new(&FORBIDDEN, detail).on("password"));
        }
    };
    let session = match principal.credential {
        Credential::Session(token) if password.is_some() => {
            state.registry.session(&token, state.links.now()).await?
        }
        _ => None,
    };
    let change = ChangeAccount {
        id: account.id,
        change: AccountChange { name, password, ..AccountChange::default() },
        expected: Some(account.revision),
    };
    let changed = state.registry.change_account(change, state.by(account.id, None)).await?;
    if let Some((session, _)) = session {
        // All sessions ended with the old password. The one who knew it stays.
        state.registry.add_session(session, changed.revision).await?;
    }
    answer(&state, &principal, &changed).await
}

/// Erase your account
///
/// With all its links, their clicks, its keys and sessions. Nothing of it can be restored: export
/// it first. Needs your password, or where there is none the account's name as `confirm`.
#[utoipa::path(delete, path = "/api/v1/account", operation_id = "erase_account", tag = "Account",
    request_body(content = EraseAccount),
    responses((status = 204, description = "All is gone"),
        (status = 202, description = "The account is closed, and the rest is being \
            erased"), OwnChangeProblems),
    security(("key" = [])))]
pub(super) async fn erase(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<StatusCode, Problem> {
    let EraseAccount { password, confirm } = parse_object(&body)?;
    let account = account_of(&state, &principal).await?;
    match (&account.password, password, confirm) {
        (Some(kept), Some(password), _) => {
            prove(&state, &account, password, kept, "password").await?;
        }
        (Some(_), None, _) => return Err(Problem::invalid("password", "this needs your password")),
        (None, _, Some(name)) if name == account.name.as_str() => {}
        (None, _, _) => {
            return Err(Problem::invalid("confirm", "this needs the name of your account"));
        }
    }
    erase_account(&state, &account, state.by(account.id, Some("asked for by its owner".into())))
        .await
}

/// Closes an account at once, and erases it. A large one takes longer than anybody waits: it goes
/// on, and if this process ends, the next one finishes it. Nobody need join it for that reason.
pub(crate) async fn erase_account(
    state: &Arc<App>,
    account: &Account,
    by: Attribution,
) -> Result<StatusCode, Problem> {
    let (erasures, id) = (Erasures::of(state), account.id);
    erasures.begin(account, by.clone()).await?;
    state.registry_refresh.refresh().await;
    let Ok(turn) = UNDER_WAY.try_acquire() else { return Ok(StatusCode::ACCEPTED) };
    let task = tokio::spawn(async move {
        let _turn = turn;
        let ended = erasures.end(id, by).await;
        if let Err(error) = &ended {
            tracing::error!(%error, owner = id.0, "an account could not be erased; trying again \
                later");
        }
        ended.is_ok()
    });
    match tokio::time::timeout(ERASING, task).await {
        Ok(Ok(true)) => Ok(StatusCode::NO_CONTENT),
        _ => Ok(StatusCode::ACCEPTED),
    }
}

/// Refuses those who do not know the password, and those who try too often.
async fn prove(
    state: &App,
    account: &Account,
    password: String,
    kept: &str,
    field: &'static str,
) -> Result<(), Problem> {
    let OwnerId(id) = account.id;
    state.limits.prove(id).await?;
    if state.passwords.verify(password, Some(kept.to_owned())).await? {
        return Ok(());
    }
    Err(Problem::new(&WRONG_PASSWORD, "this is not your password").on(field))
}

async fn answer(
    state: &App,
    principal: &Principal,
    account: &Account,
) -> Result<axum::Json<AccountBody>, Problem> {
    let keys = state.registry.keys(account.id).await?.len();
    Ok(axum::Json(AccountBody { account: account.into(), keys, scope: principal.scope.as_str() }))
}
