//! What can go wrong inside, by what it means for others.

use rusqlite::ErrorCode;
use terse_core::StoreError;

/// Why one piece of work was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Decided before anything was written: only this caller is concerned.
    Refused(StoreError),
    /// The engine itself failed: what was written so far in this transaction cannot stay.
    Engine(rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(_) => Self::Engine(error),
            // A value of the wrong type or no text where text should be: the row is not what we
            // wrote.
            None => Self::Refused(StoreError::Corrupt(error.into())),
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error,
            Failure::Engine(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    Self::Corrupt(error.into())
                }
                _ => Self::Unavailable(error.into()),
            },
        }
    }
}

/// The driver's words, for logs and for `check`.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(StoreError::Unavailable(source) | StoreError::Corrupt(source)) => {
                write!(f, "{source}")
            }
            Self::Refused(error) => write!(f, "{error}"),
            Self::Engine(error) => write!(f, "{error}"),
        }
    }
}

/// Whether the engine stumbled over one piece of work, rather than over the disk: the others can
/// still be done.
pub(crate) fn concerns_one(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::ConstraintViolation
                // A damaged page: what lies elsewhere can still be written.
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::TooBig
                | ErrorCode::TypeMismatch
                | ErrorCode::ParameterOutOfRange
                | ErrorCode::ApiMisuse
        )
    )
}

/// Whether the disk itself failed, after which nobody knows which of the pages written before are
/// on it.
pub(crate) fn drops_pages(failure: &Failure) -> bool {
    matches!(failure, Failure::Engine(error) if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure))
}

/// A row that does not say what we once wrote.
pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt(what.into().into())
}

/// Nothing can be done right now.
pub(crate) fn unavailable(why: impl Into<String>) -> StoreError {
    StoreError::Unavailable(why.into().into())
}
