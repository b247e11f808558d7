//! Samples failed visits: the journal records all of them on an ordinary day, and few of them while
//! a scanner tries codes.

/// Up to this many failures per second, all are written.
const UNSAMPLED: u32 = 64;
/// Up to this number one in [`SAMPLE_1_IN`] is written, past it one in [`HIGH_RATE_SAMPLE_1_IN`].
const HIGH_RATE: u32 = 4096;
const SAMPLE_1_IN: u32 = 64;
const HIGH_RATE_SAMPLE_1_IN: u32 = 1024;

/// Selects the failed visits of one thread that are written to the journal.
#[derive(Debug, Default)]
pub(crate) struct FailureSampler {
    second: i64,
    count: u32,
}

impl FailureSampler {
    /// The number of visits that this one represents; `None` if another one represents it. The
    /// visit in the middle of each group is written, so that the sum is too high as often as too
    /// low.
    pub(crate) fn weight(&mut self, now_ms: i64) -> Option<u16> {
        let second = now_ms.div_euclid(1000);
        if second != self.second {
            (self.second, self.count) = (second, 0);
        }
        let before = self.count;
        self.count = self.count.saturating_add(1);
        let weight = match before {
            0..UNSAMPLED => return Some(1),
            UNSAMPLED..HIGH_RATE => SAMPLE_1_IN,
            _ => HIGH_RATE_SAMPLE_1_IN,
        };
        (before % weight == weight / 2).then_some(weight as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of the weights, and how many were written.
    fn sum(came: u32, sampler: &mut FailureSampler, now_ms: i64) -> (u32, u32) {
        let weights: Vec<u16> = (0..came).filter_map(|_| sampler.weight(now_ms)).collect();
        (weights.iter().map(|&weight| u32::from(weight)).sum(), weights.len() as u32)
    }

    #[test]
    fn few_failures_are_all_written_and_the_weights_of_a_sample_add_up() {
        for came in [0, 1, 64] {
            assert_eq!(sum(came, &mut FailureSampler::default(), 0), (came, came));
        }
        for came in [128, 1_000, 4_096, 10_000, 100_000, 1_000_000] {
            let (stood_for, written) = sum(came, &mut FailureSampler::default(), 0);
            let off = stood_for.abs_diff(came);
            assert!(off * 20 <= came, "{stood_for} for {came}");
            assert!(written <= 64 + 63 + came / 1024, "{written} of {came} written");
        }
    }

    #[test]
    fn the_sum_over_many_seconds_is_unbiased() {
        let (mut sampler, mut came, mut stood_for, mut dice) =
            (FailureSampler::default(), 0_u64, 0_u64, 9_u32);
        for second in 1..2_000 {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let now = (dice >> 8) % 9_000;
            came += u64::from(now);
            stood_for += u64::from(sum(now, &mut sampler, second * 1000 + 999).0);
        }
        assert!(stood_for.abs_diff(came) * 50 < came, "{stood_for} for {came}");
    }

    #[test]
    fn each_second_starts_a_new_count_also_before_1970() {
        let mut sampler = FailureSampler::default();
        for now_ms in [0, 999, 1000, -1, -1001] {
            sum(500, &mut sampler, now_ms);
            assert_eq!(sum(1, &mut sampler, now_ms + 1000), (1, 1), "{now_ms}");
        }
    }
}
