//! How nodes work together: how long changes take, and what shared copies are good for.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use terse_core::{Change, Clock, OnChange};

use super::{counter, family, gauge};
use crate::backends::SharedCounts;

/// From a change of a link to the moment when this node has applied it.
pub(crate) struct ChangeDelays(Histogram);

impl ChangeDelays {
    /// Registers the histogram.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let ends = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0];
        let delays = Histogram::new(ends);
        registry.register(
            "terse_change_delay_seconds",
            "From a change of a link to its reaching this node, by the clocks of both sides",
            delays.clone(),
        );
        Self(delays)
    }

    /// Measures each change that it is called with.
    pub(crate) fn observer(self, clock: &Clock) -> OnChange {
        let clock = clock.clone();
        Arc::new(move |change: &Change| {
            let late_ms = (clock.now().as_ms() - change.at.as_ms()).max(0);
            self.0.observe(late_ms as f64 / 1000.0);
        })
    }
}

/// The copies of links that nodes share.
pub(crate) struct SharedCacheMetrics(pub(crate) Box<dyn Fn() -> SharedCounts + Send + Sync>);

impl fmt::Debug for SharedCacheMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedCacheMetrics")
    }
}

impl Collector for SharedCacheMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = (self.0)();
        let lookups = [
            ("hit", counts.hits),
            ("miss", counts.misses),
            ("bypassed", counts.bypassed),
            ("stale", counts.stale),
        ];
        family(
            &mut encoder,
            "terse_shared_cache_lookups",
            "Look-ups of links that were not in memory, by what Redis answered",
            "what",
            &lookups,
        )?;
        counter(
            &mut encoder,
            "terse_shared_cache_trips",
            "How often Redis did not answer and was no longer asked",
            counts.trips,
        )?;
        let help = "Whether copies of links in Redis are in use";
        gauge(&mut encoder, "terse_shared_cache_ready", help, usize::from(counts.is_ready))
    }
}
