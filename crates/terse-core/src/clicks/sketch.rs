//! How many different visitors there were, without keeping who they were.

use cardinality_estimator::CardinalityEstimator;

const FORM: u64 = 3;
/// Up to two visitors, in the word itself.
const SMALL: u64 = 0;

/// A HyperLogLog sketch: exact up to 128 visitors, within about 1.6 % beyond, never more than 3
/// KiB.
#[derive(Clone, Default)]
pub struct Sketch(CardinalityEstimator<u64>);

impl Sketch {
    /// Takes a visitor in.
    pub fn add(&mut self, visitor: u64) {
        self.0.insert(&visitor);
    }

    /// Takes in all visitors of another.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// About how many there are.
    pub fn count(&self) -> u64 {
        self.0.estimate() as u64
    }

    /// For keeping.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = postcard::to_allocvec(&self.0).unwrap_or_default();
        // First comes a word whose two lowest bits tell the form. Where visitors follow in a list,
        // the rest of it is where the list stands in memory: nobody's business, and another each
        // time.
        match postcard::take_from_bytes::<u64>(&bytes) {
            Ok((word, list)) if word & FORM != SMALL => [&[(word & FORM) as u8], list].concat(),
            _ => bytes,
        }
    }

    /// As it was kept. The caller has made sure, by a checksum, that these are bytes from
    /// [`Sketch::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok().map(Self)
    }
}

impl std::fmt::Debug for Sketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sketch(about {})", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_well_in_parts_and_after_being_kept() {
        for count in [0_u64, 1, 2, 3, 100, 129, 5_000, 200_000] {
            let mut merged = Sketch::default();
            for part in 0..4 {
                let mut sketch = Sketch::default();
                // Every visitor is in two of the parts.
                (0..count)
                    .filter(|n| n % 4 == part || (n + 1) % 4 == part)
                    .for_each(|n| sketch.add(n * 7919));
                let kept = sketch.encode();
                assert!(kept.len() < 6 * 1024, "{} octets", kept.len());
                merged.merge(&Sketch::decode(&kept).unwrap());
            }
            let error = (merged.count() as f64 - count as f64).abs() / (count.max(1) as f64);
            assert!(error < 0.05, "{count}: {}", merged.count());
            assert!(count > 100 || merged.count() == count);
            assert_eq!(
                merged.encode(),
                merged.clone().encode(),
                "the same visitors are the same bytes, wherever they are"
            );
        }
    }
}
