//! The metrics of lists and Safe Browsing.

use std::sync::atomic::{AtomicU64, Ordering};

use terse_core::metrics::Metrics;

use crate::safe_browsing::SafeBrowsingService;
use crate::service::{ListCounts, Safety};

fn of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Safety {
    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        self.counts.write_metrics(to);
        if let Some(service) = &self.service {
            service.write_metrics(to);
        }
    }
}

impl ListCounts {
    fn write_metrics(&self, to: &mut Metrics) {
        let blocked = of(&self.entries) + of(&self.moderated);
        let help = "Hosts and URLs that are blocked";
        to.gauge("terse_blocklist_entries", help, blocked as f64);
        let help = "Hosts and URLs that are warned of";
        to.gauge("terse_warn_list_entries", help, of(&self.warn_entries) as f64);
        let help = "Blocklists and warn lists of which there is no version at all";
        to.gauge("terse_blocklists_missing", help, of(&self.missing) as f64);
        let looks = [
            ("taken", of(&self.taken)),
            ("unchanged", of(&self.unchanged)),
            ("refused", of(&self.refused)),
            ("failed", of(&self.failed)),
        ];
        let help = "Checks for new versions of blocklists, by outcome";
        to.counters("terse_blocklist_looks", help, "outcome", looks);
    }
}

impl SafeBrowsingService {
    fn write_metrics(&self, to: &mut Metrics) {
        let (known, counts) = (self.known(), &self.counts);
        let help = "Hash prefixes on the lists";
        to.gauge("terse_safe_browsing_entries", help, known.len() as f64);
        let help = "Time since the lists last matched the server's; -1 without lists";
        let age = known.age().map_or(-1.0, |age| age.as_secs() as f64);
        to.gauge("terse_safe_browsing_age_seconds", help, age);
        let help = "Cached answers of Safe Browsing";
        to.gauge("terse_safe_browsing_answers", help, known.cached_responses() as f64);
        let updates = [
            ("changed", of(&counts.changed)),
            ("unchanged", of(&counts.unchanged)),
            ("reset", of(&counts.reset)),
            ("failed", of(&counts.failed)),
        ];
        let help = "Updates of the Safe Browsing lists, by outcome";
        to.counters("terse_safe_browsing_updates", help, "outcome", updates);
        let questions = [
            ("answered", of(&counts.answered)),
            ("failed", of(&counts.unanswered)),
            ("not_asked", of(&counts.unasked)),
        ];
        let help = "Requests for full hashes to Safe Browsing, by outcome";
        to.counters("terse_safe_browsing_questions", help, "outcome", questions);
        let revisits = [
            ("scanned", of(&counts.revisited)),
            ("given_up", of(&counts.given_up)),
            ("dropped", of(&counts.dropped)),
        ];
        let help = "Links scanned again after an answer of Safe Browsing, by outcome";
        to.counters("terse_safe_browsing_revisits", help, "outcome", revisits);
    }
}
