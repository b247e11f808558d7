//! The embedded stores: links in one SQLite file, clicks in another, owners in a third, and rate
//! limits in memory. They serve a single node without another server.
//!
//! One thread writes, and commits the writes of many callers with one fsync. A few threads look
//! links up, many lookups per read transaction. One more thread lists, and others search, so that a
//! long search delays neither a redirect nor a list. An index of trigrams keeps searches short.
//! Generated links are stored under their number, so new ones are appended; aliases have a table of
//! their own. Every row carries a checksum, and a row that does not match it is an error, never a
//! redirect.
//!
//! One process at a time uses the files: it holds the lock of the data folder.

mod backup;
mod changes;
mod clicks;
mod connection_gate;
mod data_dir;
mod database;
mod disk_reserve;
mod disk_watch;
mod engine;
mod expiry;
mod failure;
mod fence;
mod health;
mod history;
mod import;
mod indexer;
mod issued_codes;
mod leases;
mod limiter;
mod list;
mod mark;
mod memory;
mod options;
mod outbox;
mod quarantined_aliases;
mod queries;
mod queue;
mod reader;
mod registry;
mod row;
mod schema;
mod search;
mod search_reset;
mod store;
mod tags;
mod threads;
mod transfer;
#[cfg(test)]
mod upgrade_tests;
mod verify;
mod writer;
mod writes;

pub use backup::{BackupError, backup};
pub use clicks::{
    ClickFileCheck, ClickOptions, ClicksImport, EmbeddedClicks, RunLimits, backup_clicks,
    inspect_clicks, verify_clicks,
};
pub use data_dir::{DataDir, DataDirError, LockGuard, RunInfo};
pub use disk_reserve::DiskReserve;
pub use disk_watch::DiskWatch;
pub use fence::remove_fence;
pub use import::{LinksImport, TablesImport, install_file, seal};
pub use leases::skip_ahead;
pub use limiter::LocalLimiter;
pub use mark::last_loss;
pub use options::{EmbeddedOpenError, EmbeddedOptions};
pub use registry::{
    EmbeddedRegistry, RegistryFileCheck, RegistryOptions, backup_registry, inspect_registry,
    move_into_registry, skip_ahead_registry, skip_owners_of_links, verify_registry,
};
pub use store::EmbeddedLinks;
pub use transfer::{LinksFile, TablesFile, WriteLock};
pub use verify::{LinkFileCheck, Problems, inspect, verify};
