//! When keys were last used: kept in memory, and written to the registry at intervals.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use terse_core::Timestamp;
use terse_core::accounts::KeyUse;
use terse_core::registry::KeyId;

/// The largest number of keys in memory. Further keys are recorded at a later use.
const MAX_KEYS: usize = 100_000;

/// The keys that were used since the last flush to the registry.
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
    /// Removes and returns all keys, for the flush to the registry.
    pub fn take(&self) -> Vec<(KeyId, Timestamp)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain().collect()
    }
}
