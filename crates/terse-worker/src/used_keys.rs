//! When keys were last used: kept in memory, and written to the registry at intervals.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::accounts::KeyUse;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{KeyId, Registry, RegistryError};
use terse_core::{BoxError, Timestamp};

/// The largest number of keys in memory. Further keys are recorded at a later use.
const MAX_KEYS: usize = 100_000;
/// How often the keys that were used are recorded.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

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
    fn take(&self) -> Vec<(KeyId, Timestamp)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain().collect()
    }
}

/// Records in the registry which keys this node has accepted.
pub struct UsedKeyFlush {
    /// Holds the keys.
    pub registry: Arc<dyn Registry>,
    /// The keys that were used since the last flush.
    pub used_keys: Arc<UsedKeys>,
}

impl UsedKeyFlush {
    async fn flush(&self) -> Result<(), RegistryError> {
        let used = self.used_keys.take();
        // A use that is lost here is recorded when the key is used again.
        if used.is_empty() { Ok(()) } else { self.registry.touch_keys(&used).await }
    }
}

#[async_trait]
impl Job for UsedKeyFlush {
    fn name(&self) -> &'static str {
        "used keys"
    }

    fn interval(&self) -> Duration {
        FLUSH_INTERVAL
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        self.flush().await?;
        Ok(NextRun::Interval)
    }

    async fn finish(&mut self) {
        if let Err(error) = self.flush().await {
            tracing::warn!(%error, "the last uses of keys could not be recorded");
        }
    }
}
