//! All metrics of a process, rendered by the library for Prometheus.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use terse_core::metrics::{MetricFamily, MetricValues, Metrics, MetricsSource};

use crate::process;

/// The metrics of the components, and those that are measured here.
#[derive(Debug, Default)]
pub struct Exposition {
    pub(crate) registry: Registry,
}

impl Exposition {
    /// Adds components, and the process, which started at this time (seconds since 1970).
    pub fn add(&mut self, sources: Vec<MetricsSource>, started_seconds: f64) {
        self.registry.register_collector(Box::new(Components { sources, started_seconds }));
    }
}

/// Reads all components for each request of `/metrics`.
struct Components {
    sources: Vec<MetricsSource>,
    started_seconds: f64,
}

impl fmt::Debug for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Components")
    }
}

impl Collector for Components {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        process::encode(&mut encoder, self.started_seconds)?;
        let mut metrics = Metrics::default();
        for source in &self.sources {
            source(&mut metrics);
        }
        metrics.families().iter().try_for_each(|family| encode(&mut encoder, family))
    }
}

fn encode(encoder: &mut DescriptorEncoder<'_>, family: &MetricFamily) -> fmt::Result {
    let MetricFamily { name, help, values } = family;
    let kind = match values {
        MetricValues::Counters(_) => MetricType::Counter,
        MetricValues::Gauges(_) => MetricType::Gauge,
        MetricValues::Histogram { .. } => MetricType::Histogram,
    };
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    match values {
        MetricValues::Counters(values) => {
            for (labels, value) in values {
                let labels: Vec<_> = labels.iter().map(|(name, is)| (*name, is.as_str())).collect();
                match labels.as_slice() {
                    [] => metric.encode_counter::<NoLabelSet, _, f64>(value, None)?,
                    labels => metric
                        .encode_family(&labels)?
                        .encode_counter::<NoLabelSet, _, f64>(value, None)?,
                }
            }
        }
        MetricValues::Gauges(values) => {
            for (labels, value) in values {
                let labels: Vec<_> = labels.iter().map(|(name, is)| (*name, is.as_str())).collect();
                match labels.as_slice() {
                    [] => encode_gauge(&mut metric, *value)?,
                    labels => encode_gauge(&mut metric.encode_family(&labels)?, *value)?,
                }
            }
        }
        MetricValues::Histogram { sum, buckets } => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)?;
        }
    }
    Ok(())
}

/// Numbers without a fraction are written without a point.
fn encode_gauge(
    metric: &mut prometheus_client::encoding::MetricEncoder<'_>,
    value: f64,
) -> fmt::Result {
    /// Up to here every whole number is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        metric.encode_gauge(&(value as i64))
    } else {
        metric.encode_gauge(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_components_are_rendered_with_labels_and_kinds() {
        let mut exposition = Exposition::default();
        exposition.add(
            vec![
                Box::new(|to| to.counters("a_visits", "Visits", "what", [("seen", 2)])),
                Box::new(|to| {
                    to.counters("a_visits", "Visits", "what", [("lost", 1)]);
                    to.gauge("a_queue", "Waiting", 3.0);
                    to.gauge("a_share", "Share", 0.5);
                    let buckets = vec![(0.1, 2), (f64::INFINITY, 1)];
                    to.add("a_seconds", "Time", MetricValues::Histogram { sum: 1.5, buckets });
                }),
            ],
            7.0,
        );
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &exposition.registry).unwrap();
        for line in [
            "# TYPE a_visits counter",
            "a_visits_total{what=\"seen\"} 2",
            "a_visits_total{what=\"lost\"} 1",
            "a_queue 3",
            "a_share 0.5",
            "a_seconds_bucket{le=\"0.1\"} 2",
            "a_seconds_bucket{le=\"+Inf\"} 3",
            "a_seconds_count 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert_eq!(text.matches("# TYPE a_visits ").count(), 1, "{text}");
    }
}
