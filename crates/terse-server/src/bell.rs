//! Rung when the registry was changed in a way that visitors should feel.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long whoever rings waits to be heard. If it takes longer, the change is found at the next look all the same.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many may be waiting to be heard.
const WAITING: usize = 64;

/// The bell of whoever looks into the registry for those who answer visitors: suspended owners, blocked hosts, short domains.
#[derive(Clone, Debug, Default)]
pub struct Bell(Option<mpsc::Sender<oneshot::Sender<()>>>);

/// Where the bell is heard.
#[derive(Debug)]
pub struct BellTower(mpsc::Receiver<oneshot::Sender<()>>);

/// To be dropped when what the bell was rung for has been read and is in force.
#[derive(Debug, Default)]
pub struct Rung(#[allow(dead_code, reason = "dropping it is the answer")] Vec<oneshot::Sender<()>>);

impl Bell {
    /// A bell, and where it is heard. The default is one that nobody hears.
    pub fn new() -> (Self, BellTower) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(Some(sender)), BellTower(receiver))
    }

    /// Has the registry read again, and returns when what it says is in force on this node.
    pub async fn ring(&self) {
        let Some(sender) = &self.0 else { return };
        let heard = async {
            let (done, over) = oneshot::channel();
            if sender.send(done).await.is_ok() {
                // Dropped rather than sent: either way it is over.
                let _ = over.await;
            }
        };
        if timeout(PATIENCE, heard).await.is_err() {
            tracing::warn!("a change of the registry is not in force yet; it will be at the next look");
        }
    }
}

impl BellTower {
    /// Waits until somebody rings. Everyone who is waiting by then is heard at once. Never returns if nobody can ring any more.
    pub async fn rung(&mut self) -> Rung {
        match self.0.recv().await {
            Some(first) => {
                let mut all = vec![first];
                while let Ok(next) = self.0.try_recv() {
                    all.push(next);
                }
                Rung(all)
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
        let (bell, mut tower) = Bell::new();
        let ringing = tokio::spawn({
            let bell = bell.clone();
            async move { bell.ring().await }
        });
        let rung = tower.rung().await;
        assert!(!ringing.is_finished());
        drop(rung);
        ringing.await.unwrap();
        bell.ring().await; // Nobody answers.
        Bell::default().ring().await;
    }
}
