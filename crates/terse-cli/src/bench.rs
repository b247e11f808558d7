//! `terse bench`: a load generator that measures redirects and creates.
//!
//! It speaks plain HTTP/1.1 over its own sockets, so that it costs less than the server it
//! measures: it reuses request buffers and parses responses in place. It checks every response and
//! counts an unexpected one as an error, never as a served request. It has no TLS and no HTTP/2:
//! see `bench/run` for the latter.

mod callers;
mod create;
#[cfg(test)]
mod fake;
mod histogram;
mod load;
mod paths;
mod redirect;
mod report;
mod tally;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};

use terse_core::Secret;

pub use report::{BenchReport, ErrorCounts, Latency};
pub use wire::BenchTarget;

/// The largest number of connections or threads; more is probably a typo.
const MAX_CONNECTIONS: u64 = 65_535;

/// The options of `terse bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub mode: BenchMode,
}

impl BenchArgs {
    /// Sets the API key to create links with.
    pub fn with_key(mut self, given: Option<Secret>) -> Self {
        match &mut self.mode {
            BenchMode::Create(CreateOptions { key, .. })
            | BenchMode::Load(LoadOptions { key, .. }) => {
                *key = given;
            }
            BenchMode::Redirect(_) => {}
        }
        self
    }
}

/// The modes of the load generator.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchMode {
    /// Follow links and count the redirects.
    Redirect(RedirectOptions),
    /// Create links, each with a target of its own, and count those that became durable.
    Create(CreateOptions),
    /// Fill a server with links, and write their paths to a file for `redirect`.
    Load(LoadOptions),
}

/// Options for following links.
#[derive(Args, Clone, Debug)]
pub struct RedirectOptions {
    /// The server, as http://HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:8080", value_parser = BenchTarget::parse)]
    pub url: BenchTarget,
    /// A file with one path per line, the most popular first.
    #[arg(long, value_name = "FILE")]
    pub paths: Option<PathBuf>,
    /// A single path instead of a file.
    #[arg(long, conflicts_with = "paths")]
    pub path: Option<String>,
    /// How visitors choose among the paths.
    #[arg(long, value_enum, default_value_t = PathChoice::Zipf)]
    pub pick: PathChoice,
    /// The number of concurrent visitors.
    #[arg(long, default_value_t = 64,
        value_parser = clap::value_parser!(u64).range(1..=MAX_CONNECTIONS))]
    pub connections: u64,
    /// Threads of this load generator.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: u64,
    /// How long to measure, in seconds.
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub seconds: Duration,
    /// How long to warm up before measuring, in seconds.
    #[arg(long, default_value = "0", value_parser = seconds)]
    pub warm_up: Duration,
    /// A new connection for every visit.
    #[arg(long)]
    pub new_connections: bool,
    /// Visits per second, evenly spaced, whether or not the server keeps up. Latency then counts
    /// from the time a visit was due. The process waits by spinning: give it a core of its own.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rate: Option<u64>,
}

/// Options for creating links.
#[derive(Args, Clone, Debug)]
pub struct CreateOptions {
    /// The server, as http://HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:8080", value_parser = BenchTarget::parse)]
    pub url: BenchTarget,
    /// An API key without limits; links created without one expire.
    #[arg(skip)]
    pub key: Option<Secret>,
    /// The number of concurrent callers, each waiting for its response.
    #[arg(long, default_value_t = 16,
        value_parser = clap::value_parser!(u64).range(1..=MAX_CONNECTIONS))]
    pub callers: u64,
    /// Threads of this load generator.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: u64,
    /// How long to measure, in seconds.
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub seconds: Duration,
}

/// Options for filling a server.
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// The server, as http://HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:8080", value_parser = BenchTarget::parse)]
    pub url: BenchTarget,
    /// An API key without limits; required, because links created without one expire.
    #[arg(skip)]
    pub key: Option<Secret>,
    /// How many links.
    #[arg(long, default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub links: u64,
    /// The number of concurrent bulk requests.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub callers: u64,
    /// The output file for the paths, one per line, in the order of the targets.
    #[arg(long, value_name = "FILE")]
    pub paths: PathBuf,
}

/// How visitors choose among the paths.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum PathChoice {
    /// Few are popular: the n-th is chosen 1/n as often as the first.
    Zipf,
    /// All are equally popular.
    Uniform,
    /// Only the first.
    Single,
    /// Each once, in order: checks that all of them answer, and warms the server.
    Each,
    /// None of them: random codes, as a scanner would try. The right answer is 404.
    Unknown,
}

/// Runs the load generator and returns its report. Prints nothing.
pub fn run(options: BenchArgs) -> anyhow::Result<BenchReport> {
    match options.mode {
        BenchMode::Redirect(redirect) => redirect::run(redirect),
        BenchMode::Create(create) => create::run(create),
        BenchMode::Load(load) => load::run(&load),
    }
}

/// Parses a duration in seconds: `2`, `0.5`.
fn seconds(text: &str) -> anyhow::Result<Duration> {
    match text.trim_end_matches('s').parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => bail!("expected seconds, at most a day: 2 or 0.5"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_be_broken_but_not_endless() {
        assert_eq!(seconds("2").unwrap(), Duration::from_secs(2));
        assert_eq!(seconds("0.5s").unwrap(), Duration::from_millis(500));
        for wrong in ["", "-1", "NaN", "inf", "1e9", "soon"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
