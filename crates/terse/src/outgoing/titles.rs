//! The titles of pages that links lead to, for links that were made without one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terse_core::{LinkKey, Links, Target, Title};
use terse_outgoing::{Limits, Outgoing, title_of};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::{OutgoingCounts, PAGES};

/// How many links may wait; a title is not worth more memory.
const WAITING: usize = 1024;

/// A link without a title.
pub(super) struct Untitled {
    pub(super) key: LinkKey,
    pub(super) target: Target,
}

/// Asks pages for their titles, a few at a time. What waits when the process ends stays without
/// one.
pub(super) struct Titles {
    pub(super) queue: mpsc::Sender<Untitled>,
    waiting: mpsc::Receiver<Untitled>,
}

impl Titles {
    pub(super) fn new() -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        Self { queue, waiting }
    }

    pub(super) async fn run(
        self,
        links: Arc<Links>,
        client: Arc<Outgoing>,
        counts: Arc<OutgoingCounts>,
        mut stop: watch::Receiver<bool>,
    ) {
        let Self { queue, mut waiting } = self;
        // Only whoever makes links keeps the queue open.
        drop(queue);
        let mut asking = JoinSet::new();
        loop {
            if asking.len() >= PAGES {
                asking.join_next().await;
            }
            let untitled = tokio::select! {
                untitled = waiting.recv() => untitled,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let Some(untitled) = untitled else { return };
            let (links, client, counts) =
                (Arc::clone(&links), Arc::clone(&client), Arc::clone(&counts));
            asking.spawn(async move {
                let counter = if entitle(&links, &client, untitled).await {
                    &counts.titles
                } else {
                    &counts.untitled
                };
                counter.fetch_add(1, Ordering::Relaxed);
            });
        }
    }
}

/// Whether the link got a title.
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
                tracing::warn!(%error, "a title that was found could not be kept");
                false
            }
        },
        None => false,
    }
}
