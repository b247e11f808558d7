//! Copies of links in Redis, in front of the store.
//!
//! A node uses a copy only if all of these hold, so that it never goes back to an older revision:
//! the store's changes of the last eight minutes were replayed into Redis since it was last away;
//! the copy is not older than what this node knows of the link ([`MinimumRevisions`]); and it was
//! written after the last time that this node missed changes. A copy that is five minutes old is
//! read from the store again, and used only if the store does not answer.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join_all;
use redis::{RedisResult, Script};
use terse_core::metrics::Metrics;
use terse_core::{
    AbsenceCertainty, Domain, Link, LinkChange, LinkKey, LinkReader, LinkStore, Revision,
    SharedCache, StoreError, Timestamp, link_codec,
};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use crate::client::{Redis, RedisUnavailable};
use crate::minimum_revisions::MinimumRevisions;
use crate::old_copies::OldCopies;
use crate::replay::{Replays, replay_each_epoch};
use crate::value::{self, LinkCopy, PUT};

/// The longest time that a copy is kept.
const KEPT: Duration = Duration::from_hours(24);
/// A copy of this age is compared with the store.
const REVALIDATED: Duration = Duration::from_mins(5);
/// How long a tombstone is kept: longer than a copy may take from the store into Redis.
const TOMBSTONE: Duration = Duration::from_secs(60);
/// A copy whose read of the store began longer ago is not written.
pub(crate) const MAX_FILL: Duration = Duration::from_secs(2);
/// Writes under way at a time.
const PIPELINED: usize = 128;
/// Batches of copies that are being written; further ones are left out.
const FILLS: usize = 64;
/// How links are kept.
#[derive(Clone, Debug)]
pub struct RedisLinkOptions {
    /// Whether a new link is written to Redis when it is created.
    pub write_through: bool,
    /// The greatest age of a copy that is used while the store is away.
    pub max_stale: Duration,
}

impl Default for RedisLinkOptions {
    fn default() -> Self {
        Self { write_through: false, max_stale: Duration::from_hours(1) }
    }
}

/// Counts how lookups were answered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LookupCounts {
    /// Lookups that a copy answered.
    pub hits: u64,
    /// Lookups that went on to the store.
    pub misses: u64,
    /// Lookups that went to the store because Redis was not in use.
    pub bypassed: u64,
    /// Copies used although they were old, because the store did not answer.
    pub stale: u64,
    /// Replays of recent changes that were begun.
    pub replays: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    bypassed: AtomicU64,
    stale: AtomicU64,
    pub(crate) replays: AtomicU64,
}

/// Reads links from Redis, then from the store.
pub struct RedisLinks {
    pub(crate) inner: Arc<Inner>,
    keeper: JoinHandle<()>,
}

pub(crate) struct Inner {
    pub(crate) redis: Arc<Redis>,
    pub(crate) store: Arc<dyn LinkStore>,
    pub(crate) options: RedisLinkOptions,
    /// The prefix of all keys of this store.
    pub(crate) prefix: String,
    pub(crate) minimums: MinimumRevisions,
    old_copies: OldCopies,
    put: Script,
    pub(crate) incarnation: RwLock<u64>,
    pub(crate) replays: Replays,
    /// Copies written before this time of Redis' clock are not used.
    pub(crate) trusted_from_ms: AtomicI64,
    /// Begin again: the incarnation may be another.
    pub(crate) again: Notify,
    fills: Arc<Semaphore>,
    pub(crate) counters: Counters,
}

impl RedisLinks {
    /// Puts Redis in front of a store.
    pub fn new(redis: Arc<Redis>, store: Arc<dyn LinkStore>, options: RedisLinkOptions) -> Self {
        let tag = store.identity().derive("terse redis keys v1");
        let prefix = tag[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        let inner = Arc::new(Inner {
            redis,
            store,
            options,
            prefix,
            minimums: MinimumRevisions::default(),
            old_copies: OldCopies::default(),
            put: Script::new(PUT),
            incarnation: RwLock::new(0),
            replays: Replays::default(),
            trusted_from_ms: AtomicI64::new(0),
            again: Notify::new(),
            fills: Arc::new(Semaphore::new(FILLS)),
            counters: Counters::default(),
        });
        let keeper = tokio::spawn(replay_each_epoch(Arc::clone(&inner)));
        Self { inner, keeper }
    }

    /// How lookups were answered so far.
    pub fn counts(&self) -> LookupCounts {
        let Counters { hits, misses, bypassed, stale, replays } = &self.inner.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LookupCounts {
            hits: read(hits),
            misses: read(misses),
            bypassed: read(bypassed),
            stale: read(stale),
            replays: read(replays),
        }
    }

    /// Whether copies are in use.
    pub fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    /// Writes all counters.
    pub fn write_metrics(&self, to: &mut Metrics) {
        let counts = self.counts();
        let lookups = [
            ("hit", counts.hits),
            ("miss", counts.misses),
            ("bypassed", counts.bypassed),
            ("stale", counts.stale),
        ];
        let help = "Lookups of links that were not in memory, by what Redis answered";
        to.counters("terse_shared_cache_lookups", help, "what", lookups);
        let help = "How often Redis did not answer and was no longer asked";
        to.count("terse_shared_cache_trips", help, self.inner.redis.trips());
        let help = "How often recent changes were written to Redis, after it was away";
        to.count("terse_shared_cache_replays", help, counts.replays);
        let help = "Whether copies of links in Redis are in use";
        to.gauge("terse_shared_cache_ready", help, f64::from(u8::from(self.is_ready())));
    }
}

impl Drop for RedisLinks {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Inner {
    fn is_ready(&self) -> bool {
        self.redis.is_up() && self.replays.is_done(self.redis.epoch())
    }

