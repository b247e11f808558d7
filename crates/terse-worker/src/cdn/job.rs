//! The job that removes changed links from the edges of the CDN.
//!
//! It follows the change rows of the store, so a process that ends between a change and its purge
//! loses nothing: the next holder of the lease purges all recent changes again. It purges each link
//! twice. The second purge comes when every node has learned of the change, because until then an
//! edge may fetch the old answer again.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use terse_core::job::{Job, JobContext, NextRun};
use terse_core::registry::{
    FencingToken, JobProgress, RegistrySnapshot, RegistrySnapshots, RegistryVersion,
};
use terse_core::{
    BoxError, CHANGES_KEPT, ChangeCursor, ChangeFeed, Clock, EdgeCache, LinkKey, OwnerId,
    OwnerTags, Purge, PurgeError, StoreError,
};

/// How often the job reads new change rows.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Every node that reaches the store applies a change within five seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(7);
/// How many change rows the job reads at a time, and how many pages in one run.
const PAGE: usize = 1000;
const MAX_PAGES: usize = 20;
/// The longest wait that a CDN can ask for: changes and blocks must reach its edges.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);
/// With more links than this, the job purges everything instead.
const MAX_WAITING: usize = 20_000;
/// How often the job writes how far it has come.
const SAVE_INTERVAL: Duration = Duration::from_secs(30);
/// A job that was away for longer may have missed changes. Leaves time for clocks that differ.
const MAX_AWAY: Duration = CHANGES_KEPT.saturating_sub(Duration::from_secs(120));

/// Counters of purges.
#[derive(Debug, Default)]
pub struct CdnCounts {
    /// Links that were purged; each change counts twice.
    pub links: AtomicU64,
    /// Purges of everything, or of all links of owners.
    pub wide: AtomicU64,
    /// Purges that failed.
    pub failed: AtomicU64,
    /// Purges that were given up, because the edges' time to live was over.
    pub given_up: AtomicU64,
}

/// What the job needs.
pub struct CdnPurgeParts {
    /// The changes of links.
    pub feed: Arc<dyn ChangeFeed>,
    /// Suspended owners and blocked hosts.
    pub registry: Arc<dyn RegistrySnapshots>,
    /// The job's progress.
    pub progress: Arc<dyn JobProgress>,
    /// The CDN.
    pub cdn: Arc<dyn EdgeCache>,
    /// The name of this job, and of its progress in the registry. Several caches have a job each.
    pub name: &'static str,
    /// The tags of owners.
    pub owner_tags: OwnerTags,
    /// How long edges keep an answer.
    pub ttl: Duration,
    /// The time.
    pub clock: Clock,
    /// The counters.
    pub counts: Arc<CdnCounts>,
}

/// What waits to be purged.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Item {
    Link(LinkKey),
    Owner(OwnerId),
    Everything,
}

/// When an item is purged.
#[derive(Clone, Copy)]
struct Waiting {
    /// When the job learned of it, by the wall clock.
    since_ms: i64,
    /// Whether the first purge is done.
    purged: bool,
    /// From then on it is purged for the last time, by the steady clock.
    last_at: Duration,
}

/// How far the job has come, in the registry.
#[derive(Deserialize, PartialEq, Serialize)]
struct Progress {
    /// All changes before this were purged, in milliseconds since 1970.
    purged_to: i64,
    /// The suspended owners and blocked hosts that edges know of.
    registry: u64,
}

/// What this node has read under its lease.
struct Following {
    token: FencingToken,
    cursor: ChangeCursor,
    version: Option<RegistryVersion>,
    suspended: HashSet<OwnerId>,
    blocked_hosts: u64,
    /// The digest of suspended owners and blocked hosts.
    registry: u64,
    saved_at: Option<Duration>,
    saved_registry: u64,
}

/// Removes changed links from the CDN. Runs under the lease.
pub struct CdnPurge {
    parts: CdnPurgeParts,
    following: Option<Following>,
    waiting: HashMap<Item, Waiting>,
}

impl CdnPurge {
    /// The job.
    pub fn new(parts: CdnPurgeParts) -> Self {
        Self { parts, following: None, waiting: HashMap::new() }
    }

    fn add(&mut self, item: Item) {
        let clock = &self.parts.clock;
        let (since_ms, last_at) = (clock.now().as_ms(), clock.steady() + SETTLED_AFTER);
        if self.waiting.len() >= MAX_WAITING && item != Item::Everything {
            tracing::warn!(
                links = self.waiting.len(),
                "too many links wait for the CDN: everything is purged"
            );
            let oldest = self.waiting.values().map(|waiting| waiting.since_ms).min();
            self.waiting.clear();
            let since_ms = oldest.unwrap_or(since_ms);
            self.waiting.insert(Item::Everything, Waiting { since_ms, purged: false, last_at });
            return;
        }
        // Another change of the same link: both purges again, and the time of the first change.
        let entry =
            self.waiting.entry(item).or_insert(Waiting { since_ms, purged: false, last_at });
        (entry.purged, entry.last_at) = (false, last_at);
    }

