//! The terse binary: configuration, command line and wiring.
//!
//! Rules live in `terse-core`, answers in `terse-redirect` and `terse-server`, links in a backend.
//! What is here reads the settings, opens the parts and joins them, and offers the command line,
//! which reaches links through the same API as everyone else.

mod account_jobs;
pub mod backends;
pub mod cli;
mod click_plane;
mod commands;
pub mod config;
mod geo_refresh;
mod health;
mod http_fallback;
mod local_api;
pub mod logging;
mod metrics;
mod metrics_store;
mod outgoing;
mod registry_watcher;
mod safety;
mod salt_jobs;
pub mod serve;

pub use config::Config;
