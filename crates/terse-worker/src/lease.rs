//! The lease that decides which node runs the jobs of the fleet.

use std::sync::Arc;
use std::time::Duration;

use terse_core::registry::{FencingToken, JobLease, NodeId, RegistryError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The lease's name in the registry.
const LEASE: &str = "jobs";
/// How long the registry keeps the lease for a node that does not renew it. Jobs of a node that
/// died start elsewhere after this time.
const TTL: Duration = Duration::from_secs(30);
/// How often the holder renews the lease, and others try to acquire it.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// How long one call to the registry may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How a lease was lost.
enum Lost {
    /// The registry did not answer in time.
    Late,
    /// Another process has acquired it. The registry grants the lease to a process with the name of
    /// its holder at once, for a node that restarts. Two processes with one name, as in a copied
    /// data folder, would take it from each other all the time: so the one that lost it waits for
    /// as long as the lease lasts.
    Fenced,
}

/// This node's claim to the lease.
pub struct LeaseKeeper {
    leases: Arc<dyn JobLease>,
    node: NodeId,
    held: watch::Sender<Option<FencingToken>>,
}

impl LeaseKeeper {
    /// Acquires leases in the name of this node, once the scheduler starts.
    pub fn new(leases: Arc<dyn JobLease>, node: NodeId) -> Self {
        Self { leases, node, held: watch::Sender::new(None) }
    }

    /// The token while this node holds the lease.
    pub(crate) fn token(&self) -> watch::Receiver<Option<FencingToken>> {
        self.held.subscribe()
    }

    /// Where a job checks its token.
    pub(crate) fn leases(&self) -> Arc<dyn JobLease> {
        Arc::clone(&self.leases)
    }

    /// Acquires and renews the lease until stopped, then releases it. The caller stops it after all
    /// jobs have ended, so that no other node starts a job that still runs here.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.keep() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        let token = self.held.send_replace(None);
        if let Some(token) = token {
            // Without it, the lease ends by itself.
            let _ = timeout(CALL_TIMEOUT, self.leases.release_lease(token)).await;
        }
    }

    async fn keep(&self) {
        loop {
            // Counted from before the call: the registry's clock started no earlier.
            let asked = Instant::now();
            let acquired = self.leases.acquire_lease(LEASE, &self.node, TTL);
            match timeout(CALL_TIMEOUT, acquired).await {
                Ok(Ok(Some(lease))) => {
                    tracing::debug!(node = %self.node, "this node runs the background jobs");
                    self.held.send_replace(Some(lease.token));
                    let lost = self.renew(lease.token, asked + TTL).await;
                    self.held.send_replace(None);
                    match lost {
                        Lost::Late => {
                            tracing::warn!(node = %self.node, "this node lost the lease of the \
                                background jobs");
                        }
                        Lost::Fenced => {
                            tracing::warn!(node = %self.node, "this node lost the lease of the \
                                background jobs to another process; if this happens again and \
                                again, two processes use copies of one data folder");
                            sleep(TTL).await;
                        }
                    }
                    continue;
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the registry did not grant the lease of the background \
                        jobs; trying again");
                }
                Err(_) => tracing::warn!(
                    "the registry took too long to grant the lease of the \
                    background jobs; trying again"
                ),
            }
            sleep(RENEW_INTERVAL).await;
        }
    }

    /// Renews the lease until it is lost.
    async fn renew(&self, token: FencingToken, mut ends: Instant) -> Lost {
        loop {
            sleep(RENEW_INTERVAL).await;
            let asked = Instant::now();
            // A call that takes longer than the lease lasts must not keep jobs running.
            let until = ends.min(asked + CALL_TIMEOUT);
            match timeout_at(until, self.leases.renew_lease(token, TTL)).await {
                Ok(Ok(_)) => ends = asked + TTL,
                Ok(Err(RegistryError::Fenced)) => return Lost::Fenced,
                Ok(Err(error)) => tracing::warn!(%error, "the lease could not be renewed"),
                Err(_) => tracing::warn!("the registry took too long to renew the lease"),
            }
            // The next attempt would come too late.
            if ends.saturating_duration_since(Instant::now()) <= RENEW_INTERVAL {
                return Lost::Late;
            }
        }
    }
}
