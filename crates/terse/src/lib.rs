//! The terse binary: configuration, command line and wiring.
//!
//! `terse-core` has the rules, `terse-redirect` and `terse-server` answer requests, and a backend
//! stores links. This crate reads the settings, builds and connects those parts, and has the
//! command line, which uses the same API as other clients.

pub mod backends;
pub mod cli;
mod click_plane;
mod commands;
pub mod config;
mod local_api;
pub mod logging;
mod memory_plan;
mod outgoing;
pub mod serve;

pub use config::Config;
