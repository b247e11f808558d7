//! Internal errors, by their effect on other callers.

use rusqlite::ErrorCode;
use terse_core::StoreError;

/// Why one piece of work was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Refused before anything was written; it affects only this caller.
    Refused(StoreError),
    /// SQLite failed: the transaction must be rolled back.
    Engine(rusqlite::Error),
}

impl Failure {
    /// The same failure after a part of the work was written: the transaction is rolled back.
    pub(crate) fn after_writes(self) -> Self {
        Self::Engine(self.into_engine())
    }

    pub(crate) fn into_engine(self) -> rusqlite::Error {
        match self {
            Self::Refused(error) => rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
                Some(error.to_string()),
            ),
            Self::Engine(error) => error,
        }
    }
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
            // A value of the wrong type, or NULL instead of text: terse did not write this row.
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

/// The error text of SQLite, for logs and for `check`.
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

/// Whether SQLite failed because of one job and not because of the disk, so that the other jobs can
/// still run.
pub(crate) fn is_single_job_error(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::ConstraintViolation
                // A damaged page; other pages can still be written.
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::TooBig
                | ErrorCode::TypeMismatch
                | ErrorCode::ParameterOutOfRange
                | ErrorCode::ApiMisuse
        )
    )
}

/// Whether a page of the file is not what SQLite wrote.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Whether the disk itself failed. It is then unknown which of the pages written before are on it.
pub(crate) fn drops_pages(failure: &Failure) -> bool {
    matches!(failure, Failure::Engine(error)
            if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure))
}

/// A row whose content is not what terse wrote.
pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt(what.into().into())
}

/// The store cannot work at present.
pub(crate) fn unavailable(why: impl Into<String>) -> StoreError {
    StoreError::Unavailable(why.into().into())
}