    /// Continues where the last holder of the lease stopped.
    async fn begin(&mut self, token: FencingToken) -> Result<(), BoxError> {
        self.waiting.clear();
        let CdnPurgeParts { feed, registry, clock, name, .. } = &self.parts;
        let progress = self.parts.progress.job_progress(name).await?;
        let progress: Option<Progress> =
            progress.and_then(|progress| serde_json::from_slice(&progress).ok());
        let cursor = feed.last_change().await?;
        let now = clock.now().as_ms();
        let max_away = i64::try_from(MAX_AWAY.as_millis()).unwrap_or(i64::MAX);
        let recent = match &progress {
            // Nothing was purged before, or not for too long.
            Some(progress) if now.saturating_sub(progress.purged_to) > max_away => None,
            _ => feed.recent_changes(CHANGES_KEPT, MAX_WAITING).await?,
        };
        let snapshot = registry.snapshot().await?;
        let (blocked_hosts, digest) = digests(&snapshot);
        let known = progress.as_ref().map(|progress| progress.registry);
        match recent {
            Some(changes) if known.is_none_or(|known| known == digest) => {
                changes.into_iter().for_each(|change| self.add(Item::Link(change.key)));
            }
            _ => self.add(Item::Everything),
        }
        self.following = Some(Following {
            token,
            cursor,
            version: Some(snapshot.version),
            suspended: snapshot.suspended.into_iter().collect(),
            blocked_hosts,
            registry: digest,
            saved_at: None,
            saved_registry: known.unwrap_or_default(),
        });
        Ok(())
    }

