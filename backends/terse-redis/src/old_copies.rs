//! The copies that were used although they were old, because the store did not answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terse_core::LinkKey;

/// The most links at a time: some 10 MB. Above it, no old copy of another link is used.
const MAX_LINKS: usize = 100_000;

/// The age of each of these copies, and when it had that age.
#[derive(Default)]
pub(crate) struct OldCopies {
    ages: Mutex<HashMap<LinkKey, (Duration, Instant)>>,
    /// Whether there are any: mostly there are none.
    any: AtomicBool,
}

impl OldCopies {
    fn ages(&self) -> MutexGuard<'_, HashMap<LinkKey, (Duration, Instant)>> {
        self.ages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a copy of this age is used; `false` if it must not be.
    pub(crate) fn note(&self, key: &LinkKey, age: Duration) -> bool {
        let mut ages = self.ages();
        let is_noted = ages.len() < MAX_LINKS || ages.contains_key(key);
        if is_noted {
            ages.insert(key.clone(), (age, Instant::now()));
            self.any.store(true, Ordering::Release);
        }
        is_noted
    }

    /// The store has answered for these.
    pub(crate) fn forget<'a, T>(&self, keys: impl Iterator<Item = (&'a LinkKey, T)>) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut ages = self.ages();
        for (key, _) in keys {
            ages.remove(key);
        }
        self.any.store(!ages.is_empty(), Ordering::Release);
    }

    /// The age of the copy that was used last; zero if it was not old.
    pub(crate) fn age(&self, key: &LinkKey) -> Duration {
        if !self.any.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        self.ages().get(key).map_or(Duration::ZERO, |(age, at)| *age + at.elapsed())
    }
}
