//! Files with links from another shortener: CSV, JSON lines and JSON documents.
//!
//! Files are untrusted: every row is bounded, and a bad row is refused by number without stopping
//! the rest. This module opens no file and stores nothing.

mod cells;
mod columns;
mod document;
mod exchange;
mod fields;
mod records;
mod rows;

pub use cells::{guard, inert};
pub use columns::Source;
pub use exchange::{RowAnswer, answers_in, request_of};
pub use fields::{CLICKS, Field};
pub use rows::{Format, RejectedRow, Row, RowResult, Rows, rows_of};

/// Why no row of a file can be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportFileError {
    /// The file as a whole is not one with links; says what is wrong with it.
    #[error("{0}")]
    Unusable(String),
    /// The file could not be read.
    #[error("the file could not be read: {0}")]
    Io(#[from] std::io::Error),
}

impl ImportFileError {
    fn unusable(why: impl Into<String>) -> Self {
        Self::Unusable(why.into())
    }
}

/// A name in one line of at most `most` characters.
fn cut(text: &str, most: usize) -> String {
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    if text.chars().count() <= most {
        return line.collect();
    }
    line.take(most.saturating_sub(1)).chain(['…']).collect()
}
