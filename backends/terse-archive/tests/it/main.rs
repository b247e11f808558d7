//! The archive against a folder, a real S3 server, and DuckDB.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod copying;
mod erasing;
mod objects;
mod readers;
mod support;
