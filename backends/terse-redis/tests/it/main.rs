//! Copies of links, news of changes and rate limits on a real Redis, which the tests start.
#![allow(clippy::unwrap_used, reason = "tests")]

mod layouts;
mod limits;
mod links;

use std::sync::Arc;
use std::time::{Duration, Instant};

use terse_redis::{Redis, RedisUrl};
use terse_testkit::RedisServer;

/// As a node connects.
async fn open(server: &RedisServer) -> Arc<Redis> {
    Arc::new(Redis::open(RedisUrl::parse(&server.url()).unwrap()).await.unwrap())
}

/// With a longer timeout than visitors have, for tests of what Redis answers.
async fn open_with_timeout(server: &RedisServer) -> Arc<Redis> {
    let url = RedisUrl::parse(&server.url()).unwrap();
    Arc::new(Redis::open_with_timeout(url, Duration::from_secs(10)).await.unwrap())
}

/// Waits for a condition, for longer than it takes on a busy machine.
async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !done().await {
        assert!(begun.elapsed() < Duration::from_secs(90), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
