//! The terse binary: configuration, command line and wiring.
//!
//! Rules live in `terse-core`, answers in `terse-redirect` and `terse-server`, links in a backend. What is here reads the
//! settings, opens the parts and joins them, and offers the command line, which reaches links through the same API as
//! everyone else.

pub mod config;
pub mod logging;

pub use config::Config;
