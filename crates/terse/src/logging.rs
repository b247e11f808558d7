//! Writes log lines to standard error, as text or JSON.

mod limited_format;

use std::io::IsTerminal as _;

use anyhow::Context as _;
use terse_core::Clock;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::limited_format::LimitedFormat;

use crate::config::{LogConfig, LogFormat};

/// Reads a level, or pairs of target and level: `info,terse_redirect=debug`.
pub(crate) fn filter(text: &str) -> Result<Targets, ParseError> {
    text.split_whitespace().collect::<String>().parse()
}

/// Starts logging for the whole process.
pub fn start(log: &LogConfig) -> anyhow::Result<()> {
    let filter = filter(&log.level).context("log.level")?;
    // A closed standard error must not end the process: reporting a failed write would panic.
    let lines = tracing_subscriber::fmt()
        // `filter` decides.
        .with_max_level(LevelFilter::TRACE)
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let started = match log.format {
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .map_event_format(|lines| LimitedFormat::new(lines, Clock::default()))
            .finish()
            .with(filter)
            .try_init(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .map_event_format(|lines| LimitedFormat::new(lines, Clock::default()))
            .finish()
            .with(filter)
            .try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot be started: {error}"))
}
