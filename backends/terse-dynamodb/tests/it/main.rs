//! Tests against DynamoDB Local.
#![allow(clippy::unwrap_used, reason = "tests")]

mod capacity;
mod contract;
mod faults;
mod feed;
mod regions;
mod support;
mod table;
mod throttling;
