//! Keys for programs.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use terse_core::limits::Limit;
use terse_core::registry::{Account, ApiKey, KeyId, NewKey, RegistryError, Role, Scope, Token};
use terse_core::{OwnerId, Timestamp};
use utoipa::ToSchema;

use super::account_bodies::{account_of, format, number, user_numbered};
use super::answers::{OwnChangeProblems, OwnReadProblems, UserChangeProblems, UserReadProblems};
use super::schemas;
use crate::http::body::{Json, SMALL, parse_object};
use crate::http::extract::{Member, Name, Operator};
use crate::http::params::NoParams;
use crate::http::problem::{FORBIDDEN, NOT_FOUND, Problem, STORE_UNAVAILABLE};
use crate::http::state::{App, Web};
use crate::keys::Keys;
use terse_core::{Credential, Principal};

/// How much of a key is kept to recognise it by: what all begin with, and six characters.
const RECOGNISABLE: usize = 12;
const MAX_NAME_LEN: usize = 100;
const MAX_PLAN_LEN: usize = 32;

/// A key to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "name": "newsletter", "scope": "create", "expires_at": "2030-01-31T12:00:00Z", "plan": "100/h" }))]
pub(crate) struct CreateKey {
    /// What it is for.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// What it opens: `create` makes links and nothing else, `read` looks and nothing else, `full`
    /// does all that its owner may.
    #[schema(schema_with = schemas::scope)]
    scope: String,
    /// From this moment on it opens nothing: RFC 3339 with an offset, or a date meaning that day
    /// 00:00 UTC. A key that ends makes no key that ends later.
    #[serde(alias = "expiresAt")]
    #[schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt \
            ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2}))?$")]
    expires_at: Option<String>,
    /// How many links it may make, such as `100/h`; the server's setting by default. More than your
    /// own key, or than the setting, only admins give; `0` is no limit.
    #[schema(max_length = 32)]
    plan: Option<String>,
}

/// A key, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Key, example = json!({
    "id": 7, "name": "newsletter", "prefix": "terse_x7Kq2L", "scope": "create", "created_at": "2026-11-15T21:00:00Z",
    "expires_at": "2030-01-31T12:00:00Z", "plan": "100/h", "last_used_at": null
}))]
pub(crate) struct KeyBody {
    /// Its number.
    #[schema(minimum = 1)]
    id: u64,
    /// What it is for.
    name: String,
    /// How it begins.
    prefix: String,
    /// What it opens.
    #[schema(schema_with = schemas::scope)]
    scope: &'static str,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// From when on it opens nothing.
    #[schema(required = true, format = DateTime)]
    expires_at: Option<String>,
    /// How many links it may make; the server's setting if null.
    #[schema(required = true)]
    plan: Option<String>,
    /// When it was last used, to about a minute.
    #[schema(required = true, format = DateTime)]
    last_used_at: Option<String>,
}

/// A key that was just made.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey {
    /// The key itself. It is shown this once and kept nowhere.
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
        }
    }
}

/// List your keys
#[utoipa::path(get, path = "/api/v1/keys", operation_id = "list_keys", tag = "Account",
    responses((status = 200, description = "Your keys", body = KeyList), OwnReadProblems),
    security(("key" = [])))]
pub(super) async fn list(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
) -> Result<axum::Json<KeyList>, Problem> {
    let account = account_of(&state, &principal).await?;
    keys_of(&state, account.id).await
}

/// Make a key
///
/// The answer shows the key; it is never shown again. At most 100 an account.
#[utoipa::path(post, path = "/api/v1/keys", operation_id = "create_key", tag = "Account",
    request_body(content = CreateKey),
    responses((status = 201, description = "The new key", body = MadeKey), OwnChangeProblems),
    security(("key" = [])))]
pub(super) async fn create(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
    Json(body): Json<SMALL>,
) -> Result<(StatusCode, axum::Json<MadeKey>), Problem> {
    let wish: CreateKey = parse_object(&body)?;
    let account = account_of(&state, &principal).await?;
    let mut wish = wish.parse(state.links.now())?;
    wish.within(&Power::of(&state, &principal).await?)?;
    state.limits.make_key(&account).await?;
    make(&state, &account, wish, principal.owner()).await
}

