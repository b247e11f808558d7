//! The click store on a real ClickHouse, with its ledger on a real PostgreSQL; the tests start
//! both.
#![allow(clippy::unwrap_used, reason = "tests")]

mod compare;
mod contract;
mod large;
mod merging;
mod once;
mod schema;
mod support;