    /// Reads new changes of links.
    async fn read_changes(&mut self) -> Result<(), StoreError> {
        for _ in 0..MAX_PAGES {
            let Some(following) = &mut self.following else { return Ok(()) };
            let page = self.parts.feed.changes(following.cursor, PAGE).await?;
            let more = page.changes.len() >= PAGE && page.next != following.cursor;
            following.cursor = page.next;
            if page.gap {
                self.add(Item::Everything);
            }
            page.changes.into_iter().for_each(|change| self.add(Item::Link(change.key)));
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Compares suspended owners and blocked hosts with those that edges know of. They change links
    /// without a change row.
    async fn read_registry(&mut self) -> Result<(), BoxError> {
        let Some(following) = &mut self.following else { return Ok(()) };
        let version = self.parts.registry.version().await?;
        if following.version == Some(version) {
            return Ok(());
        }
        let snapshot = self.parts.registry.snapshot().await?;
        let (blocked_hosts, digest) = digests(&snapshot);
        let suspended: HashSet<OwnerId> = snapshot.suspended.iter().copied().collect();
        let changed: Vec<OwnerId> =
            following.suspended.symmetric_difference(&suspended).copied().collect();
        let hosts_changed = following.blocked_hosts != blocked_hosts;
        following.version = Some(snapshot.version);
        following.registry = digest;
        (following.suspended, following.blocked_hosts) = (suspended, blocked_hosts);
        changed.into_iter().for_each(|owner| self.add(Item::Owner(owner)));
        if hosts_changed {
            self.add(Item::Everything);
        }
        Ok(())
    }

    /// The next purge that is due, with the items that it contains.
    fn next(&self) -> Option<(Purge, Vec<Item>)> {
        let now = self.parts.clock.steady();
        let is_due = |waiting: &Waiting| !waiting.purged || waiting.last_at <= now;
        let due =
            || self.waiting.iter().filter(|(_, waiting)| is_due(waiting)).map(|(item, _)| item);
        if due().any(|item| *item == Item::Everything) {
            // It includes every other item that is due.
            return Some((Purge::Everything, due().cloned().collect()));
        }
        let items = |wanted: fn(&Item) -> bool, most: usize| -> Vec<Item> {
            due().filter(|item| wanted(item)).take(most).cloned().collect()
        };
        let owners = items(|item| matches!(item, Item::Owner(_)), PAGE);
        if !owners.is_empty() {
            let tags = owners.iter().filter_map(|item| match item {
                Item::Owner(owner) => Some(self.parts.owner_tags.tag(*owner)),
                _ => None,
            });
            return Some((Purge::Owners(tags.collect()), owners));
        }
        let links = items(|item| matches!(item, Item::Link(_)), self.parts.cdn.max_links().max(1));
        let keys: Vec<LinkKey> = links
            .iter()
            .filter_map(|item| match item {
                Item::Link(key) => Some(key.clone()),
                _ => None,
            })
            .collect();
        (!keys.is_empty()).then_some((Purge::Links(keys), links))
    }

    /// Purges what is due, until the CDN refuses.
    async fn purge(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        self.give_up_old();
        while let Some((what, items)) = self.next() {
            context.check_lease().await?;
            let begun = self.parts.clock.steady();
            match self.parts.cdn.purge(&what).await {
                Ok(()) => {}
                Err(error) => {
                    self.parts.counts.failed.fetch_add(1, Ordering::Relaxed);
                    return match error {
                        PurgeError::Refused { status: 429 | 503, retry_after: Some(after) } => {
                            tracing::warn!(?after, "the CDN accepts no purges for a while");
                            Ok(NextRun::After(after.min(MAX_RETRY_AFTER)))
                        }
                        error => Err(error.into()),
                    };
                }
            }
            let counts = &self.parts.counts;
            match &what {
                Purge::Links(links) => {
                    counts.links.fetch_add(links.len() as u64, Ordering::Relaxed);
                }
                Purge::Owners(_) | Purge::Everything => {
                    counts.wide.fetch_add(1, Ordering::Relaxed);
                }
            }
            for item in items {
                if let Some(waiting) = self.waiting.get_mut(&item) {
                    waiting.purged = true;
                    // What was due for the last time is done.
                    if waiting.last_at <= begun {
                        self.waiting.remove(&item);
                    }
                }
            }
        }
        Ok(NextRun::Interval)
    }

    /// Edges have forgotten by themselves what nodes answered before the end of the wait.
    fn give_up_old(&mut self) {
        let (now, ttl) = (self.parts.clock.steady(), self.parts.ttl);
        let before = self.waiting.len();
        self.waiting.retain(|_, waiting| now < waiting.last_at.saturating_add(ttl));
        let given_up = (before - self.waiting.len()) as u64;
        if given_up > 0 {
            self.parts.counts.given_up.fetch_add(given_up, Ordering::Relaxed);
            tracing::warn!(
                given_up,
                "the CDN could not be purged before its answers were outdated"
            );
        }
    }

    async fn save(&mut self) -> Result<(), BoxError> {
        let Some(following) = &mut self.following else { return Ok(()) };
        let (steady, wall) = (self.parts.clock.steady(), self.parts.clock.now().as_ms());
        let waits_for_registry =
            self.waiting.keys().any(|item| matches!(item, Item::Owner(_) | Item::Everything));
        // The digest is written when the purges that it stands for are done.
        let registry =
            if waits_for_registry { following.saved_registry } else { following.registry };
        let is_due = following.saved_at.is_none_or(|at| steady >= at + SAVE_INTERVAL);
        if !is_due && registry == following.saved_registry {
            return Ok(());
        }
        let oldest = self.waiting.values().map(|waiting| waiting.since_ms).min();
        let progress = Progress { purged_to: oldest.unwrap_or(wall), registry };
        let bytes = serde_json::to_vec(&progress)?;
        self.parts.progress.put_job_progress(following.token, self.parts.name, &bytes).await?;
        (following.saved_at, following.saved_registry) = (Some(steady), registry);
        Ok(())
    }
}

#[async_trait]
impl Job for CdnPurge {
    fn name(&self) -> &'static str {
        self.parts.name
    }

    fn interval(&self) -> Duration {
        POLL_INTERVAL
    }

    fn needs_lease(&self) -> bool {
        true
    }

    fn timeout(&self) -> Duration {
        Duration::from_mins(2)
    }

    async fn run(&mut self, context: &JobContext) -> Result<NextRun, BoxError> {
        let token = context.token().ok_or("the job needs the lease")?;
        // Another node may have purged since this node held the lease last.
        if self.following.as_ref().is_none_or(|following| following.token != token) {
            self.following = None;
            self.begin(token).await?;
        }
        self.read_changes().await?;
        self.read_registry().await?;
        let next = self.purge(context).await?;
        self.save().await?;
        Ok(next)
    }
}

/// Digests of the blocked hosts, and of these with the suspended owners. The same in every process
/// of one version; another version purges everything once.
fn digests(snapshot: &RegistrySnapshot) -> (u64, u64) {
    let mut hasher = DefaultHasher::new();
    snapshot
        .blocked_hosts
        .iter()
        .for_each(|blocked| format!("{:?}", blocked.host).hash(&mut hasher));
    let hosts = hasher.finish();
    snapshot.suspended.hash(&mut hasher);
    (hosts, hasher.finish())
}
