//! When keys were last used, noted in memory and written down now and then.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use terse_core::Timestamp;
use terse_core::accounts::KeyUse;
use terse_core::registry::KeyId;

/// Never more than this many at once: further ones are noted the next time they are used.
const MAX_KEYS: usize = 100_000;

/// The keys that were used since they were last written down.
#[derive(Debug, Default)]
pub struct UsedKeys(Mutex<HashMap<KeyId, Timestamp>>);

impl KeyUse for UsedKeys {
    fn note(&self, key: KeyId, at: Timestamp) {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() < MAX_KEYS || used.contains_key(&key) {
            used.insert(key, at);
        }
    }
}

impl UsedKeys {
    /// All of them, to be written down; they are noted no longer.
    pub fn take(&self) -> Vec<(KeyId, Timestamp)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain().collect()
    }
}
