//! Counts of one connection, summed at the end.

use std::io;
use std::time::Duration;

use super::histogram::Histogram;
use super::report::ErrorCounts;

/// Counts of one connection, or of all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionCounts {
    pub(super) latencies: Histogram,
    /// Only a few, so a list is faster than a map.
    pub(super) statuses: Vec<(u16, u64)>,
    pub(super) errors: ErrorCounts,
    /// The body of one unexpected response, to show in the report.
    pub(super) sample: Option<String>,
}

impl ConnectionCounts {
    /// Counts an expected response.
    pub(super) fn good(&mut self, status: u16, latency: Duration) {
        self.status(status, 1);
        self.latencies.add(latency);
    }

    /// Counts a response with an unexpected status.
    pub(super) fn wrong_status(&mut self, status: u16, body: &[u8]) {
        self.status(status, 1);
        self.errors.status += 1;
        self.keep_sample(body);
    }

    /// Counts a redirect without a `Location`.
    pub(super) fn no_location(&mut self, status: u16) {
        self.status(status, 1);
        self.errors.location += 1;
    }

    /// Counts a request without a response.
    pub(super) fn failed(&mut self, error: &io::Error) {
        self.errors.connection += 1;
        if self.sample.is_none() {
            self.sample = Some(error.to_string());
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.latencies.merge(&other.latencies);
        for (status, count) in other.statuses {
            self.status(status, count);
        }
        self.errors.add(&other.errors);
        self.sample = self.sample.take().or(other.sample);
    }

    fn status(&mut self, status: u16, by: u64) {
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, count)) => *count += by,
            None => self.statuses.push((status, by)),
        }
    }

    fn keep_sample(&mut self, body: &[u8]) {
        if self.sample.is_none() && !body.is_empty() {
            self.sample = Some(String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned());
        }
    }
}
