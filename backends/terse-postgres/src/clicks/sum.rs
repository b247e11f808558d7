//! The stored form of a sum.

use terse_core::StoreError;
use terse_core::clicks::StoredSum;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::failure::corrupt;

/// Which row a sum belongs to: the subject, the unit (0 for all time) and the start. It seeds the
/// checksum, so that the sum of one row is invalid in another.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Slot {
    pub(super) subject: i64,
    pub(super) unit: i16,
    pub(super) start: i64,
}

impl Slot {
    pub(super) fn seed(self) -> u64 {
        let seed = self.subject.cast_unsigned() << 2 | u64::from(self.unit.unsigned_abs());
        xxh3_64_with_seed(&self.start.to_le_bytes(), seed)
    }
}

/// Adds the stored sum of a row.
pub(super) fn merge_stored(
    sum: &mut StoredSum,
    bytes: &[u8],
    slot: Slot,
) -> Result<(), StoreError> {
    sum.merge_stored(bytes, slot.seed()).ok_or_else(|| {
        corrupt(format!("the sum of clicks at {slot:?} is not what was written there"))
    })
}
