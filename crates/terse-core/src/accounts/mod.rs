//! The one service for accounts: sign-up, authentication, changes to the own and to other accounts,
//! suspension and erasure.
//!
//! For every adapter it counts attempts, checks permissions, attributes every change in the audit
//! log and makes changes take effect on this node.

mod admin;
mod authentication;
mod erasure;
mod error;
mod invitations;
mod keys;
mod mail;
mod profile;
mod resets;
mod secret;
mod sessions;
mod sign_up;
mod suspension;
mod two_factor;
mod two_factor_key;

pub use admin::{AccountDraft, AccountEdit, role_of};
pub use authentication::SignedIn;
pub use erasure::{Erasure, ErasureError, ErasureProgress, Erasures};
pub use error::AccountError;
pub use invitations::{InvitationDraft, IssuedInvitation};
pub use keys::{KeyDraft, MAX_KEY_NAME, MAX_PLAN_LEN};
pub use mail::{MAX_TIME_ZONE, MailWriter, PreferencesEdit};
pub use profile::{ErasureConfirmation, OwnSubject, ProfileEdit};
pub use secret::BearerSecret;
pub use sessions::SessionSecret;
pub use sign_up::{OidcAccount, SignUp};
pub use two_factor::{RECOVERY_CODES, SignInStep, TwoFactorOffer};
pub use two_factor_key::TwoFactorKey;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::Clock;
use crate::domain::Hosts;
use crate::limits::RateLimits;
use crate::link::OwnerId;
use crate::mail::{EmailAddress, MailQueue};
use crate::password::PasswordHasher;
use crate::principal::{Credential, Principal};
use crate::registry::{
    Account, AccountChange, Actor, Attribution, ConditionalAccountChange, Registry, Suspension,
};
use crate::validation::{ValidationError, ValidationErrorKind};

/// The shortest password, in characters; shorter ones are easily guessed.
pub const MIN_PASSWORD_LEN: usize = 10;
/// The longest reason in the audit log, in characters.
pub const MAX_REASON: usize = 1000;

/// The operator's settings for accounts.
#[derive(Clone, Copy, Debug)]
pub struct AccountPolicy {
    /// Whether anyone may sign up. Otherwise sign-up needs an invitation.
    pub open: bool,
    /// How long a browser stays signed in.
    pub session_ttl: Duration,
}

/// Makes a change of the registry take effect on this node at once: suspended accounts, blocked
/// hosts, short domains. Other nodes find it at their next poll.
#[async_trait]
pub trait RefreshHook: Send + Sync {
    /// Returns when the change is in force here, or after a bounded time.
    async fn refresh(&self);
}

/// Counts the requests of keys, and writes the counts to the registry from time to time.
pub trait KeyUse: Send + Sync {
    /// A key made a request.
    fn note(&self, key: crate::registry::KeyId, at: crate::time::Timestamp);
}

/// For processes without a redirect plane: commands, and tests.
#[derive(Clone, Copy, Debug)]
pub struct NoRefresh;

#[async_trait]
impl RefreshHook for NoRefresh {
    async fn refresh(&self) {}
}

/// Records no uses.
#[derive(Clone, Copy, Debug)]
pub struct NoKeyUse;

impl KeyUse for NoKeyUse {
    fn note(&self, _key: crate::registry::KeyId, _at: crate::time::Timestamp) {}
}

/// The service.
pub struct Accounts {
    registry: Arc<dyn Registry>,
    passwords: Arc<dyn PasswordHasher>,
    limits: RateLimits,
    policy: AccountPolicy,
    two_factor: TwoFactorKey,
    refresh: Arc<dyn RefreshHook>,
    key_use: Arc<dyn KeyUse>,
    clock: Clock,
    hosts: Hosts,
    /// `None` if this server sends no mail.
    mail: Option<Arc<MailQueue>>,
}

impl Accounts {
    /// Wires the service.
    #[allow(clippy::too_many_arguments, reason = "the parts that the service calls")]
    pub fn new(
        registry: Arc<dyn Registry>,
        passwords: Arc<dyn PasswordHasher>,
        limits: RateLimits,
        policy: AccountPolicy,
        two_factor: TwoFactorKey,
        refresh: Arc<dyn RefreshHook>,
        key_use: Arc<dyn KeyUse>,
        clock: Clock,
        hosts: Hosts,
    ) -> Self {
        Self {
            registry,
            passwords,
            limits,
            policy,
            two_factor,
            refresh,
            key_use,
            clock,
            hosts,
            mail: None,
        }
    }

    /// Sends mails by this queue.
    pub fn with_mail(self, mail: Option<Arc<MailQueue>>) -> Self {
        Self { mail, ..self }
    }

    /// The operator's settings.
    pub fn policy(&self) -> &AccountPolicy {
        &self.policy
    }

    /// Attributes an action to an account, now.
    fn by(&self, owner: OwnerId, why: Option<String>) -> Attribution {
        Attribution { actor: Actor::Owner(owner), at: self.clock.now(), why }
    }

    /// Changes an account, if it is still as the caller read it. An account that is being erased
    /// cannot be changed.
    async fn change(
        &self,
        account: &Account,
        change: AccountChange,
        by: Attribution,
    ) -> Result<Account, AccountError> {
        if account.suspended.as_ref().is_some_and(Suspension::is_erasure) {
            return Err(AccountError::BeingErased);
        }
        let change =
            ConditionalAccountChange { id: account.id, change, expected: Some(account.revision) };
        let changed = self.registry.change_account(change, by).await?;
        if changed.suspended.is_some() != account.suspended.is_some() {
            self.refresh.refresh().await;
        }
        Ok(changed)
    }

    /// The hash of a password that an account chose.
    async fn hash_new(&self, password: String) -> Result<String, AccountError> {
        profile::check_password_length(&password)?;
        Ok(self.passwords.hash(password).await?)
    }
}

/// Refuses an admin's own account in a browser session: a session left open must not be enough to
/// take the account over. The page Account asks for the password.
fn refuse_own_session(principal: &Principal, id: OwnerId) -> Result<(), AccountError> {
    match principal.credential {
        Credential::Session(_) if principal.owner() == id => {
            Err(AccountError::forbidden("this is your own account; use the page Account"))
        }
        _ => Ok(()),
    }
}

/// Checks a text of one line with 1 to `max` characters, and trims it.
pub fn one_line(field: &'static str, text: &str, max: usize) -> Result<String, ValidationError> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > max || text.chars().any(char::is_control) {
        return Err(invalid(field, format!("1 to {max} characters in one line")));
    }
    Ok(text.to_owned())
}

/// A reason for the audit log.
pub fn reason(why: &str) -> Result<String, ValidationError> {
    one_line("why", why, MAX_REASON)
}

/// A reason for the audit log, cut to its longest length; `default` if there is none.
pub fn reason_or(why: &str, default: &'static str) -> String {
    match why.trim() {
        "" => default.to_owned(),
        why => why.chars().take(MAX_REASON).collect(),
    }
}

/// Reads an email address that a caller sent; an empty text means none.
fn email_address(text: &str) -> Result<Option<EmailAddress>, ValidationError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let detail = "this is not an email address such as ann@example.com";
    EmailAddress::parse(text).map(Some).ok_or_else(|| invalid("email", detail))
}

fn invalid(field: &'static str, detail: impl Into<String>) -> ValidationError {
    ValidationError::new(ValidationErrorKind::InvalidRequest, field, detail.into())
}
