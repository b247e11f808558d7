//! The states of the buckets that are not full, in a bounded table.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;
use governor::nanos::Nanos;
use governor::state::StateStore;
use terse_core::Clock;
use terse_core::limits::LimitSubject;

/// So many tables, so that those who ask at once seldom wait for one another.
const SHARDS: usize = 16;
/// So many in each.
const MAX_BUCKETS: usize = 8192;
/// Where room must be made, it is made for so many: looking at all of a table is then seldom
/// enough.
const ROOM: usize = MAX_BUCKETS / 8;
/// How often full buckets are looked for while there is room.
const PRUNE_INTERVAL: Duration = Duration::from_mins(1);

/// For each subject the moment at which its bucket is full again, counted from the clock's
/// beginning.
#[derive(Debug)]
pub(super) struct Buckets {
    clock: Clock,
    shards: [Mutex<Shard>; SHARDS],
    hash: RandomState,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    full_at: HashMap<LimitSubject, Nanos, RandomState>,
    pruned: Duration,
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

    /// The time they go by.
    pub(super) fn now(&self) -> Nanos {
        nanos(self.clock.steady())
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).full_at.len()).sum()
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Has a bucket filled earlier.
    pub(super) fn give_back(&self, subject: &LimitSubject, earlier: Duration) {
        let mut shard = self.shard(subject);
        if let Some(full_at) = shard.full_at.get_mut(subject) {
            *full_at = full_at.saturating_sub(nanos(earlier));
        }
    }

    fn shard(&self, subject: &LimitSubject) -> MutexGuard<'_, Shard> {
        // The upper bits: a table of its own hashes by the lower ones, under another key.
        lock(&self.shards[(self.hash.hash_one(subject) >> 60) as usize % SHARDS])
    }

    /// Makes room for one more.
    fn make_room(&self, shard: &mut Shard) {
        let (now, full) = (self.clock.steady(), shard.full_at.len() >= MAX_BUCKETS);
        if !full && now.saturating_sub(shard.pruned) < PRUNE_INTERVAL {
            return;
        }
        shard.pruned = now;
        shard.full_at.retain(|_, full_at| *full_at > nanos(now));
        let left = shard.full_at.len();
        if left > MAX_BUCKETS - ROOM && full {
            // Those who have done least go. Whoever has done much stays.
            let mut moments: Vec<Nanos> = shard.full_at.values().copied().collect();
            let (_, last, _) = moments.select_nth_unstable(left - (MAX_BUCKETS - ROOM) - 1);
            shard.full_at.retain(|_, full_at| *full_at > *last);
            self.evicted.fetch_add((left - shard.full_at.len()) as u64, Ordering::Relaxed);
        } else {
            shard.full_at.shrink_to(2 * left);
        }
    }
}

impl StateStore for &Buckets {
    type Key = LimitSubject;

    fn measure_and_replace<T, F, E>(&self, subject: &LimitSubject, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut shard = self.shard(subject);
        let known = shard.full_at.get(subject).copied();
        let (outcome, full_at) = measure(known)?;
        if known.is_none() {
            self.make_room(&mut shard);
        }
        shard.full_at.insert(*subject, full_at);
        Ok(outcome)
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanos(time: Duration) -> Nanos {
    Nanos::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
