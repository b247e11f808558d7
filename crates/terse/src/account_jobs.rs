//! Records which keys were used.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::BoxError;
use terse_core::registry::{Registry, RegistryError};
use terse_server::UsedKeys;
use terse_worker::{Context, Job, Next};

/// How often the keys that were used are recorded.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// Records in the registry which keys this node has accepted.
pub(crate) struct UsedKeyFlush {
    /// Holds the keys.
    pub(crate) registry: Arc<dyn Registry>,
    /// The keys that were used since the last flush.
    pub(crate) used_keys: Arc<UsedKeys>,
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

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        self.flush().await?;
        Ok(Next::Interval)
    }

    async fn finish(&mut self) {
        if let Err(error) = self.flush().await {
            tracing::warn!(%error, "the last uses of keys could not be recorded");
        }
    }
}
