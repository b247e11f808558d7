//! Which failed visits are written down: all of them on a usual day, few of them while a scanner
//! tries every code.

/// This many of a second are all written.
const ALL: u32 = 64;
/// Up to here one of [`FEW`] is written, past it one of [`FEWER`].
const MANY: u32 = 4096;
const FEW: u32 = 64;
const FEWER: u32 = 1024;

/// Picks the failed visits of one thread that are written down.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    second: i64,
    seen: u32,
}

impl Sampler {
    /// How many visits this one stands for; `None` if another stands for it. The one in the middle
    /// stands for all around it, so that the sum is as often too high as too low.
    pub(crate) fn weight(&mut self, now_ms: i64) -> Option<u16> {
        let second = now_ms.div_euclid(1000);
        if second != self.second {
            (self.second, self.seen) = (second, 0);
        }
        let before = self.seen;
        self.seen = self.seen.saturating_add(1);
        let stands_for = match before {
            0..ALL => return Some(1),
            ALL..MANY => FEW,
            _ => FEWER,
        };
        (before % stands_for == stands_for / 2).then_some(stands_for as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of the weights, and how many were written.
    fn sum(came: u32, sampler: &mut Sampler, now_ms: i64) -> (u32, u32) {
        let weights: Vec<u16> = (0..came).filter_map(|_| sampler.weight(now_ms)).collect();
        (weights.iter().map(|&weight| u32::from(weight)).sum(), weights.len() as u32)
    }

    #[test]
    fn few_failures_are_all_written_and_a_flood_is_sampled_at_its_true_size() {
        for came in [0, 1, 64] {
            assert_eq!(sum(came, &mut Sampler::default(), 0), (came, came));
        }
        for came in [128, 1_000, 4_096, 10_000, 100_000, 1_000_000] {
            let (stood_for, written) = sum(came, &mut Sampler::default(), 0);
            let off = stood_for.abs_diff(came);
            assert!(off * 20 <= came, "{stood_for} for {came}");
            assert!(written <= 64 + 63 + came / 1024, "{written} of {came} written");
        }
    }

    #[test]
    fn the_sum_over_many_seconds_of_any_size_is_neither_high_nor_low() {
        let (mut sampler, mut came, mut stood_for, mut dice) =
            (Sampler::default(), 0_u64, 0_u64, 9_u32);
        for second in 1..2_000 {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let now = (dice >> 8) % 9_000;
            came += u64::from(now);
            stood_for += u64::from(sum(now, &mut sampler, second * 1000 + 999).0);
        }
        assert!(stood_for.abs_diff(came) * 50 < came, "{stood_for} for {came}");
    }

    #[test]
    fn every_second_begins_anew_also_before_1970() {
        let mut sampler = Sampler::default();
        for now_ms in [0, 999, 1000, -1, -1001] {
            sum(500, &mut sampler, now_ms);
            assert_eq!(sum(1, &mut sampler, now_ms + 1000), (1, 1), "{now_ms}");
        }
    }
}
