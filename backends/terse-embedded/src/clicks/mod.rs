//! The clicks, in a file of their own, so that counting them never delays writes of links.
//!
//! A batch is grouped by subject and hour, and each row is read, merged and written once, in one
//! transaction with the positions of the journals. The keys of hours begin with the time, so that
//! writing stays within today's part of the file and old rows are deleted from one end. Single
//! clicks are kept in compressed columns, a block per batch (`block`, `blocks`). Every sum carries
//! a checksum. If it does not match, reading the sum is an error, and
//! counting goes on from the plain numbers of the row.

mod block;
mod blocks;
mod bucket;
mod deltas;
mod erase;
mod fold;
mod journals;
mod options;
mod prune;
mod queries;
mod raw;
mod report;
mod schema;
mod store;
mod sum;
mod top;
mod verify;
mod writes;

pub use deltas::DeltaLimits;
pub use options::ClickOptions;
pub(crate) use schema::CLICKS;
pub use store::EmbeddedClicks;
pub use verify::{ClickFileCheck, backup_clicks, inspect_clicks, verify_clicks};
