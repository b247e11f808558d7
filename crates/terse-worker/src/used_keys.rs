//! The requests of keys: counted in memory, and added to the registry at intervals.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::accounts::KeyUse;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{KeyId, KeyUsage, Registry, RegistryError};
use terse_core::{BoxError, Timestamp};

/// The largest number of keys in memory. Requests of further keys are not counted until the flush.
const MAX_KEYS: usize = 100_000;
/// How often the keys that were used are recorded.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// The keys that were used since the last flush to the registry.
#[derive(Debug, Default)]
pub struct UsedKeys(Mutex<HashMap<KeyId, KeyUsage>>);

impl KeyUse for UsedKeys {
    fn note(&self, key: KeyId, at: Timestamp) {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() < MAX_KEYS || used.contains_key(&key) {
            let usage = used.entry(key).or_insert(KeyUsage { key, last_at: at, requests: 0 });
            usage.last_at = at.max(usage.last_at);
            usage.requests += 1;
        }
    }
}

impl UsedKeys {
    /// Removes and returns all keys, for the flush to the registry.
    fn take(&self) -> Vec<KeyUsage> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.drain().map(|(_, usage)| usage).collect()
    }
}

/// Adds the requests that this node has accepted to the registry.
pub struct UsedKeyFlush {
    /// Holds the keys.
    pub registry: Arc<dyn Registry>,
    /// The keys that were used since the last flush.
    pub used_keys: Arc<UsedKeys>,
}

impl UsedKeyFlush {
    async fn flush(&self) -> Result<(), RegistryError> {
        let used = self.used_keys.take();
        // The counts are for people. If the registry is away, these are lost rather than kept or
        // perhaps added twice.
        if used.is_empty() { Ok(()) } else { self.registry.add_key_usage(&used).await }
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
            tracing::warn!(%error, "the last requests of keys could not be counted");
        }
    }
}
