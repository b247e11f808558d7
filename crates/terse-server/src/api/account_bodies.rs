//! Accounts as the API shows them.

use crate::describe::ToSchema;
use serde::Serialize;
use terse_core::OwnerId;
use terse_core::accounts::AccountError;
use terse_core::registry::{Account, Suspension};

use crate::http::problem::Problem;

/// An account. Every field is always there.
#[derive(Serialize, ToSchema)]
#[schema(as = User, example = json!({
    "id": 1000, "name": "ann", "role": "user", "created_at": "2026-11-15T21:00:00Z",
    "has_password": true, "two_factor": false, "identity": null,
    "suspended": null, "plan": null, "revision": 1
}))]
pub(crate) struct UserBody {
    /// The id. It never changes.
    #[schema(minimum = 1000)]
    id: u64,
    /// The name to sign in with.
    #[schema(min_length = 3, max_length = 64)]
    name: String,
    /// The role.
    #[schema(schema_with = super::schemas::role)]
    role: &'static str,
    /// When the account was created.
    #[schema(format = DateTime)]
    created_at: String,
    /// Whether the account has a password.
    has_password: bool,
    /// Whether signing in with the password also needs a code.
    two_factor: bool,
    /// The identity at an OpenID Connect provider, if the account has one.
    #[schema(required = true)]
    identity: Option<IdentityBody>,
    /// Since when and why the account is suspended.
    #[schema(required = true)]
    suspended: Option<SuspensionBody>,
    /// How many links the account may create with all its keys; null for the usual limit.
    #[schema(required = true)]
    plan: Option<String>,
    /// The revision of the account.
    #[schema(minimum = 1)]
    revision: u64,
}

/// An identity at an OpenID Connect provider.
#[derive(Serialize, ToSchema)]
#[schema(as = Identity)]
pub(crate) struct IdentityBody {
    /// The provider.
    issuer: String,
    /// The provider's id of the account.
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
            two_factor: account.two_factor.is_some(),
            identity: identity.map(|who| IdentityBody {
                issuer: who.issuer.clone(),
                subject: who.subject.clone(),
            }),
            suspended: account.suspended.as_ref().map(SuspensionBody::from),
            plan: account.plan.clone(),
            revision: account.revision.0,
        }
    }
}

impl From<&Suspension> for SuspensionBody {
    fn from(suspension: &Suspension) -> Self {
        let Suspension { at, why } = suspension;
        // A leading control character marks an erasure; it is not shown.
        let why = why.trim_start_matches(char::is_control).to_owned();
        Self { at: at.to_string(), why, erasing: suspension.is_erasure() }
    }
}

/// Parses the account id in a path. An invalid id is reported as not found.
pub(super) fn account_id(id: &str) -> Result<OwnerId, Problem> {
    number(id).map(OwnerId).ok_or_else(|| AccountError::NotFound("account").into())
}

/// Parses a number in its canonical form only: digits without a leading zero.
pub(super) fn number(text: &str) -> Option<u64> {
    let plain = (1..=19).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && !text.starts_with('0');
    plain.then(|| text.parse().ok()).flatten()
}
