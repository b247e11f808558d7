//! What the bus and the workers have done, for metrics.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use terse_core::metrics::Metrics;

/// Counts of a node that publishes.
#[derive(Debug, Default)]
pub struct BusCounts {
    /// Messages that the brokers have acknowledged.
    pub published: AtomicU64,
    /// Their bytes, before they are compressed.
    pub octets: AtomicU64,
    /// Messages that the brokers did not acknowledge in time; terse repeats them.
    pub failures: AtomicU64,
}

impl BusCounts {
    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let help = "Messages with clicks that Kafka has acknowledged to this node";
        to.counter("terse_bus_published", help, &self.published);
        let help = "Octets of these messages, before they are compressed";
        to.counter("terse_bus_published_bytes", help, &self.octets);
        let help = "Messages that Kafka did not acknowledge in time; terse repeats them";
        to.counter("terse_bus_publish_failures", help, &self.failures);
    }
}

/// Counts of a worker.
#[derive(Debug, Default)]
pub struct WorkerCounts {
    /// Clicks that the store has counted for this worker.
    pub clicks: AtomicU64,
    /// Messages that were counted.
    pub counted: AtomicU64,
    /// Messages that the store had counted before.
    pub repeated: AtomicU64,
    /// Messages that were set aside.
    pub set_aside: AtomicU64,
    /// Times that messages were missing for too long, and the worker went on without them.
    pub gaps: AtomicU64,
    /// Messages that wait for others now.
    pub waiting: AtomicU64,
    /// Messages of this worker's partitions that are not committed yet.
    pub lag_messages: AtomicU64,
    /// How old the message is that was counted last, while there are more; 0 otherwise.
    pub lag_ms: AtomicI64,
    /// How many partitions this worker has.
    pub partitions: AtomicU64,
    /// Calls of the store that failed or took too long.
    pub store_failures: AtomicU64,
}

impl WorkerCounts {
    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let fates = [
            ("counted", of(&self.counted)),
            ("repeated", of(&self.repeated)),
            ("set_aside", of(&self.set_aside)),
        ];
        let help = "Messages that this worker has consumed, by what happened to them";
        to.counters("terse_bus_consumed", help, "what", fates);
        let help = "Clicks that this worker has counted";
        to.counter("terse_bus_clicks", help, &self.clicks);
        let help = "Times that messages were missing for too long";
        to.counter("terse_bus_gaps", help, &self.gaps);
        let help = "Calls of the click store that failed for this worker; it repeats them";
        to.counter("terse_bus_store_failures", help, &self.store_failures);
        let help = "Messages that wait for others that come before them";
        to.gauge("terse_bus_waiting", help, of(&self.waiting) as f64);
        let help = "Partitions that this worker consumes";
        to.gauge("terse_bus_partitions", help, of(&self.partitions) as f64);
        let help = "Messages in this worker's partitions that are not counted yet";
        to.gauge("terse_bus_lag_messages", help, of(&self.lag_messages) as f64);
        let help = "How old the last counted message is while others wait behind it";
        let lag = self.lag_ms.load(Ordering::Relaxed) as f64 / 1000.0;
        to.gauge("terse_bus_lag_seconds", help, lag);
    }
}
