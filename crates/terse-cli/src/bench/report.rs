//! The report of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::histogram::Histogram;
use super::tally::ConnectionCounts;

/// The results of a run of `terse bench`.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// `redirect`, `create` or `load`.
    pub mode: &'static str,
    /// The duration of the measurement.
    pub seconds: f64,
    /// Expected responses.
    pub requests: u64,
    /// Expected responses per second.
    pub per_second: f64,
    /// Links created per second, for bulk requests.
    pub links_per_second: Option<f64>,
    /// Latencies of expected responses.
    pub latency: Latency,
    /// Responses by status, including unexpected ones.
    pub statuses: BTreeMap<u16, u64>,
    /// Errors by kind.
    pub errors: ErrorCounts,
    /// The text of one error, from the server or the system.
    pub sample: Option<String>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Half took no longer.
    pub p50_us: f64,
    /// Nine of ten took no longer.
    pub p90_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// 999 of 1000 took no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Requests without the expected response.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct ErrorCounts {
    /// Responses with another status.
    pub status: u64,
    /// Redirects without a `Location`.
    pub location: u64,
    /// Connections refused, reset, closed too early, or not speaking HTTP as expected.
    pub connection: u64,
    /// Not answered when the run was over.
    pub timeout: u64,
}

impl ErrorCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.status + self.location + self.connection + self.timeout
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.status += other.status;
        self.location += other.location;
        self.connection += other.connection;
        self.timeout += other.timeout;
    }
}

impl Latency {
    fn of(histogram: &Histogram) -> Self {
        let micros = |latency: Duration| latency.as_secs_f64() * 1e6;
        Self {
            p50_us: micros(histogram.at(0.5)),
            p90_us: micros(histogram.at(0.9)),
            p99_us: micros(histogram.at(0.99)),
            p999_us: micros(histogram.at(0.999)),
            max_us: micros(histogram.max()),
        }
    }
}

impl BenchReport {
    pub(super) fn new(mode: &'static str, elapsed: Duration, tally: ConnectionCounts) -> Self {
        let (seconds, requests) = (elapsed.as_secs_f64(), tally.latencies.count());
        Self {
            mode,
            seconds,
            requests,
            per_second: per_second(requests, seconds),
            links_per_second: None,
            latency: Latency::of(&tally.latencies),
            statuses: tally.statuses.into_iter().collect(),
            errors: tally.errors,
            sample: tally.sample,
        }
    }

    pub(super) fn with_links(mut self, links: u64) -> Self {
        self.links_per_second = Some(per_second(links, self.seconds));
        self
    }

    /// Prints the report as a table or as JSON.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self).context("writing the report as JSON")?);
        } else {
            print!("{self}");
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "2⁵² requests take longer than a benchmark")]
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:<12} {:>12} in {:.2} s", self.mode, self.requests, self.seconds)?;
        writeln!(out, "{:<12} {:>12.0}", "per second", self.per_second)?;
        if let Some(links) = self.links_per_second {
            writeln!(out, "{:<12} {links:>12.0}", "links/s")?;
        }
        let Latency { p50_us, p90_us, p99_us, p999_us, max_us } = self.latency;
        for (name, micros) in
            [("p50", p50_us), ("p90", p90_us), ("p99", p99_us), ("p99.9", p999_us), ("max", max_us)]
        {
            writeln!(out, "{name:<12} {:>12.3} ms", micros / 1e3)?;
        }
        for (status, count) in &self.statuses {
            writeln!(out, "status {status:<5} {count:>12}")?;
        }
        let ErrorCounts { status, location, connection, timeout } = self.errors;
        let errors = [
            ("wrong status", status),
            ("no Location", location),
            ("no answer", connection),
            ("timed out", timeout),
        ];
        for (name, count) in errors.into_iter().filter(|&(_, count)| count > 0) {
            writeln!(out, "{name:<12} {count:>12}  (an error)")?;
        }
        match &self.sample {
            Some(sample) => writeln!(out, "for example: {sample}"),
            None => Ok(()),
        }
    }
}
