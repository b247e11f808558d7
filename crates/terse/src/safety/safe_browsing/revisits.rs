//! Links that could not be screened when they were made, or when the lists changed: the job asks the
//! server and screens them again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::{BoxError, LinkKey, Links, Target};
use terse_worker::{Context, Job, Next};
use tokio::sync::mpsc;

use super::{MAX_ASKED, POLL_INTERVAL, Service};

/// How often the server is asked about the same links. What is left then is found by the next
/// re-scan.
const ATTEMPTS: u32 = 6;

/// How long the job waits for work before it is scheduled anew.
const IDLE_INTERVAL: Duration = Duration::from_hours(1);

/// The server may want to be left alone for an hour before each attempt.
const MAX_RUN: Duration = Duration::from_hours(8);

/// A link to screen again.
pub(crate) struct Revisit {
    pub(crate) key: LinkKey,
    pub(crate) target: Target,
}

/// Asks the server about links that could not be screened, and screens them again.
pub(super) struct Revisits {
    service: Arc<Service>,
    links: Arc<Links>,
    waiting: mpsc::Receiver<Revisit>,
    batch: Vec<Revisit>,
}

impl Revisits {
    pub(super) fn new(
        service: Arc<Service>,
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

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        let (service, count) = (&self.service, self.batch.len() as u64);
        if count == 0 {
            return Ok(Next::Interval);
        }
        let answered = service.ask_about(&self.batch).await;
        let counter = if answered { &service.counts.revisited } else { &service.counts.given_up };
        counter.fetch_add(count, Ordering::Relaxed);
        while let Some(Revisit { key, .. }) = self.batch.pop() {
            if let Err(error) = self.links.rejudge(&key).await {
                tracing::warn!(%error, "a link could not be screened again; the next re-scan does");
            }
        }
        Ok(Next::Interval)
    }
}

impl Service {
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
