//! Copies of links, with two nodes on one store and one Redis.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use terse_core::{
    ChangeFollower, Clock, Insert, Link, LinkChange, LinkKey, LinkReader as _, LinkStore as _,
    Revision, RouteCache, SharedCache as _, Target,
};
use terse_redis::{AnnouncingRoutes, Redis, RedisLinkOptions, RedisLinks, RedisUrl};
use terse_testkit::{MemoryStore, RedisServer, TcpProxy, alias, generated, key};

use crate::{open, open_with_timeout, until};

#[derive(Default)]
struct Forgotten(Mutex<Vec<LinkKey>>);

impl RouteCache for Forgotten {
    fn forget(&self, key: &LinkKey) {
        self.0.lock().unwrap().push(key.clone());
    }

    fn forget_all(&self) {}
}

pub(crate) struct Node {
    pub(crate) redis: Arc<Redis>,
    pub(crate) links: Arc<RedisLinks>,
    forgotten: Arc<Forgotten>,
    pub(crate) routes: AnnouncingRoutes,
    pub(crate) follower: ChangeFollower,
    pub(crate) heard: Arc<Mutex<Vec<LinkChange>>>,
}

impl Node {
    async fn new(server: &RedisServer, store: &Arc<MemoryStore>, write_through: bool) -> Self {
        Self::with(open_with_timeout(server).await, store, write_through).await
    }

    pub(crate) async fn with(
        redis: Arc<Redis>,
        store: &Arc<MemoryStore>,
        write_through: bool,
    ) -> Self {
        let options = RedisLinkOptions { write_through, ..RedisLinkOptions::default() };
        let links = Arc::new(RedisLinks::new(redis.clone(), store.clone(), options));
        let forgotten = Arc::new(Forgotten::default());
        let heard = Arc::<Mutex<Vec<LinkChange>>>::default();
        let hears = Arc::clone(&heard);
        let on_change =
            Arc::new(move |change: &LinkChange| hears.lock().unwrap().push(change.clone()));
        let routes = AnnouncingRoutes::new(&links, forgotten.clone(), Clock::default(), on_change);
        let mut follower =
            ChangeFollower::new(store.clone(), forgotten.clone()).with_shared(Some(links.clone()));
        follower.poll().await.unwrap();
        until("copies are in use", async || links.is_ready()).await;
        Self { redis, links, forgotten, routes, follower, heard }
    }

    pub(crate) async fn target(&self, link: &Link) -> String {
        self.links.get(&link.key).await.unwrap().unwrap().target.as_str().to_owned()
    }

    /// Reads the link until a copy answers.
    pub(crate) async fn warm(&self, link: &Link) {
        until("a copy answers", async || {
            let before = self.links.counts().hits;
            self.links.get(&link.key).await.unwrap().unwrap();
            self.links.counts().hits > before
        })
        .await;
    }
}

pub(crate) async fn put(store: &MemoryStore, link: &Link) {
    store.insert(Insert::new(link.clone(), None)).await.unwrap();
}

/// Changes the target in the store, as another node would.
pub(crate) async fn change(store: &MemoryStore, link: &Link, revision: u64) -> Link {
    let target = Target::from_stored(format!("https://example.com/{revision}"));
    let new = Link { target, revision: Revision(revision), ..link.clone() };
    store.update(&new, Revision(revision - 1), &[]).await.unwrap();
    new
}

#[tokio::test]
async fn one_nodes_read_warms_the_other() {
    let (server, store) = (RedisServer::start(&[]), Arc::new(MemoryStore::default()));
    let (a, b) = (Node::new(&server, &store, false).await, Node::new(&server, &store, false).await);
    let link = alias("warm", "https://example.com/1");
    put(&store, &link).await;
    a.warm(&link).await;
    let before = b.links.counts();
    assert_eq!(b.links.get(&link.key).await.unwrap(), Some(link.clone()));
    let after = b.links.counts();
    assert_eq!((after.hits, after.misses), (before.hits + 1, before.misses));
    // Missing links are never kept: a link that is created later must be found at once.
    assert_eq!(a.links.get(&key("none")).await.unwrap(), None);
    assert_eq!(server.ask(&["dbsize"]), "1");
    // A copy does not outlive its link.
    assert!(server.ask(&["randomkey"]).ends_with(":warm"));
}

