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

#[cfg(test)]
mod tests {
    use super::*;

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
