//! Writes recent changes to Redis again, whenever it may lack some: after it was away, and after
//! this node has missed changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use terse_core::StoreError;

use crate::links::{Inner, MAX_FILL};

/// The changes that are replayed after Redis was away, and the most of them. Copies that were
/// written earlier are not used any more: a change that they lack may be too old to be replayed.
const REPLAYED: Duration = Duration::from_mins(8);
const MAX_REPLAYED: usize = 20_000;
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Writes of a replay under way at a time, and how long each may take: no visitor waits for them.
const REPLAY_PIPELINED: usize = 32;
const REPLAY_TIMEOUT: Duration = Duration::from_millis(1500);
/// The pauses before a replay that follows another one within [`STABLE_AFTER`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);
const STABLE_AFTER: Duration = Duration::from_mins(1);

/// Which replay of changes is done. Copies are used while it is the one of the present epoch, and
/// no changes were missed since it began.
#[derive(Default)]
pub(crate) struct Replays {
    /// The epoch of the connection whose replay is done.
    epoch: AtomicU64,
    /// How often this node had missed changes when that replay began.
    covered: AtomicU64,
    /// How often it has missed changes.
    distrusted: AtomicU64,
}

impl Replays {
    pub(crate) fn is_done(&self, epoch: u64) -> bool {
        self.epoch.load(Ordering::Acquire) == epoch
            && self.covered.load(Ordering::Acquire) == self.distrusted.load(Ordering::Acquire)
    }

    /// The number to pass to [`Replays::finish`]. A replay does not cover what is distrusted while
    /// it runs.
    fn begin(&self) -> u64 {
        self.distrusted.load(Ordering::Acquire)
    }

    fn finish(&self, epoch: u64, begun: u64) {
        self.covered.store(begun, Ordering::Release);
        self.epoch.store(epoch, Ordering::Release);
    }

    pub(crate) fn reject_existing_copies(&self) {
        self.distrusted.fetch_add(1, Ordering::AcqRel);
    }
}

impl Inner {
    /// Writes recent changes to Redis, as tombstones.
    async fn replay(&self) -> Result<(), StoreError> {
        let incarnation = self.store.incarnation().await?;
        *self.incarnation.write().unwrap_or_else(PoisonError::into_inner) = incarnation;
        let since = REPLAYED.saturating_sub(MAX_FILL).as_millis();
        let from = self.redis.now_ms() - i64::try_from(since).unwrap_or(0);
        self.trusted_from_ms.fetch_max(from, Ordering::AcqRel);
        match self.store.recent_changes(REPLAYED, MAX_REPLAYED).await? {
            Some(changes) => {
                for change in &changes {
                    self.minimums.record(change);
                }
                let call_timeout = REPLAY_TIMEOUT.max(self.redis.call_timeout());
                if !self.write_tombstones_by(&changes, REPLAY_PIPELINED, call_timeout).await {
                    return Err(StoreError::Busy);
                }
            }
            None => {
                let from = self.redis.now_ms() + i64::try_from(MAX_FILL.as_millis()).unwrap_or(0);
                self.trusted_from_ms.fetch_max(from, Ordering::AcqRel);
            }
        }
        Ok(())
    }
}

/// The pause before the next replay. If replays follow one another soon, because Redis is too slow
/// for them or fails again and again, the pauses grow.
fn next_pause(last: Duration, since_last_replay: Option<Duration>) -> Duration {
    match since_last_replay {
        Some(since) if since < STABLE_AFTER => (last * 2).clamp(FIRST_PAUSE, LAST_PAUSE),
        _ => Duration::ZERO,
    }
}

/// Replays recent changes whenever Redis may lack some.
pub(crate) async fn replay_each_epoch(inner: Arc<Inner>) {
    let mut epochs = inner.redis.epochs();
    let (mut pause, mut ended) = (Duration::ZERO, None::<Instant>);
    loop {
        let epoch = *epochs.borrow_and_update();
        if inner.redis.is_up() && !inner.replays.is_done(epoch) {
            pause = next_pause(pause, ended.map(|at| at.elapsed()));
            tokio::time::sleep(pause).await;
            // Redis may have failed during the pause.
            if inner.redis.is_up() {
                let epoch = *epochs.borrow_and_update();
                let begun = inner.replays.begin();
                inner.counters.replays.fetch_add(1, Ordering::Relaxed);
                match inner.replay().await {
                    Ok(()) => inner.replays.finish(epoch, begun),
                    Err(error) => {
                        tracing::debug!(%error, "changes could not be replayed into Redis");
                    }
                }
                ended = Some(Instant::now());
                continue;
            }
        }
        tokio::select! {
            changed = epochs.changed() => if changed.is_err() { return },
            () = inner.again.notified() => {}
            // While the breaker is open no epoch begins.
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_that_follow_one_another_have_growing_pauses_with_a_bound() {
        let soon = Some(Duration::from_secs(1));
        let mut pauses = vec![next_pause(Duration::ZERO, None)];
        for _ in 0..10 {
            pauses.push(next_pause(pauses[pauses.len() - 1], soon));
        }
        let ms: Vec<u128> = pauses.iter().map(Duration::as_millis).collect();
        assert_eq!(ms[..5], [0, 500, 1000, 2000, 4000]);
        assert_eq!(pauses[10], LAST_PAUSE);
        assert_eq!(next_pause(LAST_PAUSE, Some(STABLE_AFTER)), Duration::ZERO);
    }

    #[test]
    fn a_replay_does_not_cover_what_is_missed_while_it_runs() {
        let replays = Replays::default();
        assert!(!replays.is_done(1));
        let begun = replays.begin();
        replays.finish(1, begun);
        assert!(replays.is_done(1) && !replays.is_done(2), "each epoch has its own");
        replays.reject_existing_copies();
        assert!(!replays.is_done(1));
        let begun = replays.begin();
        replays.reject_existing_copies();
        replays.finish(1, begun);
        assert!(!replays.is_done(1), "changes were missed after it began");
        replays.finish(1, replays.begin());
        assert!(replays.is_done(1));
    }
}
