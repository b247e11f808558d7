//! The stored form of a sum.

use terse_core::StoreError;
use terse_core::clicks::{ClickColumns, ClickSum, Delta, Sketch};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::failure::corrupt;

/// Bytes before the sketch: the checksum of all that follows, and the length of the sketch.
const HEAD: usize = 10;

/// Which row a sum belongs to: the subject, the unit (0 for all time) and the start. It seeds the
/// checksum, so that the sum of one row is invalid in another.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Slot {
    pub(super) subject: i64,
    pub(super) unit: i16,
    pub(super) start: i64,
}

impl Slot {
    fn seed(self) -> u64 {
        let seed = self.subject.cast_unsigned() << 2 | u64::from(self.unit.unsigned_abs());
        xxh3_64_with_seed(&self.start.to_le_bytes(), seed)
    }
}

/// Clicks and visitors.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) tally: ClickSum,
    pub(super) visitors: Sketch,
    /// Whether the sketch holds any visitor.
    visited: bool,
}

impl Sum {
    /// A sum that another store has made.
    pub(super) fn of(tally: ClickSum, visitors: Sketch) -> Self {
        let visited = visitors.count() > 0;
        Self { tally, visitors, visited }
    }

    /// Adds the delta of a batch.
    pub(super) fn add_delta(&mut self, delta: &Delta, columns: &ClickColumns) {
        delta.add_to(columns, &mut self.tally);
        if let Some(visitors) = &delta.visitors {
            self.visitors.merge(visitors);
            self.visited = true;
        }
    }

    pub(super) fn encode(&self, slot: Slot) -> Vec<u8> {
        let sketch = if self.visited { self.visitors.encode() } else { Vec::new() };
        let tally = self.tally.encode();
        let mut bytes = Vec::with_capacity(HEAD + sketch.len() + tally.len());
        bytes.extend([0; 8]);
        bytes.extend((sketch.len() as u16).to_le_bytes());
        bytes.extend(sketch);
        bytes.extend(tally);
        let checksum = xxh3_64_with_seed(&bytes[8..], slot.seed());
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Adds the stored sum of a row.
    pub(super) fn merge_stored(&mut self, bytes: &[u8], slot: Slot) -> Result<(), StoreError> {
        self.merge_checked(bytes, slot).ok_or_else(|| {
            corrupt(format!("the sum of clicks at {slot:?} is not what was written there"))
        })
    }

    fn merge_checked(&mut self, bytes: &[u8], slot: Slot) -> Option<()> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        if head[..8] != xxh3_64_with_seed(&bytes[8..], slot.seed()).to_le_bytes() {
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
