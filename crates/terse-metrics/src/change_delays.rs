//! How long changes take to reach this node.

use std::sync::Arc;

use prometheus_client::metrics::histogram::Histogram;
use terse_core::{ChangeCallback, Clock, LinkChange};

use crate::exposition::Exposition;

/// From a change of a link to the moment when this node has applied it.
pub struct ChangeDelays(Histogram);

impl ChangeDelays {
    /// Registers the histogram.
    pub fn register(to: &mut Exposition) -> Self {
        let ends = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0];
        let delays = Histogram::new(ends);
        to.registry.register(
            "terse_change_delay_seconds",
            "From a change of a link to its reaching this node, by the clocks of both sides",
            delays.clone(),
        );
        Self(delays)
    }

    /// Measures each change that it is called with.
    pub fn observer(self, clock: &Clock) -> ChangeCallback {
        let clock = clock.clone();
        Arc::new(move |change: &LinkChange| {
            let late_ms = (clock.now().as_ms() - change.at.as_ms()).max(0);
            self.0.observe(late_ms as f64 / 1000.0);
        })
    }
}
