//! The targets. Each takes bytes as a stranger could send them, or as a damaged file could hold
//! them, and checks what must be true of the result. None may panic.
//!
//! bolero runs them inside `cargo test` on stable Rust, and a coverage-guided fuzzer can run the
//! same code. Its generator mutates the seeds: bytes by chance alone would not get past a parser.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod codecs;
mod fast_path;
mod http2;
mod import;
mod input;
mod rules;
mod safe_browsing;
mod suffix_list;
mod url;
