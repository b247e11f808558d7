//! The command line: commands, the API client, import and export, and the load generator.
//!
//! Every command here works through the API. The binary passes in how to reach the API of the local
//! data folder ([`Context::local`]), so that this crate knows neither the stores nor the server.
//! Commands that need the stores' files (`serve`, `backup`, `restore`, `doctor`) are in the binary.

pub mod bench;
mod client;
mod commands;
mod problem;
pub mod terminal;
mod transfer;

pub use client::{Answer, ApiClient, InProcessApi, Remote};
pub use commands::{Command, Context};
pub use problem::{Usage, describe};
pub use transfer::{digest_of, rows_of};
