//! Fetches the titles of targets, for links that were created without one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::{BoxError, HttpClient, LinkKey, Links, RequestLimits, Target, Title};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::outgoing_counts::OutgoingCounts;
use crate::page_title::title_of;

/// The largest number of pages that are fetched at once.
pub const MAX_PAGES: usize = 2;

/// The largest number of queued links, to bound memory.
const WAITING: usize = 1024;
/// How long the job waits for work before the scheduler starts it again.
const IDLE_INTERVAL: Duration = Duration::from_hours(1);

/// A link without a title.
pub struct UntitledLink {
    pub(crate) key: LinkKey,
    pub(crate) target: Target,
}

/// The job: reads pages for their titles, a few at a time. Links that wait when the process ends
/// stay without a title.
pub struct TitleFetcher {
    waiting: mpsc::Receiver<UntitledLink>,
    next: Option<UntitledLink>,
    links: Arc<Links>,
    client: Arc<dyn HttpClient>,
    counts: Arc<OutgoingCounts>,
}

impl TitleFetcher {
    /// The queue of links without a title, from the listener to this job.
    pub fn queue() -> (mpsc::Sender<UntitledLink>, mpsc::Receiver<UntitledLink>) {
        mpsc::channel(WAITING)
    }

    /// Reads pages for the links that wait.
    pub fn new(
        waiting: mpsc::Receiver<UntitledLink>,
        links: Arc<Links>,
        client: Arc<dyn HttpClient>,
        counts: Arc<OutgoingCounts>,
    ) -> Self {
        Self { waiting, next: None, links, client, counts }
    }
}

#[async_trait]
impl Job for TitleFetcher {
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

    async fn run(&mut self, _context: &JobContext) -> Result<NextRun, BoxError> {
        let mut reading = JoinSet::new();
        while let Some(untitled) = self.next.take().or_else(|| self.waiting.try_recv().ok()) {
            if reading.len() >= MAX_PAGES {
                reading.join_next().await;
            }
            let (links, client) = (Arc::clone(&self.links), Arc::clone(&self.client));
            let counts = Arc::clone(&self.counts);
            reading.spawn(async move {
                let counter = match set_fetched_title(&links, &*client, untitled).await {
                    true => &counts.titles,
                    false => &counts.untitled,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            });
        }
        while reading.join_next().await.is_some() {}
        Ok(NextRun::Interval)
    }
}

/// Reads a page and gives its title to the link. `false` if the link got none.
async fn set_fetched_title(links: &Links, client: &dyn HttpClient, untitled: UntitledLink) -> bool {
    let UntitledLink { key, target } = untitled;
    let fetched = match client.get(target.as_str(), RequestLimits::PAGE).await {
        Ok(fetched) => fetched,
        Err(error) => {
            tracing::debug!(why = error.kind(), "a page was not read for its title");
            return false;
        }
    };
    let title = title_of(&fetched).and_then(|title| Title::parse(&title).ok().flatten());
    match title {
        Some(title) => match links.set_fetched_title(&key, &target, title).await {
            Ok(link) => link.is_some(),
            Err(error) => {
                tracing::warn!(%error, "a fetched title could not be saved");
                false
            }
        },
        None => false,
    }
}
