//! Writes log lines to standard error, as text or JSON.

mod limited_format;

use std::io::IsTerminal as _;

use anyhow::Context as _;
use terse_core::{Clock, TRACE_TARGET};
use terse_traces::TraceLayer;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::limited_format::LimitedFormat;

use crate::config::{LogConfig, LogFormat};

/// Reads a level, or pairs of target and level: `info,terse_redirect=debug`.
pub(crate) fn filter(text: &str) -> Result<Targets, ParseError> {
    text.split_whitespace().collect::<String>().parse()
}

/// The filter of the log, which does not show spans.
fn log_filter(text: &str) -> Result<Targets, ParseError> {
    Ok(filter(text)?.with_target(TRACE_TARGET, LevelFilter::OFF))
}

/// Changes what is logged, to a text as in `log.level`.
pub type SetLevel = Box<dyn Fn(&str) -> anyhow::Result<()> + Send + Sync>;

/// Starts logging for the whole process and, with a layer, the collection of spans. The result
/// changes what is logged.
pub fn start(log: &LogConfig, traces: Option<TraceLayer>) -> anyhow::Result<SetLevel> {
    let filter = log_filter(&log.level).context("log.level")?;
    let lines = tracing_subscriber::fmt::layer()
        // A closed standard error must not end the process: reporting a failed write would panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match log.format {
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .map_event_format(|lines| LimitedFormat::new(lines, Clock::default()))
            .boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .map_event_format(|lines| LimitedFormat::new(lines, Clock::default()))
            .boxed(),
    };
    let set_level: SetLevel;
    let started = match traces {
        None => {
            let (filter, handle) = reload::Layer::new(filter);
            set_level = Box::new(move |text| Ok(handle.reload(log_filter(text)?)?));
            Registry::default().with(lines).with(filter).try_init()
        }
        Some(traces) => {
            let (filter, handle) = reload::Layer::new(filter);
            set_level = Box::new(move |text| Ok(handle.reload(log_filter(text)?)?));
            let traces = traces.with_filter(TraceLayer::filter());
            Registry::default().with(lines.with_filter(filter)).with(traces).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot be started: {error}"))?;
    Ok(set_level)
}
