//! `/metrics`: the counters of all components, in the format of Prometheus.

mod format;
mod operating;
mod process;
mod shared;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use terse_core::Notices;
use terse_redirect::{BUCKETS_MICROS, Snapshot};
use terse_server::{ApiStats, CreateResult};
use terse_tls::Certificates;
use terse_worker::{CountsByJob, JobCounts, ReaperCounts, RescanCounts};

use crate::click_plane::Counted;
use crate::memory_plan::MemoryPlan;
use crate::outgoing::OutgoingCounts;
use crate::safety::{ListCounts, Service};

pub(crate) use format::Format;
pub(crate) use operating::{LAST_BACKUP, OldestReport, OperatingMetrics, ReportWatch};
pub(crate) use shared::{ChangeDelays, SharedCacheMetrics};

/// Reads all counters when `/metrics` is requested.
pub(crate) struct MetricsSources {
    /// The counters of the redirect plane.
    pub(crate) redirects: Box<dyn Fn() -> Snapshot + Send + Sync>,
    /// The number and bytes of cached routes.
    pub(crate) remembered: Box<dyn Fn() -> (usize, usize) + Send + Sync>,
    /// The counters of the web plane.
    pub(crate) api: Arc<ApiStats>,
    /// What an operator must know.
    pub(crate) notices: Arc<Notices>,
    /// The counters of the reaper.
    pub(crate) reaper: Arc<ReaperCounts>,
    /// The counters of blocklists.
    pub(crate) lists: Arc<ListCounts>,
    /// The counters of the re-scan.
    pub(crate) rescan: Arc<RescanCounts>,
    /// Cached links that were dropped because the screen changed.
    pub(crate) recalled: Arc<AtomicU64>,
    /// Safe Browsing, if a key is configured.
    pub(crate) safe_browsing: Option<Arc<Service>>,
    /// The counters of the integrations.
    pub(crate) outgoing: Arc<OutgoingCounts>,
    /// The counters of the click plane.
    pub(crate) clicks: Box<dyn Fn() -> Counted + Send + Sync>,
    /// Writes waiting for the store.
    pub(crate) queue: Box<dyn Fn() -> usize + Send + Sync>,
    /// Runs of the background jobs.
    pub(crate) jobs: CountsByJob,
    /// When the process started, in seconds since 1970.
    pub(crate) started_seconds: f64,
    /// How memory is divided.
    pub(crate) memory: MemoryPlan,
    /// The certificates; `None` without a listener for TLS.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Open HTTP/2 connections.
    pub(crate) http2: Box<dyn Fn() -> usize + Send + Sync>,
    /// Reports, backups and the disk.
    pub(crate) operating: OperatingMetrics,
}

impl fmt::Debug for MetricsSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsSources")
    }
}

