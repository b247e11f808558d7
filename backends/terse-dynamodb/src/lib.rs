//! Links on DynamoDB, for fleets that outgrow one database server.
//!
//! One table holds everything; `keys` lists its items. A new generated code is one conditional
//! `PutItem`. Every other write is one `TransactWriteItems`, whose conditions decide: only a failed
//! condition means that a code is taken, a conflict with another transaction is repeated. Lookups
//! read with strong consistency, those of many callers in one `BatchGetItem`. Lists and maintenance
//! find links by indexes, which may be late, and read each link again before they decide.
//!
//! Accounts, sessions and clicks are in PostgreSQL.

mod changes;
mod client;
mod expiry;
mod failure;
mod folded_aliases;
mod inserts;
mod inspect;
mod item;
mod keys;
mod leases;
mod list;
mod lookups;
mod options;
mod outbox;
mod requests;
mod retry;
mod reuse;
mod row;
mod store;
mod table;
mod updates;

pub use inspect::{DynamoInspection, inspect};
pub use options::{AddressError, DynamoAddress, DynamoOpenError, DynamoOptions, HomeRegion};
pub use store::{ConsumedCapacity, DynamoLinks};
pub use table::{TableCreated, create};
