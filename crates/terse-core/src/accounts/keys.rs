//! API keys.

use std::borrow::Cow;

use super::{AccountError, Accounts, BearerSecret, invalid, one_line};
use crate::limits::Limit;
use crate::link::OwnerId;
use crate::principal::{Credential, Principal};
use crate::registry::{
    Account, ApiKey, KeyId, MAX_KEYS_PER_OWNER, NewKey, RegistryError, Role, Scope,
};
use crate::time::Timestamp;
use crate::validation::{ValidationError, ValidationErrorKind};

/// The longest name of a key, in characters.
pub const MAX_KEY_NAME: usize = 100;
/// The longest text of a plan, such as `100/h`, in bytes.
pub const MAX_PLAN_LEN: usize = 32;

/// A key to create, not yet checked.
#[derive(Clone, Debug, Default)]
pub struct KeyDraft {
    /// Its name.
    pub name: String,
    /// What it permits: `create`, `read` or `full`.
    pub scope: String,
    /// When it expires: RFC 3339 or a date.
    pub expires_at: Option<String>,
    /// How many links it may create, such as `100/h`; the usual limit if absent.
    pub plan: Option<String>,
}

/// A draft that passed every check that needs no registry.
struct ParsedKey {
    name: String,
    scope: Scope,
    expires_at: Option<Timestamp>,
    plan: Option<Limit>,
}

impl KeyDraft {
    fn parse(self, now: Timestamp) -> Result<ParsedKey, AccountError> {
        let name = one_line("name", &self.name, MAX_KEY_NAME)?;
        let scope = Scope::parse(&self.scope)
            .ok_or_else(|| invalid("scope", "must be create, read or full"))?;
        let expires_at = match self.expires_at.as_deref().map(str::parse::<Timestamp>) {
            None => None,
            Some(Ok(at)) if at > now => Some(at),
            Some(Ok(_)) => return Err(invalid_expiry("this time has passed").into()),
            Some(Err(error)) => return Err(invalid_expiry(error.to_string()).into()),
        };
        let plan = self.plan.as_deref().map(parse_plan).transpose()?;
        Ok(ParsedKey { name, scope, expires_at, plan })
    }
}

fn invalid_expiry(message: impl Into<Cow<'static, str>>) -> ValidationError {
    ValidationError::new(ValidationErrorKind::InvalidExpiry, "expires_at", message)
}

/// Parses the plan of a key or of an account.
pub(super) fn parse_plan(plan: &str) -> Result<Limit, ValidationError> {
    let limit = plan.parse().ok().filter(|_| plan.len() <= MAX_PLAN_LEN);
    limit.ok_or_else(|| invalid("plan", "a limit such as 100/h, 30/m or 5/s, or 0 for none"))
}

impl Accounts {
    /// The keys of an account, the oldest first: the caller's own or, for admins, any.
    pub async fn keys(
        &self,
        principal: &Principal,
        owner: OwnerId,
    ) -> Result<Vec<ApiKey>, AccountError> {
        principal.require_self_or_admin(owner)?;
        Ok(self.registry.keys(owner).await?)
    }

    /// Creates a key for the caller's own account. Returns the key, shown once, and its stored
    /// form. It permits no more than the caller's credential: no higher limit, except for admins,
    /// and no later expiry. Attempts are limited, because each key has its own limit of links.
    pub async fn create_own_key(
        &self,
        principal: &Principal,
        draft: KeyDraft,
    ) -> Result<(String, ApiKey), AccountError> {
        let account = self.own_account(principal).await?;
        let mut key = draft.parse(self.clock.now())?;
        self.bounds(principal).await?.apply(&mut key)?;
        self.limits.make_key(&account).await?;
        self.add_key(&account, key, principal.owner()).await
    }

    /// Creates a key for another account, with any limit. Only for admins.
    pub async fn create_key_of(
        &self,
        principal: &Principal,
        owner: OwnerId,
        draft: KeyDraft,
    ) -> Result<(String, ApiKey), AccountError> {
        principal.require(Role::Admin)?;
        let key = draft.parse(self.clock.now())?;
        let account = self.find(owner).await?;
        self.add_key(&account, key, principal.owner()).await
    }

    /// Revokes a key of an account: of the caller's own or, for admins, of any.
    pub async fn revoke_key(
        &self,
        principal: &Principal,
        owner: OwnerId,
        id: KeyId,
    ) -> Result<(), AccountError> {
        principal.require_self_or_admin(owner)?;
        match self.registry.revoke_key(owner, id, self.by(principal.owner(), None)).await {
            Err(RegistryError::Missing) => Err(AccountError::NotFound("key")),
            revoked => Ok(revoked?),
        }
    }

    async fn add_key(
        &self,
        account: &Account,
        key: ParsedKey,
        actor: OwnerId,
    ) -> Result<(String, ApiKey), AccountError> {
        let secret = BearerSecret::key()?;
        let ParsedKey { name, scope, expires_at, plan } = key;
        let by = self.by(actor, None);
        let new = NewKey {
            owner: account.id,
            name,
            prefix: secret.prefix().to_owned(),
            token: secret.token(),
            scope,
            created_at: by.at,
            expires_at,
            plan: plan.map(|plan| plan.to_string()),
        };
        let made = match self.registry.add_key(new, by).await {
            Err(RegistryError::TooMany) => {
                return Err(AccountError::TooMany { what: "keys", limit: MAX_KEYS_PER_OWNER });
            }
            made => made?,
        };
        Ok((secret.reveal(), made))
    }

    async fn bounds(&self, principal: &Principal) -> Result<KeyBounds, AccountError> {
        let usual = self.limits.settings().create_per_key;
        let (own, expires_at) = match principal.credential {
            Credential::Key { id, plan } => {
                let keys = self.registry.keys(principal.owner()).await?;
                (plan, keys.into_iter().find(|key| key.id == id).and_then(|key| key.expires_at))
            }
            _ => (None, None),
        };
        if principal.role == Role::Admin {
            return Ok(KeyBounds { highest: None, default: None, expires_at });
        }
        // A key below the usual limit cannot create one with the usual limit.
        let default = own.filter(|own| !is_within(usual, *own));
        Ok(KeyBounds { highest: Some(own.unwrap_or(usual)), default, expires_at })
    }
}

/// The bounds of a key that a principal creates.
#[derive(Debug)]
struct KeyBounds {
    /// The highest limit; `None` for any.
    highest: Option<Limit>,
    /// The limit of a key whose request names none.
    default: Option<Limit>,
    /// The latest expiry; `None` for any.
    expires_at: Option<Timestamp>,
}

impl KeyBounds {
    fn apply(&self, key: &mut ParsedKey) -> Result<(), AccountError> {
        match (key.plan, self.highest) {
            (Some(plan), Some(highest)) if !is_within(plan, highest) => {
                let detail = format!("only an admin can give more than {highest}");
                return Err(AccountError::forbidden(detail).on("plan"));
            }
            (plan, _) => key.plan = plan.or(self.default),
        }
        match (key.expires_at, self.expires_at) {
            (Some(at), Some(end)) if at > end => {
                let detail =
                    format!("this key expires at {end}, and creates none that expires later");
                Err(AccountError::forbidden(detail).on("expires_at"))
            }
            (at, end) => {
                key.expires_at = at.or(end);
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
