//! The metrics of the redirect plane.

use terse_core::metrics::{MetricValues, Metrics};

use crate::counts::{BUCKETS_MICROS, RedirectCounts};
use crate::redirector::Redirector;

impl RedirectCounts {
    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let outcomes = [
            ("redirected", self.redirected),
            ("previewed", self.previewed),
            ("not_found", self.not_found),
            ("gone", self.gone),
            ("blocked", self.blocked),
            ("warned", self.warned),
            ("asked", self.password_asked),
            ("limited", self.limited),
            ("unavailable", self.unavailable),
            ("prefetch_refused", self.prefetches_refused),
        ];
        let help = "Visits, by how they were answered";
        to.counters("terse_redirects", help, "outcome", outcomes);
        let ends = BUCKETS_MICROS.iter().map(|&end| end as f64 / 1e6).chain([f64::INFINITY]);
        let (sum, buckets) = (self.latency_nanos as f64 / 1e9, ends.zip(self.latency).collect());
        let help = "From a visit's arrival to its answer";
        to.add("terse_redirect_seconds", help, MetricValues::Histogram { sum, buckets });
        let help = "Visitors who went on from a warning page, and were redirected";
        to.count("terse_warnings_passed", help, self.went_on);
        let help = "Answers that took longer than 50 ms";
        to.count("terse_redirects_slow", help, self.slow);
        let lookups = [
            ("hit", self.hits),
            ("miss", self.misses),
            ("never_issued", self.never_issued),
            ("unissued_refused", self.unissued_refused),
            ("stale", self.stale),
        ];
        to.counters("terse_cache", "Cache lookups, by result", "result", lookups);
        let help = "Cached links that terse read again before they became stale";
        to.count("terse_cache_refreshes", help, self.refreshes);
        to.count("terse_connections", "Connections accepted", self.connections);
        let open = self.connections.saturating_sub(self.closed) as f64;
        to.gauge("terse_connections_open", "Connections open now", open);
        let special = [
            ("refused", self.refused),
            ("refused_per_source", self.refused_per_source),
            ("made_room", self.made_room),
            ("timed_out", self.timed_out),
            ("handed_over", self.handed_over),
            ("bad_proxy_header", self.bad_proxy_headers),
        ];
        let help = "Connections that were refused, closed for new ones, timed out or handed over";
        to.counters("terse_connections_special", help, "what", special);
        let clicks = [
            ("journaled", self.clicks_journaled),
            ("lost", self.clicks_lost),
            ("skipped", self.orphans_skipped),
        ];
        let help = "Clicks on their way to the statistics, by what happened to them";
        to.counters("terse_clicks", help, "what", clicks);
        let help = "Seconds for which serving threads paused, because counting was behind";
        to.count("terse_clicks_paused_seconds", help, self.paused_micros / 1_000_000);
    }

    /// Writes the counters of a listener for TLS.
    pub fn write_tls_metrics(&self, to: &mut Metrics) {
        let handshakes = [
            ("full", self.handshakes_full),
            ("resumed", self.handshakes_resumed),
            ("failed", self.handshakes_failed),
            ("refused", self.handshakes_refused),
        ];
        to.counters("terse_tls_handshakes", "TLS handshakes, by result", "result", handshakes);
    }
}

impl Redirector {
    /// Writes how many links are cached.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let routes = self.routes();
        to.gauge("terse_cache_routes", "Links in the cache", routes.len() as f64);
        let help = "Memory that the cached links take";
        to.gauge("terse_cache_bytes", help, routes.bytes() as f64);
    }
}