    /// The key of a link. No braces: a hash tag would put a whole domain into one slot.
    fn key(&self, key: &LinkKey) -> String {
        let incarnation = *self.incarnation.read().unwrap_or_else(PoisonError::into_inner);
        format!("{}:{incarnation}:{}:{}", self.prefix, key.domain.as_str(), key.code.as_str())
    }

    /// The copies that may be used, with their age.
    async fn copies(
        &self,
        keys: &[LinkKey],
    ) -> Result<Vec<Option<(Link, Duration)>>, RedisUnavailable> {
        let names: Vec<String> = keys.iter().map(|key| self.key(key)).collect();
        let values: Vec<Option<Vec<u8>>> = self
            .redis
            .call(async |connection| redis::cmd("MGET").arg(&names).query_async(connection).await)
            .await?;
        let now_ms = self.redis.now_ms();
        let trusted_from_ms = self.trusted_from_ms.load(Ordering::Acquire);
        let usable = |key: &LinkKey, value: Option<Vec<u8>>| {
            let LinkCopy { link, written_ms } = value::read(&value?)?;
            let is_good = link.key == *key
                && written_ms >= trusted_from_ms
                && self.minimums.allow(key, link.revision);
            let age = u64::try_from(now_ms - written_ms).unwrap_or_default();
            is_good.then_some((link, Duration::from_millis(age)))
        };
        let mut values = values.into_iter();
        Ok(keys.iter().map(|key| usable(key, values.next().flatten())).collect())
    }

    /// Writes copies of links whose read began at `began`.
    fn fill(self: &Arc<Self>, links: Vec<Link>, began: Instant) {
        let Ok(permit) = Arc::clone(&self.fills).try_acquire_owned() else { return };
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            inner.put_links(&links, began).await;
            drop(permit);
        });
    }

    pub(crate) async fn put_links(&self, links: &[Link], began: Instant) {
        let now = Timestamp::from_ms(self.redis.now_ms());
        for some in links.chunks(PIPELINED) {
            let mut writes = Vec::with_capacity(some.len());
            for link in some {
                let Some(ttl) = time_to_live(link, now) else { continue };
                let left = MAX_FILL.saturating_sub(began.elapsed());
                if left.is_zero() || !self.minimums.allow(&link.key, link.revision) {
                    continue;
                }
                let latest = self.redis.now_ms() + i64::try_from(left.as_millis()).unwrap_or(0);
                writes.push(async move {
                    let content = link_codec::encode(link);
                    let put = CopyWrite { kind: "L", ttl, latest_ms: latest, content: &content };
                    self.put(&link.key, link.revision, put, self.redis.call_timeout()).await
                });
            }
            let _left_out = join_all(writes).await;
        }
    }

    /// Writes tombstones. A failure opens the breaker, so that the changes are replayed.
    pub(crate) async fn write_tombstones(&self, changes: &[LinkChange]) -> bool {
        self.write_tombstones_by(changes, PIPELINED, self.redis.call_timeout()).await
    }

    pub(crate) async fn write_tombstones_by(
        &self,
        changes: &[LinkChange],
        pipelined: usize,
        call_timeout: Duration,
    ) -> bool {
        let mut all_written = true;
        for some in changes.chunks(pipelined) {
            let mut writes = Vec::with_capacity(some.len());
            for LinkChange { key, revision, .. } in some {
                // The first revision replaces nothing: a missing link has no copy, and no copy
                // outlives the expiry of its link.
                if *revision > Revision(1) {
                    let put = CopyWrite { kind: "T", ttl: TOMBSTONE, latest_ms: 0, content: b"" };
                    writes.push(self.put(key, *revision, put, call_timeout));
                }
            }
            all_written &= join_all(writes).await.iter().all(Result::is_ok);
            if !all_written {
                break;
            }
        }
        if !all_written {
            self.redis.trip("changes could not be written");
        }
        all_written
    }