#[tokio::test]
async fn an_older_copy_never_replaces_a_newer_one() {
    let (server, store) = (RedisServer::start(&[]), Arc::new(MemoryStore::default()));
    let mut b = Node::new(&server, &store, false).await;
    let a = Node::new(&server, &store, false).await;
    let link = alias("old", "https://example.com/1");
    put(&store, &link).await;
    a.warm(&link).await;
    // Node a changes the link and announces it; b has heard nothing and follows the feed.
    let new = change(&store, &link, 2).await;
    assert_eq!(b.follower.poll().await.unwrap(), 2, "the alias and its change");
    assert_eq!(b.target(&link).await, "https://example.com/2");
    assert_eq!(a.target(&link).await, "https://example.com/2", "the copy is replaced for all");
    // The tombstone refuses a slow reader's copy, and for a minute any other of its revision.
    let place = server.ask(&["randomkey"]);
    assert!(server.ask(&["getrange", &place, "0", "0"]) == "T");
    a.routes.changed(&new);
    assert_eq!(a.target(&link).await, "https://example.com/2");
    assert!(server.ask(&["getrange", &place, "0", "16"]) == "T0000000000000002");
}

#[tokio::test]
async fn a_change_reaches_the_other_node_by_message() {
    let (server, store) = (RedisServer::start(&[]), Arc::new(MemoryStore::default()));
    let (a, b) = (Node::new(&server, &store, false).await, Node::new(&server, &store, false).await);
    let link = alias("news", "https://example.com/1");
    put(&store, &link).await;
    a.warm(&link).await;
    let mut revision = 1;
    // The subscription begins in the background: until it is there, changes come by the feed.
    until("b hears of a change", async || {
        revision += 1;
        let new = change(&store, &link, revision).await;
        a.routes.changed(&new);
        assert_eq!(a.target(&link).await, new.target.as_str(), "the writer never goes back");
        for _ in 0..100 {
            if b.heard.lock().unwrap().iter().any(|change| change.revision.0 == revision) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    })
    .await;
    assert!(b.forgotten.0.lock().unwrap().contains(&link.key));
    assert_eq!(b.target(&link).await, format!("https://example.com/{revision}"));
    assert!(a.heard.lock().unwrap().is_empty(), "a node does not hear itself");
    // The feed tells b nothing new.
    let known =
        LinkChange { key: link.key.clone(), revision: Revision(revision), at: link.created_at };
    assert!(!b.links.record(&known));
}

#[tokio::test]
async fn a_new_link_is_written_through_where_that_is_set() {
    let (server, store) = (RedisServer::start(&[]), Arc::new(MemoryStore::default()));
    let a = Node::new(&server, &store, true).await;
    let link = generated("aB3dE6g", "https://example.com/1");
    put(&store, &link).await;
    a.routes.changed(&link);
    until("it is there", async || server.ask(&["dbsize"]) == "1").await;
    let before = a.links.counts();
    assert_eq!(a.links.get(&link.key).await.unwrap(), Some(link.clone()));
    assert_eq!(a.links.counts().hits, before.hits + 1);
}

#[tokio::test]
async fn a_frozen_redis_costs_look_ups_nothing() {
    let (server, store) = (RedisServer::start(&[]), Arc::new(MemoryStore::default()));
    let a = Node::with(open(&server).await, &store, false).await;
    let link = alias("cold", "https://example.com/1");
    put(&store, &link).await;
    a.warm(&link).await;
    server.freeze();
    let (before, trips) = (a.links.counts(), a.redis.trips());
    for _ in 0..500 {
        assert_eq!(a.links.get(&link.key).await.unwrap(), Some(link.clone()));
    }
    let after = a.links.counts();
    assert_eq!((after.hits, after.bypassed), (before.hits, before.bypassed + 500));
    // None, if a call was late before, on a busy machine.
    assert!(a.redis.trips() <= trips + 1, "more than one call waited");
    // While Redis is away the link changes: no copy may come back.
    change(&store, &link, 2).await;
    server.thaw();
    until("copies are in use", async || a.links.is_ready()).await;
    assert_eq!(a.target(&link).await, "https://example.com/2");
}

#[tokio::test]
async fn a_redis_that_was_restarted_or_flushed_is_used_again() {
    let (server, store) = (RedisServer::start(&[]), Arc::new(MemoryStore::default()));
    let a = Node::new(&server, &store, false).await;
    let link = alias("again", "https://example.com/1");
    put(&store, &link).await;
    a.warm(&link).await;
    server.stop();
    assert_eq!(a.target(&link).await, "https://example.com/1");
    server.run();
    until("copies are in use", async || a.links.is_ready()).await;
    a.warm(&link).await;
    server.ask(&["flushall"]);
    a.warm(&link).await;
    // Content that terse did not write is a miss.
    let place = server.ask(&["randomkey"]);
    server.ask(&["set", &place, "nonsense"]);
    assert_eq!(a.target(&link).await, "https://example.com/1");
}

#[tokio::test]
async fn a_copy_that_is_used_while_the_store_is_away_has_its_age() {
    let (server, store) = (RedisServer::start(&[]), Arc::new(MemoryStore::default()));
    let a = Node::new(&server, &store, false).await;
    let link = alias("aged", "https://example.com/1");
    put(&store, &link).await;
    a.warm(&link).await;
    assert_eq!(a.links.age(&link.key), Duration::ZERO);
    let place = server.ask(&["randomkey"]);
    let rewrite = |minutes: u64| {
        let now: u64 = server.ask(&["time"]).lines().next().unwrap().parse().unwrap();
        let written = format!("{:012x}", (now - minutes * 60) * 1000);
        server.ask(&["setrange", &place, "17", &written]);
    };
    // Old, but not older than the changes that were replayed when the node began.
    rewrite(7);
    store.fail(true);
    assert_eq!(a.links.get(&link.key).await.unwrap(), Some(link.clone()));
    let age = a.links.age(&link.key);
    assert!(age >= Duration::from_mins(7) && age < Duration::from_mins(9), "{age:?}");
    store.fail(false);
    a.links.get(&link.key).await.unwrap();
    assert_eq!(a.links.age(&link.key), Duration::ZERO);
}

#[tokio::test]
async fn after_missed_changes_no_earlier_copy_is_used() {
    let (server, store) = (RedisServer::start(&[]), Arc::new(MemoryStore::default()));
    let a = Node::new(&server, &store, false).await;
    let link = alias("gap", "https://example.com/1");
    put(&store, &link).await;
    a.warm(&link).await;
    a.links.reject_existing_copies();
    until("copies are in use", async || a.links.is_ready()).await;
    let before = a.links.counts();
    a.links.get(&link.key).await.unwrap();
    assert_eq!(a.links.counts().hits, before.hits);
}

/// Redis answers probes in time and other calls too late, as on an overloaded machine.
#[tokio::test]
async fn a_redis_that_is_too_slow_is_not_asked_again_and_again() {
    let (server, store) = (RedisServer::start(&[]), Arc::new(MemoryStore::default()));
    let proxy = TcpProxy::start(server.port());
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let redis = Arc::new(Redis::open(RedisUrl::parse(&url).unwrap()).await.unwrap());
    let a = Node::with(redis, &store, false).await;
    let link = alias("slow", "https://example.com/1");
    put(&store, &link).await;
    let mut link = link;
    for revision in 2..40 {
        link = change(&store, &link, revision).await;
    }
    proxy.delay(Duration::from_millis(80));
    let (trips, replays) = (a.redis.trips(), a.links.counts().replays);
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        a.target(&link).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Pauses of 0.1, 0.2, 0.4, 0.8, 1.6 and 2 seconds, and of 0.5, 1, 2 and 4.
    let (trips, replays) = (a.redis.trips() - trips, a.links.counts().replays - replays);
    assert!(trips <= 8 && replays <= 5, "{trips} times unused, {replays} replays");
    assert!(trips > 0, "it was too slow");
}
