//! Why the service did not do what was asked.

use crate::codes::CodeSourceError;
use crate::limits::LimitReached;
use crate::password::PasswordError;
use crate::principal::AccessError;
use crate::store::StoreError;
use crate::validation::ValidationError;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The input was refused; nothing changed.
    #[error(transparent)]
    Refused(#[from] ValidationError),
    /// No such link, or none of the caller's.
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
    Password(#[from] PasswordError),
    /// Others kept changing the same link.
    #[error("the link was changed by somebody else")]
    Conflict,
    /// The same idempotency key was used for something else.
    #[error("this idempotency key was used for another request")]
    RequestMismatch,
    /// The store did not do it.
    #[error(transparent)]
    Store(StoreError),
    /// No code could be made.
    #[error("no code could be made")]
    NoCode(#[source] CodeSourceError),
}

impl From<StoreError> for LinkError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict => Self::Conflict,
            error => Self::Store(error),
        }
    }
}
