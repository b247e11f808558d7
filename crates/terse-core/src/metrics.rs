//! Metrics. For each request of `/metrics`, every component writes its own, in the module that has
//! its counters.

use std::sync::atomic::{AtomicU64, Ordering};

/// Writes the metrics of a component.
pub type MetricsSource = Box<dyn Fn(&mut Metrics) + Send + Sync>;

/// The metrics at one time, by name.
#[derive(Debug, Default)]
pub struct Metrics(Vec<MetricFamily>);

/// A metric with all its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Its name, without the suffix of its kind.
    pub name: &'static str,
    /// What it means, for readers of `/metrics`.
    pub help: &'static str,
    /// Its values.
    pub values: MetricValues,
}

/// Names and values of labels.
pub type MetricLabels = Vec<(&'static str, String)>;

/// The values of a metric, by its labels.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValues {
    /// They only rise.
    Counters(Vec<(MetricLabels, u64)>),
    /// They rise and fall.
    Gauges(Vec<(MetricLabels, f64)>),
    /// How many observations were up to each end, not cumulative, and their sum.
    Histogram {
        /// The sum of all observations.
        sum: f64,
        /// The upper end of each bucket, and its observations.
        buckets: Vec<(f64, u64)>,
    },
}

impl Metrics {
    /// A counter without labels.
    pub fn counter(&mut self, name: &'static str, help: &'static str, value: &AtomicU64) {
        self.count(name, help, value.load(Ordering::Relaxed));
    }

    /// A counter without labels whose value is known.
    pub fn count(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.add(name, help, MetricValues::Counters(vec![(Vec::new(), value)]));
    }

    /// Counters that differ in one label. Two components may write values of the same metric.
    pub fn counters<L: AsRef<str>>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) {
        let labelled = |(value, count): (L, u64)| (vec![(label, value.as_ref().to_owned())], count);
        let values = values.into_iter().map(labelled).collect();
        self.add(name, help, MetricValues::Counters(values));
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.add(name, help, MetricValues::Gauges(vec![(Vec::new(), value)]));
    }

    /// Gauges that differ in one label.
    pub fn gauges<L: AsRef<str>>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (L, f64)>,
    ) {
        let labelled = |(value, is): (L, f64)| (vec![(label, value.as_ref().to_owned())], is);
        let values = values.into_iter().map(labelled).collect();
        self.add(name, help, MetricValues::Gauges(values));
    }

    /// Any values. Values of a metric that another component has written are added to them.
    pub fn add(&mut self, name: &'static str, help: &'static str, values: MetricValues) {
        let known = self.0.iter_mut().find(|family| family.name == name);
        match (known.map(|family| &mut family.values), values) {
            (Some(MetricValues::Counters(all)), MetricValues::Counters(more)) => all.extend(more),
            (Some(MetricValues::Gauges(all)), MetricValues::Gauges(more)) => all.extend(more),
            // Two kinds under one name: the first stays.
            (Some(_), _) => {}
            (None, values) => self.0.push(MetricFamily { name, help, values }),
        }
    }

    /// All metrics, in the order in which they were first written.
    pub fn families(&self) -> &[MetricFamily] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_components_write_values_of_one_metric() {
        let mut metrics = Metrics::default();
        metrics.counters("clicks", "Clicks", "what", [("journaled", 2)]);
        metrics.gauge("queue", "Waiting", 1.0);
        metrics.counters("clicks", "Clicks", "what", [("counted", 1)]);
        metrics.gauge("clicks", "Another kind", 1.0);
        let [clicks, queue] = metrics.families() else { panic!("{metrics:?}") };
        let label = |value: &str| vec![("what", value.to_owned())];
        let both = vec![(label("journaled"), 2), (label("counted"), 1)];
        assert_eq!(clicks.values, MetricValues::Counters(both));
        assert_eq!(queue.values, MetricValues::Gauges(vec![(vec![], 1.0)]));
    }
}
