//! Fetches the titles of targets, for links that were created without one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::{BoxError, LinkKey, Links, Target, Title};
use terse_outgoing::{Limits, Outgoing, title_of};
use terse_worker::{Context, Job, Next};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{OutgoingCounts, PAGES};

/// The largest number of queued links, to bound memory.
const WAITING: usize = 1024;
/// How long the job waits for work before the scheduler starts it again.
const IDLE_INTERVAL: Duration = Duration::from_hours(1);

/// A link without a title.
pub(super) struct Untitled {
    pub(super) key: LinkKey,
    pub(super) target: Target,
}

/// The job: reads pages for their titles, a few at a time. Links that wait when the process ends
/// stay without a title.
pub(super) struct Titles {
    waiting: mpsc::Receiver<Untitled>,
    next: Option<Untitled>,
    links: Arc<Links>,
    client: Arc<Outgoing>,
    counts: Arc<OutgoingCounts>,
}

/// The queue of links without a title.
pub(super) fn queue() -> (mpsc::Sender<Untitled>, mpsc::Receiver<Untitled>) {
    mpsc::channel(WAITING)
}

impl Titles {
    pub(super) fn new(
        waiting: mpsc::Receiver<Untitled>,
        links: Arc<Links>,
        client: Arc<Outgoing>,
        counts: Arc<OutgoingCounts>,
    ) -> Self {
        Self { waiting, next: None, links, client, counts }
    }
}

#[async_trait]
impl Job for Titles {
    fn name(&self) -> &'static str {
        "titles"
    }

    fn interval(&self) -> Duration {
        IDLE_INTERVAL
    }

    async fn wake(&mut self) {
        match self.waiting.recv().await {
            Some(untitled) => self.next = Some(untitled),
            None => std::future::pending().await,
        }
    }

    async fn run(&mut self, _context: &Context) -> Result<Next, BoxError> {
        let mut reading = JoinSet::new();
        while let Some(untitled) = self.next.take().or_else(|| self.waiting.try_recv().ok()) {
            if reading.len() >= PAGES {
                reading.join_next().await;
            }
            let (links, client) = (Arc::clone(&self.links), Arc::clone(&self.client));
            let counts = Arc::clone(&self.counts);
            reading.spawn(async move {
                let counter = match entitle(&links, &client, untitled).await {
                    true => &counts.titles,
                    false => &counts.untitled,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            });
        }
        while reading.join_next().await.is_some() {}
        Ok(Next::Interval)
    }
}

/// Reads a page and gives its title to the link. `false` if the link got none.
async fn entitle(links: &Links, client: &Outgoing, untitled: Untitled) -> bool {
    let Untitled { key, target } = untitled;
    let fetched = match client.get(target.as_str(), Limits::PAGE).await {
        Ok(fetched) => fetched,
        Err(error) => {
            tracing::debug!(why = error.kind(), "a page was not read for its title");
            return false;
        }
    };
    let title = title_of(&fetched).and_then(|title| Title::parse(&title).ok().flatten());
    match title {
        Some(title) => match links.entitle(&key, &target, title).await {
            Ok(link) => link.is_some(),
            Err(error) => {
                tracing::warn!(%error, "a fetched title could not be saved");
                false
            }
        },
        None => false,
    }
}
