//! The number of different visitors, without storing who they were.

use cardinality_estimator::CardinalityEstimator;

/// The bits of the first word that encode the representation.
const FORM: u64 = 3;
/// The representation of up to two visitors: their hashes, in the word itself.
const SMALL: u64 = 0;

/// A HyperLogLog sketch: exact up to 128 visitors, within about 1.6 % beyond, at most 3 KiB.
///
/// The stored form is frozen, see the tests: the library's word that encodes its representation,
/// without the memory address in it, and then the hashes or registers, by postcard.
#[derive(Clone, Default)]
pub struct Sketch(CardinalityEstimator<u64>);

impl Sketch {
    /// Adds a visitor.
    pub fn add(&mut self, visitor: u64) {
        self.0.insert(&visitor);
    }

    /// Adds all visitors of another sketch.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// About how many there are.
    pub fn count(&self) -> u64 {
        self.0.estimate() as u64
    }

    /// How much memory it takes.
    pub fn memory(&self) -> usize {
        self.0.size_of()
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = postcard::to_allocvec(&self.0).unwrap_or_default();
        // First comes a word whose two lowest bits encode the representation. Where a list follows,
        // the rest of the word is the list's address in memory, which differs each time.
        match postcard::take_from_bytes::<u64>(&bytes) {
            Ok((word, list)) if word & FORM != SMALL => [&[(word & FORM) as u8], list].concat(),
            _ => bytes,
        }
    }

    /// From the stored form. The caller has made sure, by a checksum, that these are bytes from
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

    fn of(count: u64) -> Sketch {
        let mut sketch = Sketch::default();
        (0..count).for_each(|n| sketch.add(n * 7919));
        sketch
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Stores hold these bytes for years, and other nodes read them: they must never change. If an
    /// update of the library fails here, its output needs a new version.
    #[test]
    fn the_stored_form_is_frozen() {
        // Up to two visitors in a word, a list of hashes, registers.
        for (count, stored) in [
            (0, "0000"),
            (1, "90d2f1e31900"),
            (2, "90d2f1e3d9b093846900"),
            (3, "010103c4b4fcb806c2cd90a40382c793d903"),
            (5, "010105c4b4fcb806c2cd90a40382c793d903829ed5ee01c1e8ec9505"),
        ] {
            let bytes = of(count).encode();
            assert_eq!(hex(&bytes), stored, "{count}");
            let read = Sketch::decode(&bytes).unwrap();
            assert_eq!((read.count(), hex(&read.encode())), (count, stored.to_owned()));
        }
        let registers: &[u8] = include_bytes!("golden/sketch_1000.bin");
        assert!(of(1000).encode() == registers);
        let read = Sketch::decode(registers).unwrap();
        assert_eq!(read.count(), 1020);
        assert!(read.encode() == registers);
        // A stored sketch merges with a new one.
        let mut merged = Sketch::decode(&of(5).encode()).unwrap();
        merged.merge(&read);
        assert!(merged.encode() == registers);
        let mut more = read.clone();
        (1000..1500).for_each(|n| more.add(n * 7919));
        assert_eq!(
            (more.count(), hex(&more.encode())),
            (of(1500).count(), hex(&of(1500).encode()))
        );
    }
}
