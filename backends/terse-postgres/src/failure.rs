//! Failures, grouped by what the caller can do about them.

use terse_core::registry::RegistryError;
use terse_core::{BoxError, StoreError};
use tokio_postgres::error::SqlState;

/// A failed attempt.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An answer: repeating the call would give it again.
    Refused(StoreError),
    /// Nothing was written. Another attempt may succeed: two transactions conflicted, or the
    /// connection was closed before the commit was sent.
    Again(BoxError),
    /// The connection was lost while the transaction committed: it may have happened.
    Unknown(BoxError),
}

impl Failure {
    /// Whether the database refused a value: nothing else of the transaction is wrong.
    pub(crate) fn is_about_a_value(&self) -> bool {
        // Data exceptions, violated constraints, and exceeded limits.
        self.code().is_some_and(|code| ["22", "23", "54"].contains(&&code.code()[..2]))
    }

    fn code(&self) -> Option<&SqlState> {
        let Self::Refused(StoreError::Unavailable(error)) = self else { return None };
        error.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.code())
    }

    /// Whether the server has no room for the locks of so large a transaction.
    pub(crate) fn is_about_the_size(&self) -> bool {
        self.code() == Some(&SqlState::OUT_OF_MEMORY)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// An error of a statement inside a transaction, or of a read.
impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            None if error.is_closed() || error.as_db_error().is_none() => {
                Self::Again(Box::new(error))
            }
            Some(code) if is_passing(code) => Self::Again(Box::new(error)),
            Some(code) if is_damage(code) => Self::Refused(StoreError::Corrupt(Box::new(error))),
            _ => Self::Refused(StoreError::Unavailable(Box::new(error))),
        }
    }
}

/// Whether another attempt may succeed at once: another transaction conflicted, or the server ended
/// the connection.
fn is_passing(code: &SqlState) -> bool {
    [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::IN_FAILED_SQL_TRANSACTION,
    ]
    .contains(code)
}

fn is_damage(code: &SqlState) -> bool {
    [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code)
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error,
            Failure::Again(error) | Failure::Unknown(error) => Self::Unavailable(error),
        }
    }
}

impl From<Failure> for RegistryError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure.into())
    }
}

/// A stored value that terse did not write.
pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt(what.into().into())
}

/// The server does not answer.
pub(crate) fn unavailable(why: impl Into<String>) -> StoreError {
    StoreError::Unavailable(why.into().into())
}
