//! The web side, from outside.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod create;
mod described;
mod fake;
mod links;
mod pages;
mod web;
