//! The form in which stores keep a sum together with its visitors.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::columns::ClickColumns;
use super::delta::Delta;
use super::sketch::Sketch;
use super::tally::ClickSum;

/// Bytes before the sketch: the checksum of all that follows, and the length of the sketch.
const HEAD: usize = 10;

/// Clicks and visitors.
#[derive(Clone, Debug, Default)]
pub struct StoredSum {
    /// The clicks.
    pub tally: ClickSum,
    /// The visitors.
    pub visitors: Sketch,
    /// Whether the sketch holds any visitor.
    visited: bool,
}

impl StoredSum {
    /// A sum that another store has made.
    pub fn of(tally: ClickSum, visitors: Sketch) -> Self {
        let visited = visitors.count() > 0;
        Self { tally, visitors, visited }
    }

    /// Adds the delta of a batch.
    pub fn add_delta(&mut self, delta: &Delta, columns: &ClickColumns) {
        delta.add_to(columns, &mut self.tally);
        if let Some(visitors) = &delta.visitors {
            self.visitors.merge(visitors);
            self.visited = true;
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        if other.visited {
            self.visitors.merge(&other.visitors);
            self.visited = true;
        }
    }

    /// The stored form. `seed` stands for the row that the sum belongs to: in another row its
    /// checksum is wrong.
    pub fn encode(&self, seed: u64) -> Vec<u8> {
        let sketch = if self.visited { self.visitors.encode() } else { Vec::new() };
        let tally = self.tally.encode();
        let mut bytes = Vec::with_capacity(HEAD + sketch.len() + tally.len());
        bytes.extend([0; 8]);
        bytes.extend((sketch.len() as u16).to_le_bytes());
        bytes.extend(sketch);
        bytes.extend(tally);
        let checksum = xxh3_64_with_seed(&bytes[8..], seed);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Adds a stored sum; `None` if these bytes were not written to the row of this seed.
    #[must_use]
    pub fn merge_stored(&mut self, bytes: &[u8], seed: u64) -> Option<()> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        if head[..8] != xxh3_64_with_seed(&bytes[8..], seed).to_le_bytes() {
            return None;
        }
        let length = usize::from(u16::from_le_bytes([head[8], head[9]]));
        let (sketch, tally) = rest.split_at_checked(length)?;
        let visitors = match sketch {
            [] => None,
            // Safe: the checksum proves that terse wrote these bytes.
            bytes => Some(Sketch::decode(bytes)?),
        };
        if !self.tally.merge_stored(tally) {
            return None;
        }
        if let Some(visitors) = visitors {
            self.visitors.merge(&visitors);
            self.visited = true;
        }
        Some(())
    }
}
