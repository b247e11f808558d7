//! The terse binary: configuration, command line and wiring.
//!
//! Rules live in `terse-core`, answers in `terse-redirect` and `terse-server`, links in a backend.
//! What is here reads the settings, opens the parts and joins them, and offers the command line,
//! which reaches links through the same API as everyone else.

mod account_jobs;
pub mod backends;
pub mod bench;
pub mod cli;
mod click_jobs;
mod click_plane;
pub mod client;
mod commands;
pub mod config;
pub mod data_dir_lock;
mod health;
mod http_fallback;
pub mod logging;
mod metrics;
mod metrics_store;
mod outgoing;
mod problem;
mod reaper;
mod registry_watcher;
mod report_job;
mod rescan;
mod safety;
pub mod serve;
mod terminal;
mod transfer;

pub use config::Config;
