//! What enrichment derives from a text, and the number of the text in the growing batch.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher};

use foldhash::fast::RandomState;

/// Keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HashedKey(u64);

impl Hasher for HashedKey {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = self.0.rotate_left(32) ^ u64::from_le_bytes(word);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map by hash.
pub(crate) type ByHash<V> = HashMap<u64, V, BuildHasherDefault<HashedKey>>;

/// The bytes of a text. Short ones are in the entry itself: a lookup reads memory in one place.
#[derive(Debug)]
enum Key {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

/// The longest text in the entry itself, so that a key is as long as with a pointer and a length.
const SHORT: usize = 22;

impl Key {
    fn new(text: &[u8]) -> Self {
        let mut short = [0; SHORT];
        match short.get_mut(..text.len()) {
            Some(begin) => {
                begin.copy_from_slice(text);
                Self::Short(text.len() as u8, short)
            }
            None => Self::Long(text.into()),
        }
    }

    fn is(&self, text: &[u8]) -> bool {
        match self {
            Self::Short(length, octets) => octets.get(..usize::from(*length)) == Some(text),
            Self::Long(octets) => **octets == *text,
        }
    }
}

#[derive(Debug)]
struct Entry<T> {
    key: Key,
    value: T,
    /// The batch in which the value has this number.
    batch: u64,
    number: u32,
}

/// A bounded cache from texts to values, in two generations as
/// [`BoundedCache`](super::cache::BoundedCache). The first click of a batch with a text adds its
/// value to the batch; all others find its number, and copy and allocate nothing.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    young: ByHash<Entry<T>>,
    old: ByHash<Entry<T>>,
    capacity: usize,
    hash: RandomState,
}

impl<T> Interner<T> {
    /// Keeps at least the last `capacity` texts.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            young: HashMap::default(),
            old: HashMap::default(),
            capacity,
            hash: RandomState::default(),
        }
    }

    /// The value of a text, and its number in this batch. `compute` makes the value of a text that
    /// is not in the cache; `add` adds a value to the batch.
    pub(crate) fn number(
        &mut self,
        key: &[u8],
        batch: u64,
        compute: impl FnOnce(&[u8]) -> T,
        add: impl FnOnce(&T) -> u32,
    ) -> (&T, u32) {
        let hash = self.hash.hash_one(key);
        if self.young.len() >= self.capacity && !self.young.contains_key(&hash) {
            self.old = std::mem::take(&mut self.young);
        }
        let (old, make) = (&mut self.old, |old: &mut ByHash<Entry<T>>| {
            let known = old.remove(&hash).filter(|entry| entry.key.is(key));
            known.unwrap_or_else(|| Entry {
                key: Key::new(key),
                value: compute(key),
                batch: u64::MAX,
                number: 0,
            })
        });
        let entry = match self.young.entry(hash) {
            MapEntry::Occupied(entry) => {
                let entry = entry.into_mut();
                // Replaces a text with the same hash.
                if !entry.key.is(key) {
                    *entry = make(old);
                }
                entry
            }
            MapEntry::Vacant(entry) => entry.insert(make(old)),
        };
        if entry.batch != batch {
            entry.number = add(&entry.value);
            entry.batch = batch;
        }
        (&entry.value, entry.number)
    }

    /// Removes all texts.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// The number of texts.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_computed_once_and_added_once_per_batch() {
        let mut interner: Interner<usize> = Interner::new(100);
        let (mut computed, mut added) = (0, 0);
        for batch in 0..3 {
            for _ in 0..10 {
                let (value, number) = interner.number(
                    b"often",
                    batch,
                    |key| {
                        computed += 1;
                        key.len()
                    },
                    |_| {
                        added += 1;
                        added
                    },
                );
                assert_eq!((*value, number), (5, batch as u32 + 1));
            }
        }
        assert_eq!((computed, added), (1, 3));
    }

    #[test]
    fn texts_of_any_length_are_told_apart() {
        let mut interner: Interner<usize> = Interner::new(1000);
        let texts: Vec<Vec<u8>> = (0..60).map(|length| vec![0; length]).collect();
        for _ in 0..2 {
            for text in &texts {
                let (length, _) = interner.number(text, 0, <[u8]>::len, |_| 1);
                assert_eq!(*length, text.len());
            }
        }
        for text in &texts {
            let key = Key::new(text);
            assert!(texts.iter().all(|other| key.is(other) == (other == text)));
        }
    }

    #[test]
    fn texts_that_are_read_stay_and_the_cache_is_bounded() {
        let mut interner: Interner<usize> = Interner::new(100);
        for n in 0..10_000 {
            let text = n.to_string();
            interner.number(text.as_bytes(), 0, |_| n, |_| 1);
            assert_eq!(interner.number(b"often", 0, |_| n, |_| 1).0, &0);
            assert!(interner.len() <= 200);
        }
        assert_eq!(interner.number(b"9999", 0, |_| 0, |_| 1).0, &9999);
        assert_eq!(interner.number(b"5", 0, |_| 77, |_| 1).0, &77, "dropped and computed again");
        interner.clear();
        assert_eq!(interner.len(), 0);
    }
}
