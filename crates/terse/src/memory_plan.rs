//! How `memory.budget` is divided.

use terse_core::metrics::Metrics;

use crate::config::{ByteSize, Config};

/// What a client may send on an HTTP/2 connection before terse reads it, and what terse keeps of
/// its answers.
const HTTP2_CONNECTION: u64 = 64 << 10;
/// A batch has at most 100,000 clicks; more memory would not make it larger.
const MAX_CLICK_BATCHES: u64 = 48 << 20;

/// The most memory of each kind, in bytes. What is left of the budget is for everything else:
/// tables of limits, connections, journal segments, and the program itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MemoryPlan {
    pub(crate) budget: u64,
    /// Cached links.
    pub(crate) links: u64,
    /// The caches of the link store, the click store and the registry.
    pub(crate) link_store: u64,
    pub(crate) click_store: u64,
    pub(crate) registry: u64,
    /// The windows of HTTP/2 connections.
    pub(crate) http2: u64,
    /// Clicks that are read from the journal and not stored yet: a batch that is being stored, and
    /// one that grows.
    pub(crate) click_batches: u64,
}

impl MemoryPlan {
    /// The plan for these settings. A cache whose size is set keeps it.
    pub(crate) fn of(config: &Config) -> Self {
        let budget = config.memory.budget.bytes();
        Self {
            budget,
            links: config.cache.size.map_or(budget / 8, ByteSize::bytes),
            // The kernel caches the files as well, and a few MiB hold the inner pages of millions
            // of links.
            link_store: budget / 8,
            click_store: budget / 8,
            registry: budget / 16,
            http2: budget / 8,
            click_batches: (budget / 32 * 3).min(MAX_CLICK_BATCHES),
        }
    }

    /// The size of a journal segment: small enough that dropping one loses little, large enough
    /// that a busy server creates only a few a second. Each costs the file system some entries in
    /// its own journal, which can wait for the disk. Each busy thread has about nine in memory.
    pub(crate) fn journal_segment(&self) -> usize {
        usize::try_from(self.budget / 256).unwrap_or(usize::MAX).clamp(512 << 10, 2 << 20)
    }

    /// What one batch of clicks may take.
    pub(crate) fn click_batch(&self) -> usize {
        usize::try_from(self.click_batches / 2).unwrap_or(usize::MAX)
    }

    /// How many HTTP/2 connections fit.
    pub(crate) fn http2_connections(&self) -> usize {
        usize::try_from(self.http2 / HTTP2_CONNECTION).unwrap_or(usize::MAX)
    }

    /// What this many HTTP/2 connections take at most.
    pub(crate) fn of_http2(connections: usize) -> u64 {
        connections as u64 * HTTP2_CONNECTION
    }

    /// Writes the budget, the bound of each kind, and what is in use where it is counted.
    pub(crate) fn write_metrics(&self, in_use: &[(&str, u64)], to: &mut Metrics) {
        to.gauge("terse_memory_budget_bytes", "memory.budget", self.budget as f64);
        let help = "The most memory of each kind";
        to.gauges(
            "terse_memory_limit_bytes",
            help,
            "kind",
            self.limits().map(|(kind, bytes)| (kind, bytes as f64)),
        );
        let help = "Memory in use, of the kinds that are counted";
        let in_use = in_use.iter().map(|(kind, bytes)| (*kind, *bytes as f64));
        to.gauges("terse_memory_bytes", help, "kind", in_use);
    }

    /// Every kind with a bound, by its name in metrics.
    pub(crate) fn limits(&self) -> [(&'static str, u64); 6] {
        [
            ("links", self.links),
            ("link_store", self.link_store),
            ("click_store", self.click_store),
            ("registry", self.registry),
            ("http2", self.http2),
            ("click_batches", self.click_batches),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_together_stay_within_the_budget() {
        for budget in ["64MiB", "100MB", "512MiB", "16GiB"] {
            let mut config = Config::default();
            config.memory.budget = budget.parse().unwrap();
            let plan = MemoryPlan::of(&config);
            let sum: u64 = plan.limits().iter().map(|(_, bytes)| bytes).sum();
            assert!(sum <= plan.budget * 21 / 32, "{budget}: {plan:?}");
            let windows = MemoryPlan::of_http2(plan.http2_connections());
            assert!(windows <= plan.http2 && plan.http2_connections() >= 128, "{budget}");
        }
    }

    #[test]
    fn a_small_budget_has_small_journal_segments() {
        let of = |budget: &str| {
            let mut config = Config::default();
            config.memory.budget = budget.parse().unwrap();
            MemoryPlan::of(&config).journal_segment()
        };
        assert_eq!(["64MiB", "256MiB", "512MiB", "16GiB"].map(of), [1, 2, 4, 4].map(|n| n << 19));
    }

    #[test]
    fn a_size_that_is_set_does_not_follow_the_budget() {
        let mut config = Config::default();
        assert_eq!(MemoryPlan::of(&config).links, 64 << 20);
        config.cache.size = Some(ByteSize::mib(3));
        assert_eq!(MemoryPlan::of(&config).links, 3 << 20);
    }
}
