//! Links in files: CSV and JSON lines, in and out.
//!
//! What is read was written by anyone, so every row is bounded and a bad row is refused by number
//! without stopping the rest. Nothing here talks to a server.

mod cells;
mod columns;
mod fields;
mod records;
mod resume;
mod rows;
mod writer;

pub(crate) use cells::guard;
pub use records::digest_of;
pub(crate) use resume::{Done, Position};
pub(crate) use rows::{Format, Refused, Row, RowResult, Rows};
pub(crate) use writer::Writer;
