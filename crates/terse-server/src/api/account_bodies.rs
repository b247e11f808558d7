//! Accounts, as they are shown and spoken of.

use serde::Serialize;
use terse_core::OwnerId;
use terse_core::PasswordHasher as _;
use terse_core::registry::{Account, AccountName, Suspension};
use utoipa::ToSchema;

use super::schemas;
use crate::http::problem::{NO_ACCOUNT, NOT_FOUND, Problem};
use crate::http::state::App;
use terse_core::{Credential, Principal};

/// Shorter passwords are guessed. In characters.
pub(crate) const MIN_PASSWORD_LEN: usize = 10;
/// A reason is at most this long.
pub(super) const MAX_WHY_LEN: usize = 1000;

/// An account. Every field is always there.
#[derive(Serialize, ToSchema)]
#[schema(as = User, example = json!({
    "id": 1000, "name": "ann", "role": "user", "created_at": "2026-11-15T21:00:00Z", "has_password": true, "identity": null,
    "suspended": null, "revision": 1
}))]
pub(crate) struct UserBody {
    /// Stays the same for ever.
    #[schema(minimum = 1000)]
    id: u64,
    /// What they sign in with.
    #[schema(min_length = 3, max_length = 64)]
    name: String,
    /// What they may do.
    #[schema(schema_with = schemas::role)]
    role: &'static str,
    /// When the account was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// Whether they can sign in with a password.
    has_password: bool,
    /// Who they are elsewhere, if they sign in from there.
    #[schema(required = true)]
    identity: Option<IdentityBody>,
    /// Since when and why the account is suspended.
    #[schema(required = true)]
    suspended: Option<SuspensionBody>,
    /// Which change of the account this is.
    #[schema(minimum = 1)]
    revision: u64,
}

/// Who somebody is elsewhere.
#[derive(Serialize, ToSchema)]
#[schema(as = Identity)]
pub(crate) struct IdentityBody {
    /// The provider.
    issuer: String,
    /// Its name for the person.
    subject: String,
}

/// A suspension.
#[derive(Serialize, ToSchema)]
#[schema(as = Suspension)]
pub(crate) struct SuspensionBody {
    /// Since when.
    #[schema(format = DateTime)]
    at: String,
    /// Why.
    why: String,
    /// Whether it is the first step of an erasure, which cannot be undone.
    erasing: bool,
}

impl From<&Account> for UserBody {
    fn from(account: &Account) -> Self {
        let identity = account.identity.as_ref();
        Self {
            id: account.id.0,
            name: account.name.to_string(),
            role: account.role.as_str(),
            created_at: account.created_at.to_string(),
            has_password: account.password.is_some(),
            identity: identity.map(|who| IdentityBody {
                issuer: who.issuer.clone(),
                subject: who.subject.clone(),
            }),
            suspended: account.suspended.as_ref().map(SuspensionBody::from),
            revision: account.revision.0,
        }
    }
}

impl From<&Suspension> for SuspensionBody {
    fn from(suspension: &Suspension) -> Self {
        let Suspension { at, why } = suspension;
        // Its first character is not for people.
        let why = why.trim_start_matches(char::is_control).to_owned();
        Self { at: at.to_string(), why, erasing: suspension.is_erasure() }
    }
}

/// The account of whoever asks. The operator's keys have none.
pub(super) async fn account_of(state: &App, principal: &Principal) -> Result<Account, Problem> {
    let no_account = || {
        let detail = "this is a key of whoever runs the server, and belongs to no account; make \
            an account first \
            (POST /api/v1/admin/users) and use a key of its own";
        Problem::new(&NO_ACCOUNT, detail).on("Authorization")
    };
    if principal.credential == Credential::OperatorKey {
        return Err(no_account());
    }
    state.registry.account(principal.owner()).await?.ok_or_else(no_account)
}

/// An account by the number in a path.
pub(super) async fn user_numbered(state: &App, id: &str) -> Result<Account, Problem> {
    let account = match number(id) {
        Some(id) => state.registry.account(OwnerId(id)).await?,
        None => None,
    };
    account.ok_or_else(|| Problem::new(&NOT_FOUND, "there is no such account"))
}

/// A number as we write it, and in no other way.
pub(super) fn number(text: &str) -> Option<u64> {
    let plain = (1..=19).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && !text.starts_with('0');
    plain.then(|| text.parse().ok()).flatten()
}

/// A name that somebody can have.
pub(super) fn user_name(text: &str) -> Result<AccountName, Problem> {
    let detail = "3 to 64 letters, digits and . _ - + @, beginning with a letter or digit";
    AccountName::parse(text).ok_or_else(|| Problem::invalid("name", detail))
}

/// A line of somebody's own words.
pub(super) fn format(field: &'static str, text: &str, most: usize) -> Result<String, Problem> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > most || text.chars().any(char::is_control) {
        return Err(Problem::invalid(field, format!("1 to {most} characters in one line")));
    }
    Ok(text.to_owned())
}

/// A reason that was given, if it is one.
pub(super) fn reason(why: &str) -> Result<String, Problem> {
    format("why", why, MAX_WHY_LEN)
}

/// What is kept of a password that somebody chose.
pub(crate) async fn hash_password(state: &App, password: String) -> Result<String, Problem> {
    if password.chars().count() < MIN_PASSWORD_LEN {
        return Err(Problem::invalid(
            "password",
            format!("a password has at least {MIN_PASSWORD_LEN} characters"),
        ));
    }
    Ok(state.passwords.hash(password).await?)
}
