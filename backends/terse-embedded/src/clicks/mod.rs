//! The clicks, in a file of their own, so that counting them never delays writes of links.
//!
//! A batch is grouped by subject and hour, and each row is read, merged and written once, in one
//! transaction with the positions of the journals. A batch of many links is written as a run of
//! sorted sums instead (`runs`); sums of finished days stay in runs (`finished`). The keys of hours
//! begin with the time, so that writing stays within today's part of the file and old rows are
//! deleted from one end. Single clicks are kept in compressed columns, a block per batch (`block`,
//! `blocks`). Links are found by sorted lists of keys (`key_runs`). Every sum carries a checksum.
//! If it does not match, reading the sum is an error, and counting continues from the plain numbers
//! of the row.

mod block;
mod block_builder;
mod blocks;
mod bucket;
mod day_ranks;
mod erase;
mod export;
mod finish_days;
mod finished;
mod fold;
mod groups;
mod import;
mod journals;
mod key_merge;
mod key_runs;
#[cfg(test)]
mod key_tests;
mod known_links;
mod new_links;
mod old_blocks;
mod options;
mod prune;
mod queries;
mod raw;
mod report;
mod run_erase;
mod run_merge;
#[cfg(test)]
mod run_tests;
mod runs;
pub(crate) mod schema;
mod store;
mod sum;
mod top;
mod top_with_runs;
mod verify;
mod visit_limit;
mod writes;

pub use import::ClicksImport;
pub use options::ClickOptions;
pub use runs::RunLimits;
pub(crate) use schema::CLICKS;
pub use store::EmbeddedClicks;
pub use verify::{ClickFileCheck, backup_clicks, inspect_clicks, verify_clicks};
