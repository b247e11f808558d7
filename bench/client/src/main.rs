//! Requests short links over HTTP/1.1 from one thread, each connection as fast as it is answered,
//! and prints what it saw as JSON. `bench/run` starts it.

mod answers;
mod picks;
mod ring;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

use crate::picks::Pick;

/// Requests short links as fast as they are answered
#[derive(Clone, Debug, Parser)]
pub(crate) struct Options {
    /// The server
    #[arg(long)]
    server: SocketAddr,
    /// A file with one path a line
    #[arg(long)]
    paths: PathBuf,
    /// Which paths: by Zipf's law, evenly, only the first one, or each in turn
    #[arg(long, value_enum, default_value = "zipf")]
    pick: Pick,
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// How long to measure
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// How long to request before measuring
    #[arg(long, default_value_t = 0.3)]
    warm_up: f64,
    /// Stop after this many answers, if that is earlier
    #[arg(long)]
    requests: Option<u64>,
    /// The status of a right answer
    #[arg(long, default_value_t = 302)]
    status: u16,
    /// Send the headers that a browser sends
    #[arg(long)]
    browser: bool,
    /// Open a connection for each request
    #[arg(long)]
    close: bool,
}

fn main() -> std::process::ExitCode {
    match ring::run(&Options::parse()) {
        Ok(report) => {
            println!("{report}");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("terse-bench-client: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
