//! A read-only map from hash to list number: eleven bytes per entry, one or two cache lines per
//! lookup.

/// Sorted hashes, with a directory from the first bits of a hash to its bucket. Built once, then
/// read-only.
#[derive(Debug, Default)]
pub(crate) struct Table {
    hashes: Box<[u64]>,
    /// Which source each hash came from.
    sources: Box<[u16]>,
    /// The start of each bucket, and the end of the last.
    begins: Box<[u32]>,
    /// The right shift that turns a hash into its bucket.
    shift: u32,
}

/// The average number of hashes per bucket.
const BUCKET: usize = 4;

impl Table {
    /// Of equal hashes, the one with the lowest source stays.
    pub(crate) fn build(mut entries: Vec<(u64, u16)>) -> Self {
        entries.sort_unstable();
        entries.dedup_by_key(|entry| entry.0);
        // At least two buckets: a shift by all 64 bits is not defined.
        let buckets = (entries.len() / BUCKET).next_power_of_two().max(2);
        let shift = u64::BITS - buckets.ilog2();
        let mut begins = Vec::with_capacity(buckets + 1);
        for (at, (hash, _)) in entries.iter().enumerate() {
            while begins.len() <= (hash >> shift) as usize {
                begins.push(at as u32);
            }
        }
        begins.resize(buckets + 1, entries.len() as u32);
        Self {
            hashes: entries.iter().map(|entry| entry.0).collect(),
            sources: entries.iter().map(|entry| entry.1).collect(),
            begins: begins.into(),
            shift,
        }
    }

    /// The source of a hash.
    pub(crate) fn get(&self, hash: u64) -> Option<u16> {
        if self.hashes.is_empty() {
            return None;
        }
        let bucket = (hash >> self.shift) as usize;
        let (begin, end) = (self.begins[bucket] as usize, self.begins[bucket + 1] as usize);
        let at = self.hashes[begin..end].iter().position(|kept| *kept == hash)?;
        Some(self.sources[begin + at])
    }

    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Octets on the heap.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.hashes) + size_of_val(&*self.sources) + size_of_val(&*self.begins)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_table_holds_what_was_put_in(
            entries in prop::collection::vec(
                (prop_oneof![any::<u64>(), 0..9u64, (u64::MAX - 9)..], any::<u16>()),
                0..200,
            ),
            others in prop::collection::vec(any::<u64>(), 0..20),
        ) {
            let mut map = BTreeMap::new();
            for (hash, source) in &entries {
                map.entry(*hash)
                    .and_modify(|lowest: &mut u16| *lowest = (*lowest).min(*source))
                    .or_insert(*source);
            }
            let table = Table::build(entries);
            prop_assert_eq!(table.len(), map.len());
            for hash in map.keys().copied().chain(others).chain([0, u64::MAX]) {
                prop_assert_eq!(table.get(hash), map.get(&hash).copied());
            }
        }
    }
}
