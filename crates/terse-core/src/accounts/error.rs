//! Errors of the account service.

use std::borrow::Cow;

use crate::limits::LimitReached;
use crate::password::PasswordError;
use crate::principal::AccessError;
use crate::registry::RegistryError;
use crate::store::StoreError;
use crate::validation::ValidationError;

/// Why something was not done. Nothing changed, unless the registry failed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The input is invalid.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// No account has this API key.
    #[error("unknown key")]
    UnknownKey,
    /// The API key has expired.
    #[error("this key has expired")]
    ExpiredKey,
    /// The account is suspended.
    #[error("this account is suspended")]
    Suspended,
    /// No account has this name and this password.
    #[error("the name or the password is wrong")]
    WrongCredentials,
    /// The password is not that of the account.
    #[error("the password is wrong")]
    WrongPassword {
        /// The field that contained it.
        field: &'static str,
    },
    /// The code is not one of the account, or was used.
    #[error("the code is wrong or was already used")]
    WrongCode {
        /// The field that contained it.
        field: &'static str,
    },
    /// Too much time has passed since the password was given, or the account was changed since.
    #[error("this took too long; sign in again")]
    SignInOver,
    /// The caller may not do this.
    #[error("{detail}")]
    Forbidden {
        /// The field at fault, if there is one.
        field: Option<&'static str>,
        /// Why.
        detail: Cow<'static, str>,
    },
    /// The caller's role does not permit it.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// An admin erases other accounts; their own is erased with a confirmation.
    #[error("this is your own account")]
    OwnAccount,
    /// There is no such account, key, session or invitation.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The operator's keys belong to no account.
    #[error("this key belongs to no account")]
    NoAccount,
    /// The set-up link or invitation is used, withdrawn or expired.
    #[error("this link is not valid any more")]
    LinkOver,
    /// The account is being erased, which cannot be undone.
    #[error("this account is being erased, which cannot be undone")]
    BeingErased,
    /// A maximum number is reached.
    #[error("limit of {limit} {what} reached; remove one first")]
    TooMany {
        /// What is limited.
        what: &'static str,
        /// The maximum.
        limit: usize,
    },
    /// Another account has this identity.
    #[error("another account has this identity")]
    IdentityTaken,
    /// A limit is reached.
    #[error(transparent)]
    Limited(#[from] LimitReached),
    /// The password was not hashed.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The registry refused or failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The system has no random numbers.
    #[error("no random numbers")]
    Random(#[from] getrandom::Error),
}

impl AccountError {
    pub(super) fn forbidden(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Forbidden { field: None, detail: detail.into() }
    }

    /// The same error, with a field.
    #[must_use]
    pub(super) fn on(self, field: &'static str) -> Self {
        match self {
            Self::Forbidden { detail, .. } => Self::Forbidden { field: Some(field), detail },
            error => error,
        }
    }
}

impl From<StoreError> for AccountError {
    fn from(error: StoreError) -> Self {
        Self::Registry(error.into())
    }
}