/// Revoke a key
///
/// It opens nothing from now on.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", operation_id = "revoke_key", tag = "Account",
    params(("id" = u64, Path, description = "The key's number", minimum = 1)),
    responses((status = 204, description = "It is revoked"), OwnChangeProblems),
    security(("key" = [])))]
pub(super) async fn revoke(
    State(state): Web,
    Member(principal): Member,
    _: NoParams,
    Name(id): Name,
) -> Result<StatusCode, Problem> {
    let account = account_of(&state, &principal).await?;
    take_away(&state, account.id, &id, principal.owner()).await
}

/// List the keys of an account
#[utoipa::path(get, path = "/api/v1/admin/users/{id}/keys", operation_id = "list_user_keys", tag = "Admin",
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 200, description = "Its keys", body = KeyList), UserReadProblems),
    security(("key" = [])))]
pub(super) async fn list_of_user(
    State(state): Web,
    Operator(_): Operator,
    _: NoParams,
    Name(id): Name,
) -> Result<axum::Json<KeyList>, Problem> {
    let account = user_numbered(&state, &id).await?;
    keys_of(&state, account.id).await
}

/// Make a key for an account
///
/// With any plan. The answer shows the key; it is never shown again.
#[utoipa::path(post, path = "/api/v1/admin/users/{id}/keys", operation_id = "create_user_key", tag = "Admin",
    request_body(content = CreateKey),
    params(("id" = u64, Path, description = "The account's number", minimum = 1)),
    responses((status = 201, description = "The new key", body = MadeKey), UserChangeProblems),
    security(("key" = [])))]
pub(super) async fn create_of_user(
    State(state): Web,
    Operator(caller): Operator,
    _: NoParams,
    Name(id): Name,
    Json(body): Json<SMALL>,
) -> Result<(StatusCode, axum::Json<MadeKey>), Problem> {
    let wish: CreateKey = parse_object(&body)?;
    let wish = wish.parse(state.links.now())?;
    let account = user_numbered(&state, &id).await?;
    make(&state, &account, wish, caller.owner()).await
}

/// Revoke a key of an account
#[utoipa::path(delete, path = "/api/v1/admin/users/{id}/keys/{key}", operation_id = "revoke_user_key", tag = "Admin",
    params(("id" = u64, Path, description = "The account's number", minimum = 1),
        ("key" = u64, Path, description = "The key's number", minimum = 1)),
    responses((status = 204, description = "It is revoked"), UserChangeProblems),
    security(("key" = [])))]
pub(super) async fn revoke_of_user(
    State(state): Web,
    Operator(caller): Operator,
    _: NoParams,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
) -> Result<StatusCode, Problem> {
    let Path((id, key)) = path.map_err(|_| no_key())?;
    let account = user_numbered(&state, &id).await?;
    take_away(&state, account.id, &key, caller.owner()).await
}

async fn keys_of(state: &App, owner: OwnerId) -> Result<axum::Json<KeyList>, Problem> {
    let keys = state.registry.keys(owner).await?;
    Ok(axum::Json(KeyList { keys: keys.iter().map(KeyBody::from).collect() }))
}

async fn make(
    state: &App,
    account: &Account,
    wish: Wanted,
    actor: OwnerId,
) -> Result<(StatusCode, axum::Json<MadeKey>), Problem> {
    let (key, made) = mint(state, account.id, wish, actor).await?;
    Ok((StatusCode::CREATED, axum::Json(MadeKey { key, about: KeyBody::from(&made) })))
}

/// Makes a key: the key itself, to be shown once, and what is kept of it.
pub(crate) async fn mint(
    state: &App,
    owner: OwnerId,
    wish: Wanted,
    actor: OwnerId,
) -> Result<(String, ApiKey), Problem> {
    let Wanted { name, scope, expires_at, plan } = wish;
    let (key, hash) = Keys::generate().map_err(|error| {
        tracing::error!(%error, "no key could be made");
        Problem::new(&STORE_UNAVAILABLE, "no key could be made; try again")
    })?;
    let (prefix, at) = (key[..RECOGNISABLE].to_owned(), state.links.now());
    let plan = plan.map(|plan| plan.to_string());
    let new =
        NewKey { owner, name, prefix, token: Token(hash), scope, created_at: at, expires_at, plan };
    let made = state.registry.add_key(new, state.by(actor, None)).await?;
    Ok((key, made))
}

