//! The metrics of the jobs.

use std::sync::atomic::{AtomicU64, Ordering};

use terse_core::metrics::Metrics;

use crate::cdn::CdnCounts;
use crate::outgoing_counts::OutgoingCounts;
use crate::reaper::ReaperCounts;
use crate::rescan::RescanCounts;
use crate::retention::ClickRetentionCounts;
use crate::scheduler::{CountsByJob, JobCounts};

fn of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl ReaperCounts {
    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let reaped = [("expired", of(&self.expired)), ("purged", of(&self.purged))];
        let help = "Links that the reaper marked as expired or purged";
        to.counters("terse_reaped", help, "what", reaped);
    }
}

impl RescanCounts {
    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        to.counter("terse_rescans", "Scans of all links", &self.rounds);
        let scanned = [
            ("scanned", of(&self.scanned)),
            ("blocked", of(&self.blocked)),
            ("warned", of(&self.warned)),
            ("cleared", of(&self.cleared)),
            ("failed", of(&self.failed)),
        ];
        to.counters("terse_rescanned", "Links scanned again, by result", "what", scanned);
    }
}

impl CdnCounts {
    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let purges = [
            ("links", of(&self.links)),
            ("wide", of(&self.wide)),
            ("failed", of(&self.failed)),
            ("given_up", of(&self.given_up)),
        ];
        to.counters("terse_cdn_purges", "Purges of the CDN, by kind", "what", purges);
    }
}

impl ClickRetentionCounts {
    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let removed =
            [("raw", of(&self.raw)), ("hours", of(&self.hours)), ("links", of(&self.forgotten))];
        let help = "Old click data that terse removed or merged, by kind";
        to.counters("terse_clicks_tidied", help, "what", removed);
    }
}

impl OutgoingCounts {
    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let events = [
            ("enqueued", of(&self.enqueued)),
            ("lost", of(&self.lost)),
            ("delivered", of(&self.delivered)),
            ("again", of(&self.again)),
            ("given_up", of(&self.given_up)),
        ];
        let help = "Webhook events, by what happened to them";
        to.counters("terse_webhook_events", help, "what", events);
        let help = "Webhooks that terse disabled because their receiver kept failing";
        to.counter("terse_webhooks_disabled", help, &self.disabled);
        let titles = [
            ("found", of(&self.titles)),
            ("none", of(&self.untitled)),
            ("skipped", of(&self.skipped)),
        ];
        let help = "Pages whose title terse fetched, by result";
        to.counters("terse_titles", help, "what", titles);
        let checks = [("answered", of(&self.reached)), ("silent", of(&self.unreached))];
        let help = "Reachability checks of targets, by result";
        to.counters("terse_target_checks", help, "what", checks);
    }
}

/// Writes the runs of all jobs.
pub fn write_job_metrics(jobs: &CountsByJob, to: &mut Metrics) {
    let by_job = |of: fn(&JobCounts) -> &AtomicU64| {
        jobs.iter().map(move |(job, counts)| (*job, of(counts).load(Ordering::Relaxed)))
    };
    let help = "Runs of background jobs that ended";
    to.counters("terse_job_runs", help, "job", by_job(|counts| &counts.runs));
    let help = "Runs of background jobs that failed, panicked or took too long";
    to.counters("terse_job_failures", help, "job", by_job(|counts| &counts.failures));
}
