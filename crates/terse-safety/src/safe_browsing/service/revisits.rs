//! Scans links again that could not be scanned when they were created or when the lists changed:
//! the job asks the server first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, LinkKey, Links, Target};
use tokio::sync::mpsc;

use super::{MAX_ASKED, POLL_INTERVAL, SafeBrowsingService};

/// The largest number of requests about the same links. The next re-scan screens the rest.
const ATTEMPTS: u32 = 6;

/// How long the job waits for work before the scheduler starts it again.
const IDLE_INTERVAL: Duration = Duration::from_hours(1);

/// Each attempt may have to wait an hour for the pause after failures to end.
const MAX_RUN: Duration = Duration::from_hours(8);

/// A link to screen again.
pub(crate) struct Revisit {
    pub(crate) key: LinkKey,
    pub(crate) target: Target,
}

/// Asks the server about links that could not be scanned, and scans them again.
pub(super) struct Revisits {
    service: Arc<SafeBrowsingService>,
    links: Arc<Links>,
    waiting: mpsc::Receiver<Revisit>,
    batch: Vec<Revisit>,
}

impl Revisits {
    pub(super) fn new(
        service: Arc<SafeBrowsingService>,
        links: Arc<Links>,
        waiting: mpsc::Receiver<Revisit>,
    ) -> Self {
        Self { service, links, waiting, batch: Vec::new() }
    }
}

#[async_trait]
impl Job for Revisits {
    fn name(&self) -> &'static str {
        "Safe Browsing revisits"
    }

    fn interval(&self) -> Duration {
        IDLE_INTERVAL
    }

    fn timeout(&self) -> Duration {
        MAX_RUN
    }

    async fn wake(&mut self) {
        // The service holds a sender, so the channel stays open.
        self.waiting.recv_many(&mut self.batch, MAX_ASKED).await;
    }

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        let (service, count) = (&self.service, self.batch.len() as u64);
        if count == 0 {
            return Ok(NextRun::Interval);
        }
        let answered = service.ask_about(&self.batch).await;
        let counter = if answered { &service.counts.revisited } else { &service.counts.given_up };
        counter.fetch_add(count, Ordering::Relaxed);
        while let Some(Revisit { key, .. }) = self.batch.pop() {
            if let Err(error) = self.links.rescreen(&key).await {
                tracing::warn!(%error, "a link could not be scanned again; the next re-scan does");
            }
        }
        Ok(NextRun::Interval)
    }
}

impl SafeBrowsingService {
    /// Asks until the server has answered for all links, or the attempts are used up.
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
            // If this process was too busy to send, there is no pause.
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        false
    }
}
