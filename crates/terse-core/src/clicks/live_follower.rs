//! Shows the clicks of all nodes to the watchers of a link.
//!
//! A node publishes its own clicks from memory ([`LiveFeed::publish`]). Where several nodes share a
//! store of clicks, it also reads the latest stored clicks of the links that are watched here, and
//! publishes those that it has not shown. It reads nothing while no link is watched.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::click::LinkId;
use super::live::LiveFeed;
use super::report::{ClickReports, RawQuery};
use crate::clock::Clock;
use crate::store::StoreError;
use crate::time::Timestamp;

/// Clicks that are stored later than this are not shown. Longer than `clicks.flush` and the polls
/// of many links together.
const WINDOW: Duration = Duration::from_secs(30);
/// The most links that one poll reads. The next poll reads the others.
const LINKS: usize = 50;
/// The most clicks per link and poll. Of a busier link, some are left out.
const CLICKS: usize = 5_000;
const PAGE: usize = 1_000;

/// Reads the stored clicks of watched links.
pub struct LiveFollower {
    live: Arc<LiveFeed>,
    clicks: Arc<dyn ClickReports>,
    clock: Clock,
    /// Since when each link is watched.
    since: HashMap<LinkId, Timestamp>,
    last_poll: Timestamp,
    /// Where the next poll begins among the watched links.
    next: usize,
}

impl LiveFollower {
    /// Follows the clicks of all nodes for the watchers of `live`.
    pub fn new(live: Arc<LiveFeed>, clicks: Arc<dyn ClickReports>, clock: Clock) -> Self {
        live.remember();
        let last_poll = clock.now();
        Self { live, clicks, clock, since: HashMap::new(), last_poll, next: 0 }
    }

    /// Shows what was stored since the last poll.
    pub async fn poll(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let from = now.saturating_sub(WINDOW);
        let mut links = self.live.watched();
        links.sort_unstable();
        // A viewer who came since the last poll sees the clicks since that poll.
        let (before, last) = (std::mem::take(&mut self.since), self.last_poll);
        self.since = links
            .iter()
            .map(|link| (link.clone(), before.get(link).copied().unwrap_or(last)))
            .collect();
        self.last_poll = now;
        self.live.forget_shown(from);
        let asked = links.len().min(LINKS);
        for _ in 0..asked {
            // First, so that a link that cannot be read does not keep the others waiting.
            let link = &links[self.next % links.len()];
            self.next = (self.next + 1) % links.len();
            let from = self.since[link].max(from);
            self.show(link, from).await?;
        }
        Ok(())
    }

    async fn show(&self, link: &LinkId, from: Timestamp) -> Result<(), StoreError> {
        let (mut stored, mut after) = (Vec::new(), None);
        while stored.len() < CLICKS {
            let (link, from) = (link.clone(), Some(from));
            let query = RawQuery { link, from, to: None, after, limit: PAGE };
            let page = self.clicks.clicks(&query).await?;
            stored.extend(page.clicks);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.live.publish_stored(link, &stored);
        Ok(())
    }
}
