//! The states of the buckets that are not full, in a bounded table.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;
use terse_core::Clock;
use terse_core::limits::{LimitSubject, TokenRequest};

/// The number of tables, so that concurrent callers seldom wait for one another.
const SHARDS: usize = 16;
/// How many subjects each table holds.
const MAX_BUCKETS: usize = 8192;
/// How many places a full table frees at once, so that it seldom scans all of its entries.
const EVICTED_AT_ONCE: usize = MAX_BUCKETS / 8;
/// How often a table that is not full drops the buckets that are.
const PRUNE_INTERVAL: Duration = Duration::from_mins(1);

/// For each subject the time at which its bucket is full, in nanoseconds since the clock's start.
#[derive(Debug)]
pub(super) struct Buckets {
    clock: Clock,
    shards: [Mutex<Shard>; SHARDS],
    hash: RandomState,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    full_at: HashMap<LimitSubject, u64, RandomState>,
    /// When full buckets were last dropped.
    pruned: u64,
}

/// The tables of some subjects, locked, at one point in time.
pub(super) struct LockedBuckets<'a> {
    buckets: &'a Buckets,
    /// In ascending order of their numbers.
    shards: Vec<(usize, MutexGuard<'a, Shard>)>,
    now: u64,
}

impl Buckets {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            shards: Default::default(),
            hash: RandomState::default(),
            evicted: AtomicU64::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).full_at.len()).sum()
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Locks the tables of these subjects, in one order for all callers, so that two callers never
    /// wait for each other.
    pub(super) fn lock(&self, takes: &[TokenRequest]) -> LockedBuckets<'_> {
        let mut numbers: Vec<usize> =
            takes.iter().map(|take| self.shard_of(&take.subject)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let shards =
            numbers.into_iter().map(|number| (number, lock(&self.shards[number]))).collect();
        LockedBuckets { buckets: self, shards, now: nanos(self.clock.steady()) }
    }

    fn shard_of(&self, subject: &LimitSubject) -> usize {
        // The upper bits: each table hashes by the lower ones, with another key.
        (self.hash.hash_one(subject) >> 60) as usize % SHARDS
    }
}

impl LockedBuckets<'_> {
    /// How long a subject's bucket takes until it is full.
    pub(super) fn until_full(&mut self, subject: &LimitSubject) -> u64 {
        let now = self.now;
        self.shard(subject).full_at.get(subject).map_or(0, |full_at| full_at.saturating_sub(now))
    }

    /// Stores that a subject's bucket is full after this time.
    pub(super) fn set(&mut self, subject: LimitSubject, until_full: u64) {
        let (now, evicted) = (self.now, &self.buckets.evicted);
        let shard = self.shard(&subject);
        if !shard.full_at.contains_key(&subject) {
            let forgotten = shard.make_room(now);
            evicted.fetch_add(forgotten as u64, Ordering::Relaxed);
        }
        shard.full_at.insert(subject, now.saturating_add(until_full));
    }

    fn shard(&mut self, subject: &LimitSubject) -> &mut Shard {
        let number = self.buckets.shard_of(subject);
        let at = self.shards.iter().position(|(locked, _)| *locked == number);
        let at = at.expect("`lock` was given this subject");
        &mut self.shards[at].1
    }
}

impl Shard {
    /// Frees a place. Returns how many buckets were dropped before they were full.
    fn make_room(&mut self, now: u64) -> usize {
        let full = self.full_at.len() >= MAX_BUCKETS;
        if !full && now.saturating_sub(self.pruned) < nanos(PRUNE_INTERVAL) {
            return 0;
        }
        self.pruned = now;
        self.full_at.retain(|_, full_at| *full_at > now);
        let left = self.full_at.len();
        if left <= MAX_BUCKETS - EVICTED_AT_ONCE || !full {
            self.full_at.shrink_to(2 * left);
            return 0;
        }
        // The fullest buckets go first.
        let mut times: Vec<u64> = self.full_at.values().copied().collect();
        let (_, last, _) = times.select_nth_unstable(left - (MAX_BUCKETS - EVICTED_AT_ONCE) - 1);
        self.full_at.retain(|_, full_at| *full_at > *last);
        left - self.full_at.len()
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
