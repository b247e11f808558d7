//! Latencies, counted in buckets that grow with the value: 64 per doubling, so the error is at most
//! 1.6 %.

use std::time::Duration;

const BITS: u32 = 6;
const PER_DOUBLING: usize = 1 << BITS;
/// Up to 2⁴¹ ns, more than half an hour; the last bucket also counts longer times.
const BUCKETS: usize = PER_DOUBLING * 36;

/// Counted durations.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into_boxed_slice(), count: 0, max: 0 }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The latency that `share` of all (0.99: 99 of 100) did not exceed; zero when there are none.
    pub(super) fn at(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank, not money"
        )]
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(highest(index).min(self.max));
            }
        }
        Duration::ZERO
    }
}

fn bucket(nanos: u64) -> usize {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(BITS + 1);
    let within = usize::try_from(nanos >> shift).unwrap_or(usize::MAX);
    (shift as usize * PER_DOUBLING + within).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn highest(index: usize) -> u64 {
    if index < 2 * PER_DOUBLING {
        return index as u64;
    }
    let shift = index / PER_DOUBLING - 1;
    (((index - shift * PER_DOUBLING) as u64 + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_never_wider_than_its_promise() {
        let values = (0..10_000).chain(
            (0..41).flat_map(|n| [(1_u64 << n) - 1, 1 << n, (1 << n) + 1, (1 << n) * 3 / 2]),
        );
        for value in values {
            let top = highest(bucket(value));
            assert!(
                top >= value && (top - value) as f64 <= value as f64 / 64.0,
                "{value} is counted as {top}"
            );
        }
    }

    #[test]
    fn buckets_follow_one_another() {
        for index in 1..BUCKETS {
            assert_eq!(bucket(highest(index - 1) + 1), index);
        }
    }

    #[test]
    fn percentiles_of_a_ramp_are_where_they_should_be() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        for micros in 1..=1000 {
            if micros % 2 == 0 { &mut one } else { &mut other }.add(Duration::from_micros(micros));
        }
        one.merge(&other);
        assert_eq!(one.count(), 1000);
        assert_eq!(one.max(), Duration::from_millis(1));
        for (share, micros) in
            [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)]
        {
            let found = one.at(share).as_secs_f64() * 1e6;
            assert!((found - micros).abs() <= micros * 0.017, "{share}: {found}");
        }
    }

    #[test]
    fn nothing_counted_is_zero_and_hours_are_not_lost() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.at(0.5), Duration::ZERO);
        histogram.add(Duration::from_hours(3));
        assert_eq!(histogram.count(), 1);
        assert_eq!(histogram.max(), Duration::from_hours(3));
    }
}
