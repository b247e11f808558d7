//! Asks the registry watcher to read the registry now, after a change that affects visitors.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::accounts::RefreshHook;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long a caller waits for the watcher. After that, the watcher finds the change at its next
/// poll.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The largest number of requests that wait for the watcher.
const WAITING: usize = 64;

/// The sending end: requests that the watcher apply suspended owners, blocked hosts and short
/// domains to the redirect plane.
#[derive(Clone, Debug)]
pub struct RegistryRefresh(mpsc::Sender<oneshot::Sender<()>>);

/// The receiving end, which the watcher holds.
#[derive(Debug)]
pub struct RefreshReceiver(mpsc::Receiver<oneshot::Sender<()>>);

/// Callers that wait. The watcher drops this once it has read the registry and applied the changes.
#[derive(Debug, Default)]
pub(crate) struct PendingRefreshes(
    #[allow(dead_code, reason = "dropping it is the answer")] Vec<oneshot::Sender<()>>,
);

impl RegistryRefresh {
    /// Makes both ends.
    pub fn new() -> (Self, RefreshReceiver) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), RefreshReceiver(receiver))
    }
}

#[async_trait]
impl RefreshHook for RegistryRefresh {
    async fn refresh(&self) {
        let heard = async {
            let (done, over) = oneshot::channel();
            if self.0.send(done).await.is_ok() {
                // The watcher drops the sender instead of sending; either way the wait is over.
                let _ = over.await;
            }
        };
        if timeout(TIMEOUT, heard).await.is_err() {
            tracing::warn!(
                "the registry watcher has not applied a change yet; it will at its next poll"
            );
        }
    }
}

impl RefreshReceiver {
    /// Waits for a request and takes all that are queued by then. Never returns if every sender is
    /// dropped.
    pub(crate) async fn requested(&mut self) -> PendingRefreshes {
        match self.0.recv().await {
            Some(first) => {
                let mut all = vec![first];
                while let Ok(next) = self.0.try_recv() {
                    all.push(next);
                }
                PendingRefreshes(all)
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refresh_is_awaited_with_a_timeout() {
        let (registry_refresh, mut receiver) = RegistryRefresh::new();
        let ringing = tokio::spawn({
            let registry_refresh = registry_refresh.clone();
            async move { registry_refresh.refresh().await }
        });
        let requested = receiver.requested().await;
        assert!(!ringing.is_finished());
        drop(requested);
        ringing.await.unwrap();
        registry_refresh.refresh().await; // No receiver answers.
    }
}
