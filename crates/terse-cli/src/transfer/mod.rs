//! Links in files: CSV and JSON lines, in and out.
//!
//! Files are untrusted: every row is bounded, and a bad row is refused by number without stopping
//! the rest. This module does not call the server.

mod cells;
mod columns;
mod document;
mod fields;
mod records;
mod resume;
mod rows;
mod writer;

pub(crate) use cells::guard;
pub(crate) use columns::Source;
pub(crate) use records::digest_of;
pub(crate) use resume::{ImportCounts, ImportPosition};
pub use rows::rows_of;
pub(crate) use rows::{Format, Refused, Row, RowResult, Rows};
pub(crate) use writer::Writer;
