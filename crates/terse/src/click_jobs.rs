//! What has to be done for clicks now and then: the salt of the day, old clicks, clicks of links
//! that are gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terse_core::clicks::{ClickStore, LinkId, Pruned, Retention, Salt};
use terse_core::{Clock, LinkStore, StoreError, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

/// How often it is looked whether a new day has begun.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Rows touched in one go, so that counting is never held up for long.
const BATCH: usize = 2000;
/// How long the store leaves clicks of erased links out. A journal that was not counted for longer
/// may bring some back; the sweep finds these.
const KEEP_TOMBSTONES: Duration = Duration::from_hours(90 * 24);
/// How soon after the start, how often, and how soon after a failure clicks are compared with the
/// links they belong to, and how many at a time.
const FIRST_SWEEP: Duration = Duration::from_mins(10);
const SWEEP: Duration = Duration::from_hours(24);
const SWEEP_AGAIN: Duration = Duration::from_hours(1);
const SWEEP_STEP: usize = 500;

/// The number of the day a moment belongs to, in UTC.
fn day_of(now: Timestamp) -> i64 {
    now.as_ms().div_euclid(86_400_000)
}

/// The salt of today.
pub(crate) async fn salt_of_today(
    store: &dyn ClickStore,
    clock: &Clock,
) -> Result<(i64, Salt), StoreError> {
    let day = day_of(clock.now());
    match tokio::time::timeout(TIMEOUT, store.salt(day)).await {
        Ok(salt) => Ok((day, salt?)),
        Err(elapsed) => Err(StoreError::Unavailable(elapsed.into())),
    }
}

/// Hands out the salt of each new day. While the store is away, visitors are told apart by the one
/// there is.
pub(crate) async fn keep_salt(
    store: Arc<dyn ClickStore>,
    clock: Clock,
    mut known: i64,
    hand_out: impl Fn(Salt),
    mut stop: watch::Receiver<bool>,
) {
    let mut looks = tokio::time::interval(POLL_INTERVAL);
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        if day_of(clock.now()) == known {
            continue;
        }
        match salt_of_today(&*store, &clock).await {
            Ok((day, salt)) => {
                known = day;
                hand_out(salt);
            }
            Err(error) => {
                tracing::warn!(%error, "the salt of the new day could not be made; trying again");
            }
        }
    }
}

/// Deletes clicks that are old enough, and those of links that no longer exist.
pub(crate) struct ClickJobs {
    /// The clicks.
    pub(crate) clicks: Arc<dyn ClickStore>,
    /// The links they belong to.
    pub(crate) links: Arc<dyn LinkStore>,
    /// The time.
    pub(crate) clock: Clock,
    /// How often.
    pub(crate) every: Duration,
    /// How long single clicks are kept.
    pub(crate) keep_raw: Duration,
    /// How long sums are kept by the hour.
    pub(crate) keep_hours: Duration,
    /// What was done.
    pub(crate) counts: Arc<ClickJobCounts>,
}

/// What was tidied away so far.
#[derive(Debug, Default)]
pub(crate) struct ClickJobCounts {
    /// Single clicks deleted.
    pub(crate) raw: AtomicU64,
    /// Hours that became part of a day.
    pub(crate) hours: AtomicU64,
    /// Links whose clicks were forgotten because the link is gone.
    pub(crate) forgotten: AtomicU64,
}

impl ClickJobs {
    /// Tidies until told to stop. What fails is tried again at the next round.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut rounds = tokio::time::interval(self.every);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut sweep_at = Instant::now() + FIRST_SWEEP;
        loop {
            tokio::select! {
                _ = rounds.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let round = async {
                if let Err(error) = self.prune().await {
                    tracing::warn!(%error, "old clicks could not be tidied away; trying again \
                        later");
                }
                if Instant::now() < sweep_at {
                    return;
                }
                sweep_at = match self.sweep().await {
                    Ok(()) => Instant::now() + SWEEP,
                    Err(error) => {
                        tracing::warn!(%error, "clicks of links that are gone could not be looked \
                            for; trying again later");
                        Instant::now() + SWEEP_AGAIN
                    }
                };
            };
            tokio::select! {
                () = round => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn prune(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let (raw_before, hours_before) =
            (now.saturating_sub(self.keep_raw), now.saturating_sub(self.keep_hours));
        let tombstones_before = now.saturating_sub(KEEP_TOMBSTONES);
        loop {
            let retention = Retention { raw_before, hours_before, tombstones_before, limit: BATCH };
            let Pruned { raw, hours, more, .. } = self.clicks.prune(retention).await?;
            self.counts.raw.fetch_add(raw, Ordering::Relaxed);
            self.counts.hours.fetch_add(hours, Ordering::Relaxed);
            if !more {
                return Ok(());
            }
            // Whoever counts goes first.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A link that was purged while the store of clicks was away, or that was visited in its last
    /// moment, leaves clicks behind.
    async fn sweep(&self) -> Result<(), StoreError> {
        let mut after: Option<LinkId> = None;
        loop {
            let ids = self.clicks.links(after.as_ref(), SWEEP_STEP).await?;
            let Some(last) = ids.last().cloned() else { return Ok(()) };
            let keys: Vec<_> = ids.iter().map(|id| id.key.clone()).collect();
            let found = self.links.get_many(&keys).await;
            let mut gone: HashMap<Timestamp, Vec<_>> = HashMap::new();
            for (id, found) in ids.into_iter().zip(found) {
                match found {
                    Ok(Some(link)) if link.created_at == id.born => {}
                    Ok(_) => gone.entry(id.born).or_default().push(id.key),
                    Err(error) => return Err(error),
                }
            }
            for (born, keys) in gone {
                self.clicks.erase_links(&keys, born, self.clock.now()).await?;
                self.counts.forgotten.fetch_add(keys.len() as u64, Ordering::Relaxed);
            }
            after = Some(last);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
