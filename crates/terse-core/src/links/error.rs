//! Errors of the link service.

use crate::codes::CodeSourceError;
use crate::limits::LimitReached;
use crate::password::PasswordError;
use crate::principal::AccessError;
use crate::store::StoreError;
use crate::validation::{ValidationError, ValidationErrorKind};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The input is invalid; nothing changed.
    #[error(transparent)]
    Refused(#[from] ValidationError),
    /// There is no such link, or the caller may not see it.
    #[error("there is no such link")]
    NotFound,
    /// An anonymous caller needs a credential.
    #[error("a key is needed")]
    KeyNeeded,
    /// The caller's key or role does not permit it.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A limit is reached; nothing was done.
    #[error(transparent)]
    Limited(#[from] LimitReached),
    /// The password was not hashed.
    #[error(transparent)]
    Password(PasswordError),
    /// Concurrent changes of the same link won.
    #[error("another caller changed the link")]
    Conflict,
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used for another request")]
    RequestMismatch,
    /// A node of an earlier version still runs and could not read the link.
    #[error("not all nodes can read such a link yet")]
    EarlierNodes,
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// No code could be generated.
    #[error("no code could be generated")]
    NoCode(#[source] CodeSourceError),
}

impl From<PasswordError> for LinkError {
    /// A length is the caller's mistake, and names the field.
    fn from(error: PasswordError) -> Self {
        match error {
            PasswordError::Length => {
                let kind = ValidationErrorKind::InvalidRequest;
                Self::Refused(ValidationError::new(kind, "password", error.to_string()))
            }
            error => Self::Password(error),
        }
    }
}

impl From<StoreError> for LinkError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict => Self::Conflict,
            error => Self::Store(error),
        }
    }
}
