//! A running mean, by Welford's update.

use serde::{Deserialize, Serialize};

/// The mean and variance of values added one by one, numerically stable for any number of them.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Mean {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The sum of the squared differences from the mean.
    pub spread: f64,
}

impl Mean {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.spread += before * (value - self.mean);
    }

    /// Adds the values of another mean: the parallel form of the same update.
    pub fn merge(&mut self, other: &Self) {
        if self.count == 0 {
            *self = *other; // to the last bit
            return;
        }
        if other.count == 0 {
            return;
        }
        let count = self.count + other.count;
        let (ours, theirs, all) = (self.count as f64, other.count as f64, count as f64);
        let apart = other.mean - self.mean;
        self.mean += apart * theirs / all;
        self.spread += other.spread + apart * apart * ours * theirs / all;
        self.count = count;
    }

    /// The standard deviation; 0 of fewer than two.
    pub fn deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.spread / (self.count - 1) as f64).sqrt() }
    }
}

/// The same of whole numbers, as exact sums: adding a value is cheaper.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ExactMean {
    /// How many.
    pub(crate) count: u64,
    /// Their sum.
    pub(crate) sum: u64,
    /// The sum of their squares.
    pub(crate) squares: AlignedU128,
}

/// A `u128` that is aligned like a `u64`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AlignedU128([u64; 2]);

impl AlignedU128 {
    pub(crate) fn get(self) -> u128 {
        u128::from(self.0[1]) << 64 | u128::from(self.0[0])
    }
}

impl From<u128> for AlignedU128 {
    fn from(number: u128) -> Self {
        Self([number as u64, (number >> 64) as u64])
    }
}

impl ExactMean {
    /// Adds a value.
    pub(crate) fn add(&mut self, value: u64) {
        let square = u128::from(value) * u128::from(value);
        self.merge(Self { count: 1, sum: value, squares: square.into() });
    }

    /// Adds the values of another.
    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.get().saturating_add(other.squares.get()).into();
    }

    /// The mean of nanoseconds, in milliseconds.
    pub(crate) fn in_milliseconds(self) -> Mean {
        let Self { count, sum, squares } = self;
        if count == 0 {
            return Mean::default();
        }
        let (wide, square) = (u128::from(count), u128::from(sum) * u128::from(sum));
        // Exact, unless the numbers are absurd.
        let spread = match squares.get().checked_mul(wide) {
            Some(squares) => squares.saturating_sub(square) as f64 / count as f64,
            None => (squares.get() as f64 - square as f64 / count as f64).max(0.0),
        };
        Mean { count, mean: sum as f64 / count as f64 / 1e6, spread: spread / 1e12 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_sums_have_the_same_mean() {
        let (mut plain, mut exact, mut merged) =
            (Mean::default(), ExactMean::default(), ExactMean::default());
        assert_eq!(exact.in_milliseconds(), plain);
        for n in 0..1000_u64 {
            let nanos = n * 7919 % 100_003 + 20_000;
            plain.add(nanos as f64 / 1e6);
            let mut one = ExactMean::default();
            one.add(nanos);
            exact.add(nanos);
            merged.merge(one);
            if n == 0 {
                assert_eq!(exact.in_milliseconds(), plain, "one value is exact");
            }
        }
        assert_eq!(merged, exact);
        let found = exact.in_milliseconds();
        assert_eq!(found.count, plain.count);
        assert!((found.mean - plain.mean).abs() < 1e-12);
        assert!((found.deviation() - plain.deviation()).abs() < 1e-9);
        for _ in 0..5 {
            exact.add(u64::MAX);
        }
        assert!(exact.in_milliseconds().deviation().is_finite());
    }

    #[test]
    fn merged_in_any_parts_it_is_the_same_mean() {
        let values: Vec<f64> = (0..1000).map(|n| f64::from((n * 7919) % 1009) * 0.25).collect();
        let mut whole = Mean::default();
        values.iter().for_each(|&value| whole.add(value));
        for size in [1, 7, 333, 1000, 2000] {
            let mut merged = Mean::default();
            for part in values.chunks(size) {
                let mut mean = Mean::default();
                part.iter().for_each(|&value| mean.add(value));
                merged.merge(&mean);
            }
            merged.merge(&Mean::default());
            assert_eq!(merged.count, whole.count);
            assert!((merged.mean - whole.mean).abs() < 1e-9, "{size}");
            assert!((merged.deviation() - whole.deviation()).abs() < 1e-9, "{size}");
        }
        let plain = values.iter().sum::<f64>() / 1000.0;
        assert!((whole.mean - plain).abs() < 1e-9);
    }
}
