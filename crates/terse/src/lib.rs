//! The terse binary: configuration, command line and wiring.
//!
//! Rules live in `terse-core`, answers in `terse-redirect` and `terse-server`, links in a backend. What is here reads the
//! settings, opens the parts and joins them, and offers the command line, which reaches links through the same API as
//! everyone else.

pub mod backends;
pub mod bench;
mod chores;
pub mod cli;
mod click_chores;
pub mod client;
mod commands;
pub mod config;
mod counting;
mod front_door;
pub mod logging;
mod metered;
mod metrics;
mod operating;
mod outgoing;
mod owner_chores;
mod problem;
mod registry_watch;
mod report_chore;
mod rescan;
pub mod run_file;
mod safety;
pub mod serve;
mod terminal;
mod transfer;

pub use config::Config;
