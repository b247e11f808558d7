//! `terse bench`: visitors and callers by the thousand, to learn what a server can bear.
//!
//! Speaks plain HTTP/1.1 over sockets of its own, so that it costs less than what it measures: a
//! request is bytes in a buffer that is used again, an answer is looked at where it arrived. Every
//! answer is looked at; what is not the expected one is counted as an error and never as a request
//! served. TLS and HTTP/2 are absent: see `bench/run` for the latter.

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

pub use report::{BenchReport, Errors, Latency};
pub use wire::Server;

/// How many connections or threads may be asked for; more is a typing error.
const MAX_CONNECTIONS: u64 = 65_535;

/// What `terse bench` is asked to do.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What to measure.
    #[command(subcommand)]
    pub mode: Mode,
}

impl Options {
    /// With the key that links are made with.
    pub fn with_key(mut self, given: Option<Secret>) -> Self {
        match &mut self.mode {
            Mode::Create(CreateOptions { key, .. }) | Mode::Load(LoadOptions { key, .. }) => {
                *key = given;
            }
            Mode::Redirect(_) => {}
        }
        self
    }
}

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
pub enum Mode {
    /// Follow links and count the redirects.
    Redirect(RedirectOptions),
    /// Create links, each with a target of its own, and count those that became durable.
    Create(CreateOptions),
    /// Fill a server with links, and write their paths to a file for `redirect`.
    Load(LoadOptions),
}

/// How links are followed.
#[derive(Args, Clone, Debug)]
pub struct RedirectOptions {
    /// The server, as http://HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:8080", value_parser = Server::parse)]
    pub url: Server,
    /// A file with one path per line, the most popular first.
    #[arg(long, value_name = "FILE")]
    pub paths: Option<PathBuf>,
    /// A single path instead of a file.
    #[arg(long, conflicts_with = "paths")]
    pub path: Option<String>,
    /// Which of the paths the next visitor wants.
    #[arg(long, value_enum, default_value_t = Pick::Zipf)]
    pub pick: Pick,
    /// Visitors at once.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=MAX_CONNECTIONS))]
    pub connections: u64,
    /// Threads of this load generator.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: u64,
    /// How long to measure, in seconds.
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub seconds: Duration,
    /// How long to visit before measuring, in seconds.
    #[arg(long, default_value = "0", value_parser = seconds)]
    pub warm_up: Duration,
    /// A new connection for every visit.
    #[arg(long)]
    pub new_connections: bool,
    /// Visits per second, evenly spaced, whether or not the server keeps up. Latency then counts
    /// from the moment a visit was due, and waiting is done by spinning: give this process a core
    /// of its own.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rate: Option<u64>,
}

/// How links are created.
#[derive(Args, Clone, Debug)]
pub struct CreateOptions {
    /// The server, as http://HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:8080", value_parser = Server::parse)]
    pub url: Server,
    /// An API key without limits; links made without one expire.
    #[arg(skip)]
    pub key: Option<Secret>,
    /// Callers at once, each waiting for its answer.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=MAX_CONNECTIONS))]
    pub callers: u64,
    /// Threads of this load generator.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: u64,
    /// How long to measure, in seconds.
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub seconds: Duration,
}

/// How a server is filled.
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// The server, as http://HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:8080", value_parser = Server::parse)]
    pub url: Server,
    /// An API key without limits; needed, as links made without one expire.
    #[arg(skip)]
    pub key: Option<Secret>,
    /// How many links.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub links: u64,
    /// Bulk requests at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub callers: u64,
    /// Where the paths go, one per line, in the order of the targets.
    #[arg(long, value_name = "FILE")]
    pub paths: PathBuf,
}

/// Which of the paths a visitor wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Pick {
    /// Few are popular: the n-th is wanted 1/n as often as the first.
    Zipf,
    /// All are wanted alike.
    Uniform,
    /// Only the first.
    Single,
    /// Each once, in order: proves that all of them answer, and warms the server.
    Each,
    /// None of them: random codes, as a scanner would try. The right answer is 404.
    Unknown,
}

/// Does what is asked and reports it; nothing is printed.
pub fn run(options: Options) -> anyhow::Result<BenchReport> {
    match options.mode {
        Mode::Redirect(redirect) => redirect::run(redirect),
        Mode::Create(create) => create::run(create),
        Mode::Load(load) => load::run(&load),
    }
}

/// `2`, `0.5`: what people type for a duration on a command line that only knows seconds.
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
