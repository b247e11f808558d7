//! The rows of links that were clicked lately.

use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;
use foldhash::{HashMap, HashMapExt as _};
use terse_core::clicks::LinkId;

/// The capacity of each of the two generations. An entry takes 16 bytes.
const CAPACITY: usize = 900_000;
const ID_SHIFT: u32 = 28;
const ERASED: u64 = 1 << 27;
const OWNER: u64 = ERASED - 1;

/// Remembers the rows of links by a hash of 64 bits with a random key: two links of one hash are
/// less likely than a memory error.
pub(crate) struct KnownLinks {
    /// Links of the latest batches; `before` has those of earlier batches.
    lately: HashMap<u64, u64>,
    before: HashMap<u64, u64>,
    hash: RandomState,
}

/// A link that the file has a row of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KnownLink {
    pub(crate) id: i64,
    /// See [`KnownLinks::owner_mark`].
    pub(crate) owner: u64,
    /// Whether it was erased, and clicked since.
    pub(crate) is_erased: bool,
}

impl KnownLinks {
    pub(crate) fn new() -> Self {
        Self { lately: HashMap::new(), before: HashMap::new(), hash: RandomState::default() }
    }

    pub(crate) fn hash(&self, LinkId { key, created_at }: &LinkId) -> u64 {
        self.hash.hash_one((key.domain.as_str(), key.code.as_str(), created_at.as_ms()))
    }

    /// Some bits of the hash of an owner.
    pub(crate) fn owner_mark(&self, owner: i64) -> u64 {
        self.hash.hash_one(owner) & OWNER
    }

    /// Finds a link by its hash.
    pub(crate) fn get(&mut self, hash: u64) -> Option<KnownLink> {
        let packed = match self.lately.get(&hash) {
            Some(packed) => *packed,
            None => {
                let packed = *self.before.get(&hash)?;
                self.lately.insert(hash, packed);
                packed
            }
        };
        let id = (packed >> ID_SHIFT).cast_signed();
        Some(KnownLink { id, owner: packed & OWNER, is_erased: packed & ERASED != 0 })
    }

    pub(crate) fn insert(&mut self, hash: u64, link: KnownLink) {
        let erased = if link.is_erased { ERASED } else { 0 };
        let packed = link.id.cast_unsigned() << ID_SHIFT | erased | link.owner & OWNER;
        self.lately.insert(hash, packed);
    }

    /// Forgets the older half if there are many. Not within a batch: the rows of its new links are
    /// not in the file yet.
    pub(crate) fn make_room(&mut self) {
        if self.lately.len() >= CAPACITY {
            self.before = std::mem::take(&mut self.lately);
        }
    }

    pub(crate) fn clear(&mut self) {
        (self.lately, self.before) = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use terse_core::Timestamp;
    use terse_testkit::key;

    use super::*;

    #[test]
    fn a_link_is_found_with_its_row_until_there_are_many_others() {
        let mut known = KnownLinks::new();
        let link = |n: i64| LinkId { key: key("abc"), created_at: Timestamp::from_ms(n) };
        let (one, other) = (known.hash(&link(1)), known.hash(&link(2)));
        assert_ne!(one, other);
        let row =
            KnownLink { id: (1 << 36) - 1, owner: known.owner_mark(i64::MIN), is_erased: true };
        known.insert(one, row);
        assert_eq!((known.get(one), known.get(other)), (Some(row), None));
        let row = KnownLink { id: 1, owner: known.owner_mark(7), is_erased: false };
        known.insert(one, row);
        for generation in 0..2 {
            for n in 0..CAPACITY as u64 {
                known.insert(n, row);
            }
            known.make_room();
            assert_eq!(known.lately.len(), 0);
            // It is used in the first generation only.
            assert_eq!(known.before.contains_key(&one), generation == 0);
        }
        assert_eq!(known.get(one), None);
        assert_eq!(known.get(5), Some(row));
        known.clear();
        assert_eq!(known.get(5), None);
    }
}