impl Collector for MetricsSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let seen = (self.redirects)();
        let outcomes = [
            ("redirected", seen.redirected),
            ("not_found", seen.not_found),
            ("gone", seen.gone),
            ("blocked", seen.blocked),
            ("warned", seen.warned),
            ("asked", seen.password_asked),
            ("limited", seen.limited),
            ("unavailable", seen.unavailable),
            ("prefetch_refused", seen.prefetches_refused),
        ];
        process::encode(&mut encoder, self.started_seconds)?;
        self.operating.encode(&mut encoder)?;
        family(
            &mut encoder,
            "terse_redirects",
            "Visits, by how they were answered",
            "outcome",
            &outcomes,
        )?;
        latency(&mut encoder, &seen)?;
        let help = "Visitors who went on from a warning page, and were redirected";
        counter(&mut encoder, "terse_warnings_passed", help, seen.went_on)?;
        let help = "Answers that took longer than 50 ms";
        counter(&mut encoder, "terse_redirects_slow", help, seen.slow)?;
        let cache = [
            ("hit", seen.hits),
            ("miss", seen.misses),
            ("never_issued", seen.never_issued),
            ("stale", seen.stale),
        ];
        family(&mut encoder, "terse_cache", "Cache lookups, by result", "result", &cache)?;
        counter(
            &mut encoder,
            "terse_cache_refreshes",
            "Cached links that terse read again before they became stale",
            seen.refreshes,
        )?;
        let (routes, bytes) = (self.remembered)();
        gauge(&mut encoder, "terse_cache_routes", "Links in the cache", routes)?;
        gauge(&mut encoder, "terse_cache_bytes", "Memory that the cached links take", bytes)?;
        let in_use = [("links", bytes as u64), ("http2", MemoryPlan::of_http2((self.http2)()))];
        memory(&mut encoder, &self.memory, &in_use)?;
        counter(&mut encoder, "terse_connections", "Connections accepted", seen.connections)?;
        let open =
            usize::try_from(seen.connections.saturating_sub(seen.closed)).unwrap_or(usize::MAX);
        gauge(&mut encoder, "terse_connections_open", "Connections open now", open)?;
        let ends = [
            ("refused", seen.refused),
            ("refused_per_source", seen.refused_per_source),
            ("made_room", seen.made_room),
            ("timed_out", seen.timed_out),
            ("handed_over", seen.handed_over),
            ("bad_proxy_header", seen.bad_proxy_headers),
        ];
        family(
            &mut encoder,
            "terse_connections_special",
            "Connections that were refused, closed for new ones, timed out or handed over",
            "what",
            &ends,
        )?;
        if let Some(certificates) = &self.certificates {
            tls(&mut encoder, &seen, certificates)?;
        }

        clicks(&mut encoder, &seen, &(self.clicks)())?;
        safety(&mut encoder, &self.lists, &self.rescan, &self.recalled)?;
        if let Some(service) = &self.safe_browsing {
            safe_browsing(&mut encoder, service)?;
        }
        outgoing(&mut encoder, &self.outgoing)?;
        let runs = |counts: &JobCounts| counts.runs.load(Ordering::Relaxed);
        let failures = |counts: &JobCounts| counts.failures.load(Ordering::Relaxed);
        let by_job = |of: &dyn Fn(&JobCounts) -> u64| -> Vec<_> {
            self.jobs.iter().map(|(job, counts)| (*job, of(counts))).collect()
        };
        let help = "Runs of background jobs that ended";
        family(&mut encoder, "terse_job_runs", help, "job", &by_job(&runs))?;
        let help = "Runs of background jobs that failed, panicked or took too long";
        family(&mut encoder, "terse_job_failures", help, "job", &by_job(&failures))?;

        let creates =
            CreateResult::ALL.map(|outcome| (outcome.as_str(), self.api.creates(outcome)));
        family(&mut encoder, "terse_creates", "Create requests, by outcome", "outcome", &creates)?;
        let help = "Requests to the API and pages, by route and class of status";
        let mut requests =
            encoder.encode_descriptor("terse_requests", help, None, MetricType::Counter)?;
        for (route, class, count) in self.api.requests() {
            let class = format!("{class}xx");
            requests
                .encode_family(&[("route", &*route), ("status", &*class)])?
                .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        gauge(
            &mut encoder,
            "terse_notices",
            "Notices to the operator; /readyz shows them",
            self.notices.all().len(),
        )?;
        gauge(&mut encoder, "terse_store_queue", "Writes waiting for the store", (self.queue)())?;
        let reaped = [
            ("expired", self.reaper.expired.load(Ordering::Relaxed)),
            ("purged", self.reaper.purged.load(Ordering::Relaxed)),
        ];
        family(
            &mut encoder,
            "terse_reaped",
            "Links that the reaper marked as expired or purged",
            "what",
            &reaped,
        )
    }
}

/// TLS handshakes and certificates.
fn tls(
    encoder: &mut DescriptorEncoder<'_>,
    seen: &Snapshot,
    certificates: &Certificates,
) -> fmt::Result {
    let handshakes = [
        ("full", seen.handshakes_full),
        ("resumed", seen.handshakes_resumed),
        ("failed", seen.handshakes_failed),
        ("refused", seen.handshakes_refused),
    ];
    let help = "TLS handshakes, by result";
    family(encoder, "terse_tls_handshakes", help, "result", &handshakes)?;
    let help = "When the certificate for a host expires, in seconds since 1970";
    let mut expiries = encoder.encode_descriptor(
        "terse_certificate_expiry_timestamp_seconds",
        help,
        None,
        MetricType::Gauge,
    )?;
    for (name, ends) in certificates.expiries() {
        expiries.encode_family(&[("host", name)])?.encode_gauge(&ends)?;
    }
    Ok(())
}

