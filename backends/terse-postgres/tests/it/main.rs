//! The stores on a real PostgreSQL, which the tests start.
#![allow(clippy::unwrap_used, reason = "tests")]

mod clicks;
mod contract;
mod faults;
mod feed;
mod pooler;
mod replica;
mod restored;
mod session;
mod standby;
mod tables;
mod tls;
mod upgrades;