async fn take_away(
    state: &App,
    owner: OwnerId,
    id: &str,
    actor: OwnerId,
) -> Result<StatusCode, Problem> {
    let id = number(id).ok_or_else(no_key)?;
    match state.registry.revoke_key(owner, KeyId(id), state.by(actor, None)).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(RegistryError::Missing) => Err(no_key()),
        Err(error) => Err(error.into()),
    }
}

fn no_key() -> Problem {
    Problem::new(&NOT_FOUND, "there is no such key")
}

/// A key as it is asked for, checked.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) plan: Option<Limit>,
}

impl CreateKey {
    fn parse(self, now: Timestamp) -> Result<Wanted, Problem> {
        let name = format("name", &self.name, MAX_NAME_LEN)?;
        let scope = Scope::parse(&self.scope)
            .ok_or_else(|| Problem::invalid("scope", "create, read or full"))?;
        let expires_at = match self.expires_at.as_deref().map(Timestamp::parse) {
            None => None,
            Some(Some(at)) if at > now => Some(at),
            Some(Some(_)) => {
                return Err(Problem::invalid("expires_at", "this moment has already passed"));
            }
            Some(None) => {
                return Err(Problem::invalid(
                    "expires_at",
                    "not an RFC 3339 time with offset nor a date",
                ));
            }
        };
        let read = |plan: String| plan.parse().ok().filter(|_| plan.len() <= MAX_PLAN_LEN);
        let plan = self
            .plan
            .map(|plan| read(plan).ok_or_else(|| Problem::invalid("plan", PLAN)))
            .transpose()?;
        Ok(Wanted { name, scope, expires_at, plan })
    }
}

const PLAN: &str = "a limit such as 100/h, 30/m or 5/s, or 0 for none";

/// What whoever asks may give away: no more than they have.
#[derive(Debug)]
struct Power {
    /// How many links; `None` for those who may give any plan.
    most: Option<Limit>,
    /// What a key gets that asks for no plan.
    plan: Option<Limit>,
    ends: Option<Timestamp>,
}

impl Power {
    async fn of(state: &App, principal: &Principal) -> Result<Self, Problem> {
        let usual = state.limits.create_per_key;
        let (own, ends) = match principal.credential {
            Credential::Key { id, plan } => {
                let keys = state.registry.keys(principal.owner()).await?;
                (plan, keys.into_iter().find(|key| key.id == id).and_then(|key| key.expires_at))
            }
            _ => (None, None),
        };
        if principal.role == Role::Admin {
            return Ok(Self { most: None, plan: None, ends });
        }
        // A key that may do less than usual makes none that may do the usual.
        let plan = own.filter(|own| !is_within(usual, *own));
        Ok(Self { most: Some(own.unwrap_or(usual)), plan, ends })
    }
}

impl Wanted {
    fn within(&mut self, power: &Power) -> Result<(), Problem> {
        match (self.plan, power.most) {
            (Some(plan), Some(most)) if !is_within(plan, most) => {
                let detail = format!("only an admin gives more than {most}");
                return Err(Problem::new(&FORBIDDEN, detail).on("plan"));
            }
            (plan, _) => self.plan = plan.or(power.plan),
        }
        match (self.expires_at, power.ends) {
            (Some(at), Some(ends)) if at > ends => {
                let detail = "the key you show ends before that, and makes none that ends later";
                Err(Problem::new(&FORBIDDEN, detail).on("expires_at"))
            }
            (at, ends) => {
                self.expires_at = at.or(ends);
                Ok(())
            }
        }
    }
}

/// Whether a limit allows no more than another, neither at once nor in the long run.
fn is_within(limit: Limit, most: Limit) -> bool {
    most.is_off()
        || !limit.is_off() && limit.count() <= most.count() && limit.interval() >= most.interval()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_within_another_at_once_and_in_the_long_run() {
        for (limit, most, within) in [
            ("100/h", "100/h", true),
            ("99/h", "100/h", true),
            ("101/h", "100/h", false),
            ("100/d", "100/h", true),
            ("100/m", "100/h", false),
            ("1/s", "100/h", false),
            ("2/m", "100/h", false),
            ("200/d", "100/h", false),
            ("0", "100/h", false),
            ("0", "0", true),
            ("100/s", "0", true),
        ] {
            let parse = |text: &str| text.parse::<Limit>().unwrap();
            assert_eq!(is_within(parse(limit), parse(most)), within, "{limit} within {most}");
        }
    }
}