/// The budget, the bound of each kind, and what is in use where it is counted.
fn memory(
    encoder: &mut DescriptorEncoder<'_>,
    plan: &MemoryPlan,
    in_use: &[(&str, u64)],
) -> fmt::Result {
    let budget = usize::try_from(plan.budget).unwrap_or(usize::MAX);
    gauge(encoder, "terse_memory_budget_bytes", "memory.budget", budget)?;
    let help = "The most memory of each kind";
    gauges(encoder, "terse_memory_limit_bytes", help, "kind", &plan.limits())?;
    let help = "Memory in use, of the kinds that are counted";
    gauges(encoder, "terse_memory_bytes", help, "kind", in_use)
}

fn clicks(encoder: &mut DescriptorEncoder<'_>, seen: &Snapshot, counted: &Counted) -> fmt::Result {
    let fates = [
        ("journaled", seen.clicks_journaled),
        ("lost", seen.clicks_lost),
        ("skipped", seen.orphans_skipped),
        ("counted", counted.counted),
        ("dropped", counted.dropped),
        ("unreadable", counted.unreadable),
    ];
    family(
        encoder,
        "terse_clicks",
        "Clicks on their way to the statistics, by what happened to them",
        "what",
        &fates,
    )?;
    counter(
        encoder,
        "terse_clicks_store_failures",
        "Batches of clicks that the click store refused; terse retries them",
        counted.failures,
    )?;
    gauge(
        encoder,
        "terse_clicks_dead",
        "1 if the thread that counts clicks has stopped unexpectedly",
        usize::from(counted.dead),
    )?;
    let waiting = usize::try_from(counted.waiting).unwrap_or(usize::MAX);
    gauge(
        encoder,
        "terse_journal_waiting_bytes",
        "Bytes of the journal whose clicks are not stored yet",
        waiting,
    )?;
    gauge(
        encoder,
        "terse_clicks_in_memory",
        "Clicks that the statistics include and the click store does not have yet",
        usize::try_from(counted.in_memory).unwrap_or(usize::MAX),
    )?;
    let pruned =
        [("raw", counted.aged), ("hours", counted.compacted), ("links", counted.forgotten)];
    family(
        encoder,
        "terse_clicks_tidied",
        "Old click data that terse removed or merged, by kind",
        "what",
        &pruned,
    )
}

fn safety(
    encoder: &mut DescriptorEncoder<'_>,
    lists: &ListCounts,
    rescan: &RescanCounts,
    recalled: &AtomicU64,
) -> fmt::Result {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let number = |count: &AtomicU64| usize::try_from(of(count)).unwrap_or(usize::MAX);
    gauge(
        encoder,
        "terse_blocklist_entries",
        "Hosts and URLs that are blocked",
        number(&lists.entries) + number(&lists.moderated),
    )?;
    gauge(
        encoder,
        "terse_warn_list_entries",
        "Hosts and URLs that are warned of",
        number(&lists.warn_entries),
    )?;
    gauge(
        encoder,
        "terse_blocklists_missing",
        "Blocklists and warn lists of which there is no version at all",
        number(&lists.missing),
    )?;
    let looks = [
        ("taken", of(&lists.taken)),
        ("unchanged", of(&lists.unchanged)),
        ("refused", of(&lists.refused)),
        ("failed", of(&lists.failed)),
    ];
    family(
        encoder,
        "terse_blocklist_looks",
        "Checks for new versions of blocklists, by outcome",
        "outcome",
        &looks,
    )?;
    counter(encoder, "terse_rescans", "Scans of all links", of(&rescan.rounds))?;
    let judged = [
        ("judged", of(&rescan.scanned)),
        ("blocked", of(&rescan.blocked)),
        ("warned", of(&rescan.warned)),
        ("cleared", of(&rescan.cleared)),
        ("failed", of(&rescan.failed)),
    ];
    family(encoder, "terse_rescanned", "Links scanned again, by result", "what", &judged)?;
    counter(
        encoder,
        "terse_recalled",
        "Cached links that terse read again because blocklists changed",
        of(recalled),
    )
}

