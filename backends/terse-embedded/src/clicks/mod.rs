//! The clicks, in a file of their own: counting them never holds up who makes links.
//!
//! A batch is grouped by subject and hour, and each row is read, merged and written once, in one
//! transaction with the positions of the journal. Hours and raw clicks are filed by time first, so
//! that writing stays within today's part of the file and old ones are taken away from one end.
//! Every sum carries a checksum; one that does not fit it is an error to whoever reads it, and is
//! counted on from its plain numbers by whoever writes it.

mod bucket;
mod group;
mod options;
mod prune;
mod queries;
mod raw;
mod report;
mod schema;
mod store;
mod sum;
mod verify;
mod writes;

pub use options::ClickOptions;
pub use store::EmbeddedClicks;
pub use verify::{ClickFileCheck, backup_clicks, inspect_clicks, verify_clicks};
