//! The job that purges the CDN, against stores in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::job::{Job as _, JobContext};
use terse_core::registry::{JobLease as _, NodeId};
use terse_core::{
    ChangeFeed as _, Clock, EdgeCache, LinkKey, LinkStore as _, OwnerTags, Purge, PurgeError,
};
use terse_testkit::{MemoryRegistry, MemoryStore, key};

use super::job::{CdnCounts, CdnPurge, CdnPurgeParts};

#[derive(Default)]
struct Edge {
    away: AtomicBool,
    purged: Mutex<Vec<Purge>>,
}

#[async_trait]
impl EdgeCache for Edge {
    fn max_links(&self) -> usize {
        2
    }

    async fn purge(&self, what: &Purge) -> Result<(), PurgeError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(PurgeError::Refused { status: 500, retry_after: None });
        }
        self.purged.lock().unwrap().push(what.clone());
        Ok(())
    }
}

impl Edge {
    /// The links that were purged since the last call, in order; `None` for everything.
    fn links(&self) -> Vec<Option<LinkKey>> {
        let purges = std::mem::take(&mut *self.purged.lock().unwrap());
        let mut links: Vec<_> = purges
            .into_iter()
            .flat_map(|purge| match purge {
                Purge::Links(links) => {
                    assert!(links.len() <= 2);
                    links.into_iter().map(Some).collect()
                }
                Purge::Owners(_) | Purge::Everything => vec![None],
            })
            .collect();
        links.sort();
        links
    }
}

struct Fixture {
    store: Arc<MemoryStore>,
    registry: Arc<MemoryRegistry>,
    edge: Arc<Edge>,
    clock: Clock,
    counts: Arc<CdnCounts>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            store: Arc::new(MemoryStore::new()),
            registry: Arc::new(MemoryRegistry::new()),
            edge: Arc::default(),
            clock: Clock::default(),
            counts: Arc::default(),
        }
    }

    /// The job in a process that takes the lease.
    async fn process(&self) -> (CdnPurge, JobContext) {
        let (node, ttl) = (NodeId::parse("a").unwrap(), Duration::from_secs(30));
        let lease = self.registry.acquire_lease("jobs", &node, ttl).await.unwrap().unwrap();
        let job = CdnPurge::new(CdnPurgeParts {
            feed: self.store.clone(),
            registry: self.registry.clone(),
            progress: self.registry.clone(),
            cdn: self.edge.clone(),
            name: "cdn purge",
            owner_tags: OwnerTags::of(self.store.identity()),
            ttl: Duration::from_secs(300),
            clock: self.clock.clone(),
            counts: self.counts.clone(),
        });
        (job, JobContext::leased(self.registry.clone(), lease.token))
    }
}

#[tokio::test]
async fn each_change_is_purged_at_once_and_when_all_nodes_know_of_it() {
    let at = Fixture::new();
    let (mut job, context) = at.process().await;
    job.run(&context).await.unwrap();
    let keys = ["a", "b", "c"].map(|code| key(&format!("link-{code}")));
    for key in &keys {
        at.store.announce(key).await.unwrap();
    }
    let all: Vec<_> = keys.iter().cloned().map(Some).collect();
    job.run(&context).await.unwrap();
    assert_eq!(at.edge.links(), all);
    job.run(&context).await.unwrap();
    assert_eq!(at.edge.links(), [], "it waits for the nodes");
    at.clock.advance(Duration::from_secs(8));
    job.run(&context).await.unwrap();
    assert_eq!(at.edge.links(), all);
    at.clock.advance(Duration::from_secs(60));
    job.run(&context).await.unwrap();
    assert_eq!(at.edge.links(), []);
    assert_eq!(at.counts.links.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn the_next_process_purges_what_the_last_one_did_not() {
    let at = Fixture::new();
    let (mut first, context) = at.process().await;
    first.run(&context).await.unwrap();
    at.edge.away.store(true, Ordering::SeqCst);
    at.store.announce(&key("link-a")).await.unwrap();
    assert!(first.run(&context).await.is_err());
    drop(first);
    at.edge.away.store(false, Ordering::SeqCst);
    let (mut second, context) = at.process().await;
    second.run(&context).await.unwrap();
    assert_eq!(at.edge.links(), [Some(key("link-a"))]);
    // After a long time change rows may be gone.
    at.clock.advance(Duration::from_secs(3600));
    let (mut third, context) = at.process().await;
    third.run(&context).await.unwrap();
    assert_eq!(at.edge.links(), [None]);
}

#[tokio::test]
async fn a_process_that_lost_the_lease_purges_nothing_more() {
    let at = Fixture::new();
    let (mut first, context) = at.process().await;
    first.run(&context).await.unwrap();
    let (_second, _) = at.process().await;
    at.store.announce(&key("link-a")).await.unwrap();
    assert!(first.run(&context).await.is_err());
    assert_eq!(at.edge.links(), []);
}

#[tokio::test]
async fn a_cdn_that_is_away_for_longer_than_its_time_to_live_has_nothing_to_forget() {
    let at = Fixture::new();
    let (mut job, context) = at.process().await;
    job.run(&context).await.unwrap();
    at.edge.away.store(true, Ordering::SeqCst);
    at.store.announce(&key("link-a")).await.unwrap();
    assert!(job.run(&context).await.is_err());
    at.clock.advance(Duration::from_secs(308));
    job.run(&context).await.unwrap();
    assert_eq!(at.counts.given_up.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn more_changes_than_can_wait_are_a_purge_of_everything() {
    let at = Fixture::new();
    let (mut job, context) = at.process().await;
    job.run(&context).await.unwrap();
    at.edge.away.store(true, Ordering::SeqCst);
    for n in 0..20_001 {
        at.store.announce(&key(&format!("link-{n}"))).await.unwrap();
    }
    for _ in 0..2 {
        assert!(job.run(&context).await.is_err());
    }
    at.edge.away.store(false, Ordering::SeqCst);
    job.run(&context).await.unwrap();
    assert!(at.edge.links().contains(&None));
}
