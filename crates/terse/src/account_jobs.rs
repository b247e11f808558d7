//! What has to be done for owners now and then: noting which keys were used, deleting what is over,
//! finishing erasures.

use std::sync::Arc;
use std::time::Duration;

use terse_core::Clock;
use terse_core::registry::{Registry, RegistryError};
use terse_server::{Erasures, UsedKeys};
use tokio::sync::watch;

/// How often it is written down which keys were used.
const NOTE: Duration = Duration::from_secs(30);
/// So many rounds of that between two looks for what is over.
const ROUNDS: u32 = 30;
/// How long settled reports and the audit log are kept.
const KEEP: Duration = Duration::from_hours(2 * 365 * 24);
/// Rows deleted in one go, so that nobody waits long for the registry.
const BATCH: usize = 1000;

/// Looks after the registry.
pub(crate) struct AccountJobs {
    /// Of whom.
    pub(crate) registry: Arc<dyn Registry>,
    /// Where it is noted which keys were used.
    pub(crate) used_keys: Arc<UsedKeys>,
    /// Accounts that are being erased.
    pub(crate) erasures: Erasures,
    /// The time.
    pub(crate) clock: Clock,
    /// Whether this process also deletes what is over.
    pub(crate) tidies: bool,
}

impl AccountJobs {
    /// Works until told to stop, and then writes down the last ones.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut rounds = tokio::time::interval(NOTE);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for round in 0_u32.. {
            let stopping = tokio::select! {
                _ = rounds.tick() => false,
                _ = stop.wait_for(|stop| *stop) => true,
            };
            // What is not written down now is noted again when the key is used again.
            if let Err(error) = self.note_used().await {
                tracing::warn!(%error, "when keys were used could not be written down");
            }
            if stopping {
                return;
            }
            if self.tidies && round % ROUNDS == 0 {
                tokio::select! {
                    () = self.look_after() => {}
                    // An erasure may take long, and can be finished at the next start.
                    _ = stop.wait_for(|stop| *stop) => {}
                }
            }
        }
    }

    async fn note_used(&self) -> Result<(), RegistryError> {
        let used = self.used_keys.take();
        if used.is_empty() { Ok(()) } else { self.registry.touch_keys(&used).await }
    }

    async fn look_after(&self) {
        if let Err(error) = self.prune().await {
            tracing::warn!(%error, "what is over could not be deleted from the registry; trying \
                again later");
        }
        match self.erasures.finish().await {
            Ok(0) => {}
            Ok(finished) => tracing::info!(finished, "finished erasing accounts"),
            Err(error) => {
                tracing::warn!(%error, "an account could not be erased; trying again later");
            }
        }
    }

    async fn prune(&self) -> Result<(), RegistryError> {
        while self.registry.prune(self.clock.now(), KEEP, BATCH).await? >= BATCH as u64 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}
