//! The only source of chance.

use std::sync::Mutex;
use std::time::Duration;

/// Random numbers from a seed (SplitMix64).
#[derive(Debug)]
pub(crate) struct Dice(Mutex<u64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn ms(&self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }
}
