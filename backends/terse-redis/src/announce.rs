//! Announces changed links to the other nodes.
//!
//! A message is text: the sender's number, then a line per link with domain, code, revision and
//! time, between tabs. A node that misses it reads the change from the store's feed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use terse_core::{
    ChangeCallback, Clock, Code, Domain, Link, LinkChange, LinkKey, Revision, RouteCache, Timestamp,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::connection::subscriber;
use crate::links::{Inner, RedisLinks};

/// Changes that wait to be announced. Further ones are left to the feed.
const WAITING: usize = 10_000;
/// The most changes in one message.
const MAX_CONCURRENT: usize = 256;
/// How often the subscription is checked, and how long an answer may take.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(2);
/// The wait before a lost subscription is renewed, and up to as much again at random.
const RETRY: Duration = Duration::from_millis(500);

enum Announcement {
    /// A new link that `cache.write_through` writes to Redis.
    New(Box<Link>),
    Changed(LinkChange),
}

/// A node's cache of routes that announces changes to the other nodes, and receives their
/// announcements.
pub struct AnnouncingRoutes {
    routes: Arc<dyn RouteCache>,
    inner: Arc<Inner>,
    clock: Clock,
    waiting: mpsc::Sender<Announcement>,
    tasks: [JoinHandle<()>; 2],
}

impl AnnouncingRoutes {
    /// Announces what changes through this node, and makes `routes` forget what others announce.
    /// Calls `on_change` for each of those.
    pub fn new(
        links: &RedisLinks,
        routes: Arc<dyn RouteCache>,
        clock: Clock,
        on_change: ChangeCallback,
    ) -> Self {
        let inner = Arc::clone(&links.inner);
        let (waiting, announcements) = mpsc::channel(WAITING);
        let node = getrandom::u64().unwrap_or_default();
        let receiver =
            ChangeReceiver { inner: Arc::clone(&inner), routes: Arc::clone(&routes), on_change };
        let tasks = [
            tokio::spawn(announce(Arc::clone(&inner), announcements, node)),
            tokio::spawn(listen(receiver, node)),
        ];
        Self { routes, inner, clock, waiting, tasks }
    }
}

impl Drop for AnnouncingRoutes {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl RouteCache for AnnouncingRoutes {
    fn forget(&self, key: &LinkKey) {
        self.inner.minimums.distrust(key);
        self.routes.forget(key);
    }

    fn changed(&self, link: &Link) {
        let is_new = link.revision == Revision(1);
        self.inner.minimums.raise(&link.key, link.revision);
        self.routes.forget(&link.key);
        if is_new && self.inner.options.write_through {
            let _left_out = self.waiting.try_send(Announcement::New(Box::new(link.clone())));
        }
        if !is_new || !link.generated {
            let (key, revision) = (link.key.clone(), link.revision);
            let change = LinkChange { key, revision, at: self.clock.now() };
            let _left_to_the_feed = self.waiting.try_send(Announcement::Changed(change));
        }
    }

    fn forget_everywhere(&self, key: &LinkKey) {
        self.forget(key);
        let change =
            LinkChange { key: key.clone(), revision: Revision::UNKNOWN, at: self.clock.now() };
        let _left_to_the_feed = self.waiting.try_send(Announcement::Changed(change));
    }

    fn forget_all(&self) {
        self.routes.forget_all();
    }
}

/// Writes changes to Redis, and then sends them.
async fn announce(inner: Arc<Inner>, mut announcements: mpsc::Receiver<Announcement>, node: u64) {
    let channel = format!("{}:changes", inner.prefix);
    let mut some = Vec::new();
    while announcements.recv_many(&mut some, MAX_CONCURRENT).await > 0 {
        if !inner.redis.is_up() {
            some.clear();
            continue;
        }
        let (mut links, mut changes) = (Vec::new(), Vec::new());
        for one in some.drain(..) {
            match one {
                Announcement::New(link) => links.push(*link),
                Announcement::Changed(change) => changes.push(change),
            }
        }
        inner.put_links(&links, Instant::now()).await;
        // Before the message, because a node that receives the message reads the copy.
        if changes.is_empty() || !inner.write_tombstones(&changes).await {
            continue;
        }
        let text = written(node, &changes);
        let _left_to_the_feed = inner
            .redis
            .call(async |connection| {
                redis::cmd("PUBLISH").arg(&channel).arg(&text).exec_async(connection).await
            })
            .await;
    }
}

fn written(node: u64, changes: &[LinkChange]) -> String {
    let mut text = format!("{node:016x}");
    for LinkChange { key, revision, at } in changes {
        let (domain, code) = (key.domain.as_str(), key.code.as_str());
        text += &format!("\n{domain}\t{code}\t{}\t{}", revision.0, at.as_ms());
    }
    text
}

/// The changes in a message, unless this node sent it.
fn read(node: u64, text: &str) -> Vec<LinkChange> {
    let mut lines = text.lines();
    if lines.next().is_none_or(|sender| sender == format!("{node:016x}")) {
        return Vec::new();
    }
    let change = |line: &str| {
        let mut fields = line.split('\t');
        let (domain, code) = (Domain::from_stored(fields.next()?), Code::parse(fields.next()?)?);
        let revision = Revision(fields.next()?.parse().ok()?);
        let at = Timestamp::from_ms(fields.next()?.parse().ok()?);
        Some(LinkChange { key: LinkKey { domain, code }, revision, at })
    };
    lines.filter_map(change).collect()
}

struct ChangeReceiver {
    inner: Arc<Inner>,
    routes: Arc<dyn RouteCache>,
    on_change: ChangeCallback,
}

impl ChangeReceiver {
    fn apply(&self, change: &LinkChange) {
        let is_new = self.inner.minimums.record(change);
        self.routes.forget(&change.key);
        if is_new {
            (self.on_change)(change);
        }
    }

    async fn subscribe(&self, node: u64) -> Result<(), Elapsed> {
        let channel = format!("{}:changes", self.inner.prefix);
        let Ok(connection) = timeout(TIMEOUT, subscriber(self.inner.redis.url())).await? else {
            return Ok(());
        };
        let (mut sink, mut messages) = connection.split();
        if timeout(TIMEOUT, sink.subscribe(&channel)).await?.is_err() {
            return Ok(());
        }
        loop {
            match timeout(CHECK_INTERVAL, messages.next()).await {
                Ok(Some(message)) => {
                    let text: String = message.get_payload().unwrap_or_default();
                    read(node, &text).iter().for_each(|change| self.apply(change));
                }
                Ok(None) => return Ok(()),
                // No message for a while: check whether the server still answers.
                Err(_) => {
                    if timeout(TIMEOUT, sink.ping::<redis::Value>()).await?.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Receives what other nodes announce, until the task is aborted.
async fn listen(receiver: ChangeReceiver, node: u64) {
    loop {
        // Until the connection is lost. The node reads missed changes from the feed.
        let _lost = receiver.subscribe(node).await;
        let jitter = getrandom::u32().unwrap_or_default() % 100;
        tokio::time::sleep(RETRY + RETRY * jitter / 100).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terse_testkit::key;

    #[test]
    fn a_message_says_what_changed_to_all_but_its_sender() {
        let change = |code, revision| LinkChange {
            key: key(code),
            revision: Revision(revision),
            at: Timestamp::from_ms(7),
        };
        let changes = [change("one", 2), change("two", Revision::UNKNOWN.0)];
        let text = written(5, &changes);
        assert_eq!(read(6, &text), changes);
        assert_eq!(read(5, &text), []);
        assert_eq!(read(6, "0\nnot a change\n\tgood\t3\t9").len(), 1);
    }
}
