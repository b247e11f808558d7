//! Redis with TLS, behind a Sentinel, and as a Cluster of six servers, while a master ends.

use std::sync::Arc;
use std::time::Duration;

use terse_core::RouteCache as _;
use terse_core::limits::{
    Limit, LimitDecision, LimitKey, LimitSubject, LimitedAction, Limiter, TokenRequest,
};
use terse_redis::{Redis, RedisLimiter, RedisUrl};
use terse_testkit::{MemoryStore, RedisServer, alias, pem};

use crate::links::{Node, change, put};
use crate::until;

async fn open(url: &str) -> Arc<Redis> {
    let url = RedisUrl::parse(url).unwrap();
    Arc::new(Redis::open_with_timeout(url, Duration::from_secs(5)).await.unwrap())
}

/// Refuses, so that what Redis allows can be told apart.
struct Refusing;

#[async_trait::async_trait]
impl Limiter for Refusing {
    async fn take(&self, _: &[TokenRequest]) -> LimitDecision {
        LimitDecision { allowed: false, ..LimitDecision::UNLIMITED }
    }

    async fn give_back(&self, _: &[TokenRequest]) {}
}

fn takes(key: u64) -> Vec<TokenRequest> {
    let subject = |action| LimitSubject { action, key: LimitKey::Key(key) };
    // Several buckets of a request are taken together: in a Cluster they must be in one place.
    [LimitedAction::Create, LimitedAction::Guess]
        .map(|action| TokenRequest {
            subject: subject(action),
            limit: Limit::per_hour(3),
            count: 1,
        })
        .to_vec()
}

/// Two nodes share copies, changes and limits; `fail` ends a master, and they do so again.
async fn share(url: &str, links: usize, fail: impl FnOnce()) {
    let store = Arc::new(MemoryStore::default());
    let node = async || Node::with(open(url).await, &store, false).await;
    let (mut a, mut b) = (node().await, node().await);
    let many: Vec<_> =
        (0..links).map(|n| alias(&format!("link-{n}"), "https://example.com/1")).collect();
    for link in &many {
        put(&store, link).await;
        a.warm(link).await;
        b.warm(link).await;
    }
    // One message tells the other node, and one tombstone all readers.
    let heard = async |a: &Node, b: &Node, mut revision: u64| {
        until("b hears of a change", async || {
            revision += 1;
            let mut new = None;
            for link in &many {
                new = Some(change(&store, link, revision).await);
                a.routes.changed(new.as_ref().unwrap());
                assert_eq!(a.target(link).await, new.as_ref().unwrap().target.as_str());
            }
            let new = new.unwrap();
            for _ in 0..200 {
                if b.heard.lock().unwrap().iter().any(|change| change.revision == new.revision) {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            false
        })
        .await;
        revision
    };
    let revision = heard(&a, &b, 1).await;
    for node in [&mut a, &mut b] {
        node.follower.poll().await.unwrap();
        for link in &many {
            assert_eq!(node.target(link).await, format!("https://example.com/{revision}"));
        }
    }
    let limiters =
        [&a, &b].map(|node| RedisLimiter::new(node.redis.clone(), Arc::new(Refusing), "t"));
    for n in 0..3 {
        assert!(limiters[n % 2].take(&takes(1)).await.allowed, "{n}");
    }
    assert!(!limiters[1].take(&takes(1)).await.allowed, "counted for both nodes");

    fail();
    // Lookups are answered whatever happens, and never with an older link.
    let expected = format!("https://example.com/{revision}");
    let mut client = 1;
    until("copies are in use again", async || {
        for link in &many {
            assert_eq!(a.target(link).await, expected);
            assert_eq!(b.target(link).await, expected);
        }
        client += 1;
        let is_allowed = limiters[0].take(&takes(client)).await.allowed;
        a.links.is_ready() && b.links.is_ready() && is_allowed
    })
    .await;
    let revision = heard(&a, &b, revision).await;
    for node in [&mut a, &mut b] {
        node.follower.poll().await.unwrap();
        for link in &many {
            assert_eq!(node.target(link).await, format!("https://example.com/{revision}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_six_is_used_and_survives_the_end_of_a_master() {
    let nodes = RedisServer::cluster();
    let hosts: Vec<String> =
        nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let url = format!("redis+cluster://{}", hosts.join(","));
    share(&url, 12, || {
        let is_master = |node: &&RedisServer| node.ask(&["role"]).starts_with("master");
        nodes.iter().find(is_master).unwrap().stop();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_behind_a_sentinel_is_used_and_so_is_its_successor() {
    let master = RedisServer::start(&[]);
    let replica = master.replica();
    let sentinel = master.sentinel("main");
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
    share(&url, 3, || master.stop()).await;
    assert!(replica.ask(&["role"]).starts_with("master"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_checked_with_tls() {
    let certified =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])
            .unwrap();
    let certificate = pem("CERTIFICATE", certified.cert.der());
    let key = pem("PRIVATE KEY", &certified.signing_key.serialize_der());
    let server = RedisServer::start_tls(&certificate, &key);
    let folder = std::env::temp_dir().join(format!("terse-redis-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("ca.pem");
    std::fs::write(&file, &certificate).unwrap();
    let url = format!("{}?sslrootcert={}", server.url(), file.display());
    share(&url, 3, || {
        server.stop();
        server.run();
    })
    .await;
    // The client refuses a certificate that no known authority signed, and a server without TLS.
    for url in [server.url(), RedisServer::shared().url().replace("redis:", "rediss:")] {
        let refused = Redis::open(RedisUrl::parse(&url).unwrap()).await;
        assert!(refused.is_err(), "{url}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
