//! The bus and its workers on a real Kafka, with the ledger and a click store on a real PostgreSQL;
//! the tests start both.
#![allow(clippy::unwrap_used, reason = "tests")]

mod counting;
mod faults;
mod injected;
mod messages;
mod publishing;
mod secure;
mod sizes;
mod start;
mod support;
mod throughput;