    async fn put(
        &self,
        key: &LinkKey,
        revision: Revision,
        put: CopyWrite<'_>,
        call_timeout: Duration,
    ) -> Result<(), RedisUnavailable> {
        let name = self.key(key);
        let ttl = u64::try_from(put.ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        self.redis
            .call_within(call_timeout, async |connection| {
                let written: RedisResult<i64> = self
                    .put
                    .key(name)
                    .arg(put.kind)
                    .arg(value::digits(revision))
                    .arg(ttl)
                    .arg(put.latest_ms)
                    .arg(put.content)
                    .invoke_async(connection)
                    .await;
                written.map(drop)
            })
            .await
    }

    /// From now on this node uses only copies that are written from now on.
    fn reject_existing_copies(&self) {
        let from = self.redis.now_ms() + i64::try_from(MAX_FILL.as_millis()).unwrap_or(0);
        self.trusted_from_ms.fetch_max(from, Ordering::AcqRel);
        self.replays.reject_existing_copies();
        self.again.notify_one();
    }
}

/// What is written to Redis: the parameters of the script.
struct CopyWrite<'a> {
    kind: &'static str,
    ttl: Duration,
    latest_ms: i64,
    content: &'a [u8],
}

/// How long a copy may be kept; `None` if it should not be: the clicks that a link with
/// `max_clicks`
/// has left change without a new revision.
fn time_to_live(link: &Link, now: Timestamp) -> Option<Duration> {
    if link.max_clicks.is_some() {
        return None;
    }
    let Some(expires_at) = link.expires_at else { return Some(KEPT) };
    let left = u64::try_from(expires_at.as_ms() - now.as_ms()).ok().filter(|left| *left > 0)?;
    Some(Duration::from_millis(left).min(KEPT))
}

#[async_trait]
impl LinkReader for RedisLinks {
    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        let mut found = self.get_many(std::slice::from_ref(key)).await;
        found.pop().unwrap_or(Ok(None))
    }

    async fn get_many(&self, keys: &[LinkKey]) -> Vec<Result<Option<Link>, StoreError>> {
        let inner = &self.inner;
        let count = |counter: &AtomicU64, n: usize| {
            counter.fetch_add(n as u64, Ordering::Relaxed);
        };
        let copies = match inner.is_ready() {
            true => inner.copies(keys).await,
            false => Err(RedisUnavailable),
        };
        let Ok(copies) = copies else {
            count(&inner.counters.bypassed, keys.len());
            return inner.store.get_many(keys).await;
        };
        let is_fresh = |copy: &Option<(Link, Duration)>| {
            copy.as_ref().is_some_and(|(_, age)| *age < REVALIDATED)
        };
        let missing: Vec<LinkKey> = keys
            .iter()
            .zip(&copies)
            .filter(|(_, copy)| !is_fresh(copy))
            .map(|(key, _)| key.clone())
            .collect();
        count(&inner.counters.hits, keys.len() - missing.len());
        count(&inner.counters.misses, missing.len());
        if missing.is_empty() {
            return copies.into_iter().map(|copy| Ok(copy.map(|(link, _)| link))).collect();
        }
        let began = Instant::now();
        let stored = inner.store.get_many(&missing).await;
        inner.old_copies.forget(missing.iter().zip(&stored).filter(|(_, link)| link.is_ok()));
        inner.fill(stored.iter().flatten().flatten().cloned().collect(), began);
        let mut stored = stored.into_iter();
        let answer = |copy: Option<(Link, Duration)>| {
            if is_fresh(&copy) {
                return Ok(copy.map(|(link, _)| link));
            }
            match (stored.next().unwrap_or(Ok(None)), copy) {
                (Err(StoreError::Unavailable(_)), Some((link, age)))
                    if age < inner.options.max_stale && inner.old_copies.note(&link.key, age) =>
                {
                    count(&inner.counters.stale, 1);
                    Ok(Some(link))
                }
                (answer, _) => answer,
            }
        };
        copies.into_iter().map(answer).collect()
    }

    fn age(&self, key: &LinkKey) -> Duration {
        self.inner.old_copies.age(key)
    }

    async fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.inner.store.get_folded(key).await
    }

    fn surely_absent(&self, domain: &Domain, code: &str) -> AbsenceCertainty {
        self.inner.store.surely_absent(domain, code)
    }
}

#[async_trait]
impl SharedCache for RedisLinks {
    fn record(&self, change: &LinkChange) -> bool {
        self.inner.minimums.record(change)
    }

    async fn invalidate(&self, changes: &[LinkChange]) {
        if self.inner.redis.is_up() {
            self.inner.write_tombstones(changes).await;
        }
    }

    fn reject_existing_copies(&self) {
        self.inner.reject_existing_copies();
    }
}