fn safe_browsing(encoder: &mut DescriptorEncoder<'_>, service: &Service) -> fmt::Result {
    let (of, known, counts) =
        (|count: &AtomicU64| count.load(Ordering::Relaxed), service.known(), &service.counts);
    gauge(
        encoder,
        "terse_safe_browsing_entries",
        "Beginnings of hashes on the lists",
        known.len(),
    )?;
    let age = known.age().map_or(-1, |age| i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    let help = "Since when the lists were last the server's; -1 without lists";
    encoder
        .encode_descriptor("terse_safe_browsing_age_seconds", help, None, MetricType::Gauge)?
        .encode_gauge(&age)?;
    gauge(
        encoder,
        "terse_safe_browsing_answers",
        "Answers that are remembered",
        known.cached_responses(),
    )?;
    let updates = [
        ("changed", of(&counts.changed)),
        ("unchanged", of(&counts.unchanged)),
        ("reset", of(&counts.reset)),
        ("failed", of(&counts.failed)),
    ];
    family(
        encoder,
        "terse_safe_browsing_updates",
        "Updates of the Safe Browsing lists, by outcome",
        "outcome",
        &updates,
    )?;
    let questions = [
        ("answered", of(&counts.answered)),
        ("failed", of(&counts.unanswered)),
        ("not_asked", of(&counts.unasked)),
    ];
    family(
        encoder,
        "terse_safe_browsing_questions",
        "Requests for full hashes to Safe Browsing, by outcome",
        "outcome",
        &questions,
    )?;
    let revisits = [
        ("judged", of(&counts.revisited)),
        ("given_up", of(&counts.given_up)),
        ("dropped", of(&counts.dropped)),
    ];
    family(
        encoder,
        "terse_safe_browsing_revisits",
        "Links screened again after an answer of Safe Browsing, by outcome",
        "outcome",
        &revisits,
    )
}

fn outgoing(encoder: &mut DescriptorEncoder<'_>, counts: &OutgoingCounts) -> fmt::Result {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let events = [
        ("enqueued", of(&counts.enqueued)),
        ("lost", of(&counts.lost)),
        ("delivered", of(&counts.delivered)),
        ("again", of(&counts.again)),
        ("given_up", of(&counts.given_up)),
    ];
    family(
        encoder,
        "terse_webhook_events",
        "Webhook events, by what happened to them",
        "what",
        &events,
    )?;
    counter(
        encoder,
        "terse_webhooks_disabled",
        "Webhooks that terse disabled because their receiver kept failing",
        of(&counts.disabled),
    )?;
    let titles = [
        ("found", of(&counts.titles)),
        ("none", of(&counts.untitled)),
        ("skipped", of(&counts.skipped)),
    ];
    family(encoder, "terse_titles", "Pages whose title terse fetched, by result", "what", &titles)?;
    let checks = [("answered", of(&counts.reached)), ("silent", of(&counts.unreached))];
    family(
        encoder,
        "terse_target_checks",
        "Reachability checks of targets, by result",
        "what",
        &checks,
    )
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    encoder
        .encode_descriptor(name, help, None, MetricType::Counter)?
        .encode_counter::<NoLabelSet, _, f64>(&value, None)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: usize) -> fmt::Result {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: &[(&str, u64)],
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in values {
        metric
            .encode_family(&[(label, *value)])?
            .encode_counter::<NoLabelSet, _, f64>(count, None)?;
    }
    Ok(())
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: &[(&str, u64)],
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (value, amount) in values {
        let amount = i64::try_from(*amount).unwrap_or(i64::MAX);
        metric.encode_family(&[(label, *value)])?.encode_gauge(&amount)?;
    }
    Ok(())
}

fn latency(encoder: &mut DescriptorEncoder<'_>, seen: &Snapshot) -> fmt::Result {
    let ends = BUCKETS_MICROS.iter().map(|&end| end as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = ends.zip(seen.latency).collect();
    let count = seen.latency.iter().sum();
    let help = "From a visit's arrival to its answer";
    let mut metric =
        encoder.encode_descriptor("terse_redirect_seconds", help, None, MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(seen.latency_nanos as f64 / 1e9, count, &buckets, None)
}
