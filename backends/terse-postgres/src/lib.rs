//! The stores of a fleet, on PostgreSQL.
//!
//! Every node opens the same database. Links are in [`PostgresLinks`], everything about owners is
//! in [`PostgresRegistry`]. Lookups of links and new links are gathered: a few connections carry
//! the lookups of all callers, pipelined, one task commits the new links of all callers in one
//! transaction, and another one the clicks of links with `max_clicks`.
//!
//! Statements are unnamed and typed, and nothing outlives a transaction, so that a pooler such as
//! pgbouncer in transaction mode can sit in between. Without a pooler, lookups are prepared once
//! for each connection. Migrations, and writes that only one node may make, take advisory locks
//! that end with their transaction.

mod clicks;
mod exclusive;
mod failure;
mod inspect;
mod ledger;
mod links;
mod options;
mod pool;
mod prepared;
mod registry;
mod replica;
mod schema;
mod shared;
mod sql;
mod tls;
mod tombstones;
mod transfer;
mod watch;

pub use clicks::{PostgresClicks, SumsWriter};
pub use inspect::{PostgresInspection, ReplicaInspection, inspect, inspect_replica};
pub use ledger::{LedgerKind, PostgresLedger};
pub use links::{OldLinkChanges, PostgresLinks};
pub use options::{PostgresOpenError, PostgresOptions};
pub use pool::PostgresConnections;
pub use registry::PostgresRegistry;
pub use transfer::{DatabaseExport, DatabaseImport, TransferError};
pub use watch::{DatabaseWatch, DatabaseWatchResults};
