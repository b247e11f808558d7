//! Rung when the registry was changed in a way that visitors should feel.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::accounts::RefreshHook;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long whoever rings waits to be heard. If it takes longer, the change is found at the next
/// look all the same.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How many may be waiting to be heard.
const WAITING: usize = 64;

/// The bell of whoever looks into the registry for those who answer visitors: suspended owners,
/// blocked hosts, short domains.
#[derive(Clone, Debug, Default)]
pub struct RegistryRefresh(Option<mpsc::Sender<oneshot::Sender<()>>>);

/// Where the bell is heard.
#[derive(Debug)]
pub struct RefreshReceiver(mpsc::Receiver<oneshot::Sender<()>>);

/// To be dropped when what the bell was rung for has been read and is in force.
#[derive(Debug, Default)]
pub struct PendingRefreshes(
    #[allow(dead_code, reason = "dropping it is the answer")] Vec<oneshot::Sender<()>>,
);

impl RegistryRefresh {
    /// A bell, and where it is heard. The default is one that nobody hears.
    pub fn new() -> (Self, RefreshReceiver) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(Some(sender)), RefreshReceiver(receiver))
    }
}

#[async_trait]
impl RefreshHook for RegistryRefresh {
    async fn refresh(&self) {
        let Some(sender) = &self.0 else { return };
        let heard = async {
            let (done, over) = oneshot::channel();
            if sender.send(done).await.is_ok() {
                // Dropped rather than sent: either way it is over.
                let _ = over.await;
            }
        };
        if timeout(TIMEOUT, heard).await.is_err() {
            tracing::warn!(
                "a change of the registry is not in force yet; it will be at the next look"
            );
        }
    }
}

impl RefreshReceiver {
    /// Waits until somebody rings. Everyone who is waiting by then is heard at once. Never returns
    /// if nobody can ring any more.
    pub async fn requested(&mut self) -> PendingRefreshes {
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
    async fn whoever_rings_waits_until_it_was_done_and_not_for_ever() {
        let (registry_refresh, mut receiver) = RegistryRefresh::new();
        let ringing = tokio::spawn({
            let registry_refresh = registry_refresh.clone();
            async move { registry_refresh.refresh().await }
        });
        let requested = receiver.requested().await;
        assert!(!ringing.is_finished());
        drop(requested);
        ringing.await.unwrap();
        registry_refresh.refresh().await; // Nobody answers.
        RegistryRefresh::default().refresh().await;
    }
}
