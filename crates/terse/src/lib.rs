//! The terse binary: configuration, command line and wiring.
//!
//! `terse-core` has the rules, `terse-redirect` and `terse-server` answer requests, and a backend
//! stores links. This crate reads the settings, builds and connects those parts, and has the
//! command line, which uses the same API as other clients.

mod account_jobs;
mod allocator;
pub mod backends;
pub mod cli;
mod click_plane;
mod commands;
pub mod config;
mod disk_watch;
mod geo_refresh;
mod health;
mod http_fallback;
mod local_api;
pub mod logging;
mod memory_plan;
mod metrics;
mod metrics_store;
mod outgoing;
mod program_pages;
mod registry_watcher;
mod safety;
mod salt_jobs;
pub mod serve;
mod tls;
mod warm_restart;

pub use config::Config;
