//! What was found out lately, so that it need not be found out again.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// A cache in two generations: what is asked for stays young, and when the young are too many,
/// those who have not been asked for since are forgotten. A look-up is one or two of a hash map,
/// and there are never more than twice `cap` entries.
#[derive(Debug)]
pub(crate) struct BoundedCache<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
    cap: usize,
}

impl<K: Eq + Hash, V: Clone> BoundedCache<K, V> {
    /// Remembers at least the last `cap`.
    pub(crate) fn new(cap: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), cap }
    }

    /// What is remembered.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.put(key, value.clone());
        Some(value)
    }

    /// What is remembered, or what `find` finds out now.
    pub(crate) fn get_or<Q>(&mut self, key: &Q, find: impl FnOnce(&Q) -> V) -> V
    where
        K: Borrow<Q> + for<'a> From<&'a Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(value) = self.get(key) {
            return value;
        }
        let value = find(key);
        self.put(key.into(), value.clone());
        value
    }

    /// Remembers.
    pub(crate) fn put(&mut self, key: K, value: V) {
        self.young.insert(key, value);
        if self.young.len() >= self.cap {
            self.old = std::mem::take(&mut self.young);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// How much is remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut recent: BoundedCache<Box<str>, usize> = BoundedCache::new(100);
        for n in 0..100_000 {
            assert_eq!(recent.get_or(n.to_string().as_str(), |_| n), n);
            assert_eq!(recent.get_or("often", |_| n), 0);
            assert!(recent.len() <= 200);
        }
        assert_eq!(recent.get("99999"), Some(99999));
        assert_eq!(recent.get("5"), None);
        recent.clear();
        assert_eq!(recent.get("often"), None);
    }
}
