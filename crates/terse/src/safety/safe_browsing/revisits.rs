//! Links that could not be judged when they were made, or when the lists changed: the server is
//! asked, and they are judged again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terse_core::{LinkKey, Links, Target};
use tokio::sync::{mpsc, watch};

use super::{MAX_ASKED, POLL_INTERVAL, Service};

/// How often the server is asked about the same links. What is left then is found by the next
/// re-scan.
const ATTEMPTS: u32 = 6;

/// One link.
pub(crate) struct Revisit {
    pub(crate) key: LinkKey,
    pub(crate) target: Target,
}

impl Service {
    /// Judges again whatever comes in, until told to stop.
    pub(super) async fn judge_again(
        self: Arc<Self>,
        links: Arc<Links>,
        mut waiting: mpsc::Receiver<Revisit>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut some = Vec::new();
        loop {
            tokio::select! {
                _ = waiting.recv_many(&mut some, MAX_ASKED) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            tokio::select! {
                answered = self.ask_about(&some) => {
                    let counter = if answered { &self.counts.revisited } else { &self.counts.given_up };
                    counter.fetch_add(some.len() as u64, Ordering::Relaxed);
                }
                _ = stop.wait_for(|stop| *stop) => return,
            }
            for Revisit { key, .. } in some.drain(..) {
                if let Err(error) = links.rejudge(&key).await {
                    tracing::warn!(%error, "a link could not be judged again; the next re-scan \
                        does");
                }
            }
        }
    }

    /// Asks until everything is answered, or often enough.
    async fn ask_about(&self, some: &[Revisit]) -> bool {
        for _ in 0..ATTEMPTS {
            while self.is_quiet() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            let mut wanted: Vec<u32> = some
                .iter()
                .flat_map(|revisit| self.known.unknown_prefixes(&revisit.target))
                .collect();
            wanted.sort_unstable();
            wanted.dedup();
            if wanted.is_empty() || self.ask(&wanted).await {
                return true;
            }
            // Where we were too busy ourselves there is no quiet time.
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        false
    }
}
