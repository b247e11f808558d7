//! Bounded caches of what enrichment derives from a text, so that the next click with the same text
//! costs only a lookup.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;

/// A cache for one thread, in two generations. A hit moves its entry to the young generation. When
/// the young generation is full it becomes the old one, and the previous old one is dropped. The
/// cache never holds more than `2 * capacity` entries.
#[derive(Debug)]
pub(crate) struct BoundedCache<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
    capacity: usize,
}

impl<K: Eq + Hash, V: Clone> BoundedCache<K, V> {
    /// Keeps at least the last `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), capacity }
    }

    /// The cached value of a key.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    /// The cached value of a key, or the one that `compute` returns, which is then cached.
    pub(crate) fn get_or_insert_with<Q>(&mut self, key: &Q, compute: impl FnOnce(&Q) -> V) -> V
    where
        K: Borrow<Q> + for<'a> From<&'a Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(value) = self.get(key) {
            return value;
        }
        let value = compute(key);
        self.insert(key.into(), value.clone());
        value
    }

    /// Adds an entry to the young generation.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.young.insert(key, value);
        if self.young.len() >= self.capacity {
            self.old = std::mem::take(&mut self.young);
        }
    }

    /// The number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

/// A cache of two generations that threads share without a lock: two lock-free maps that take turns
/// at being the young generation. It holds about `2 * capacity` entries; threads that insert at the
/// moment of a turn can each exceed that by one.
pub(crate) struct ConcurrentCache<K, V> {
    generations: [papaya::HashMap<K, V, RandomState>; 2],
    /// Even: the first map is the young generation. Odd: the second.
    turn: AtomicUsize,
    capacity: usize,
}

impl<K: Eq + Hash + Send + Sync, V: Clone + Send + Sync> ConcurrentCache<K, V> {
    /// Keeps at least the last `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        let generations = [papaya::HashMap::default(), papaya::HashMap::default()];
        Self { generations, turn: AtomicUsize::new(0), capacity }
    }

    /// The cached value of a key, or the one that `compute` returns, which is then cached. Two
    /// threads that miss at the same time both compute it; neither waits for the other.
    pub(crate) fn get_or_insert_with<Q>(&self, key: &Q, compute: impl FnOnce(&Q) -> V) -> V
    where
        K: Borrow<Q> + for<'a> From<&'a Q>,
        Q: Eq + Hash + ?Sized,
    {
        let turn = self.turn.load(Ordering::Acquire);
        let (young, old) = (self.generation(turn), self.generation(turn + 1));
        if let Some(value) = young.pin().get(key) {
            return value.clone();
        }
        let value = old.pin().get(key).cloned().unwrap_or_else(|| compute(key));
        if young.len() >= self.capacity
            && self
                .turn
                .compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            // This thread alone ended the turn: it empties the old generation, now the young one.
            old.pin().clear();
            old.pin().insert(key.into(), value.clone());
        } else {
            young.pin().insert(key.into(), value.clone());
        }
        value
    }

    fn generation(&self, turn: usize) -> &papaya::HashMap<K, V, RandomState> {
        &self.generations[turn % 2]
    }

    /// The number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.generations.iter().map(papaya::HashMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_read_stay_and_the_others_are_dropped() {
        let mut cache: BoundedCache<Box<str>, usize> = BoundedCache::new(100);
        for n in 0..100_000 {
            assert_eq!(cache.get_or_insert_with(n.to_string().as_str(), |_| n), n);
            assert_eq!(cache.get_or_insert_with("often", |_| n), 0);
            assert!(cache.len() <= 200);
        }
        assert_eq!(cache.get("99999"), Some(99999));
        assert_eq!(cache.get("5"), None);
    }

    #[test]
    fn a_shared_cache_keeps_entries_that_are_read_and_stays_within_its_bound() {
        let cache: ConcurrentCache<Box<str>, usize> = ConcurrentCache::new(100);
        for n in 0..100_000 {
            assert_eq!(cache.get_or_insert_with(n.to_string().as_str(), |_| n), n);
            assert_eq!(cache.get_or_insert_with("often", |_| n), 0);
            assert!(cache.len() <= 201, "{}", cache.len());
        }
        assert_eq!(cache.get_or_insert_with("99999", |_| 0), 99999);
        assert_eq!(cache.get_or_insert_with("5", |_| 0), 0, "dropped and computed again");
    }

    #[test]
    fn threads_that_fill_a_shared_cache_together_stay_within_its_bound() {
        let cache: ConcurrentCache<Box<str>, usize> = ConcurrentCache::new(100);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..20_000 {
                        let key = format!("{thread}-{n}");
                        assert_eq!(cache.get_or_insert_with(key.as_str(), |_| n), n);
                    }
                });
            }
        });
        assert!(cache.len() <= 2 * 100 + 8, "{}", cache.len());
    }
}
