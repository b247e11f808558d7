//! A store of clicks in memory: true to every promise, and breakable on command.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::{
    Batch, Bucket, Click, ClickCursor, ClickPage, ClickReport, ClickStore, ClickSubject,
    ClickTarget, Count, LinkId, MAX_VALUES_PER_DAY, MAX_VALUES_PER_HOUR, MAX_VALUES_TOTAL, Period,
    Pruned, RawQuery, Recorded, Retention, Salt, Sketch, Tally, Unit,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};
use tokio::sync::watch;

/// Counts clicks in memory and nowhere else. Tests can make it fail, make it slow, stop it, and let
/// its answers get lost.
#[derive(Debug)]
pub struct MemoryClickStore {
    state: Mutex<State>,
    failing: AtomicBool,
    losing: AtomicBool,
    delay_ms: AtomicU64,
    stopped: watch::Sender<bool>,
    recorded: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    positions: BTreeMap<u64, u64>,
    kept: BTreeMap<ClickSubject, Kept>,
    salts: BTreeMap<i64, Salt>,
    last_number: u64,
}

#[derive(Debug, Default)]
struct Kept {
    /// Of a link: whose it is.
    owner: Option<OwnerId>,
    total: Sum,
    /// By when they begin.
    hours: BTreeMap<Timestamp, Sum>,
    days: BTreeMap<Timestamp, Sum>,
    raw: BTreeMap<ClickCursor, Click>,
}

#[derive(Clone, Debug, Default)]
struct Sum {
    tally: Tally,
    visitors: Sketch,
}

impl Sum {
    fn add(&mut self, click: &Click) {
        self.tally.add(click);
        if let (Some(visitor), None) = (click.visitor, click.machine) {
            self.visitors.add(visitor);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        self.visitors.merge(&other.visitors);
    }
}

impl Kept {
    /// The buckets that touch a stretch of time, the earliest first.
    fn touching(&self, from: i64, to: i64) -> Vec<(Bucket, &Sum)> {
        let bucket = |unit| {
            move |(&start, sum): (&Timestamp, _)| {
                (Bucket { start, unit, clicks: Count::default() }, sum)
            }
        };
        let mut found: Vec<(Bucket, &Sum)> = self.days.iter().map(bucket(Unit::Day)).collect();
        found.extend(self.hours.iter().map(bucket(Unit::Hour)));
        found.retain(|(bucket, _)| {
            bucket.start.as_ms() < to && bucket.start.as_ms() + bucket.unit.ms() > from
        });
        found.iter_mut().for_each(|(bucket, sum)| bucket.clicks = sum.tally.clicks);
        // Days were put in first, and the order of equals is kept.
        found.sort_by_key(|(bucket, _)| bucket.start);
        found
    }
}

impl Default for MemoryClickStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryClickStore {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            state: Mutex::default(),
            failing: AtomicBool::new(false),
            losing: AtomicBool::new(false),
            delay_ms: AtomicU64::new(0),
            stopped: watch::Sender::new(false),
            recorded: AtomicU64::new(0),
        }
    }

    /// From now on every call answers `Unavailable` and does nothing, or no longer.
    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// From now on `record` does its work and answers `Unavailable` all the same, or no longer.
    pub fn lose_answers(&self, losing: bool) {
        self.losing.store(losing, Ordering::SeqCst);
    }

    /// From now on every call takes at least this long.
    pub fn delay(&self, by: Duration) {
        self.delay_ms.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// From now on every call waits until the store is no longer stopped.
    pub fn stop(&self, stopped: bool) {
        self.stopped.send_replace(stopped);
    }

    /// How many batches were counted.
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::SeqCst)
    }

    /// The gate every call passes before it does anything.
    async fn enter(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        // The sender lives in `self`, so this ends only when it should.
        let _started = self.stopped.subscribe().wait_for(|stopped| !stopped).await.is_ok();
        let delay = self.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if self.failing.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to fail".into()));
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn count(&mut self, click: &Click) {
        let subjects: Vec<(ClickSubject, Option<OwnerId>)> = match &click.place {
            ClickTarget::Link(link, owner) => {
                vec![
                    (ClickSubject::Link(link.clone()), Some(*owner)),
                    (ClickSubject::Owner(*owner), None),
                    (ClickSubject::Everything, None),
                ]
            }
            ClickTarget::Nowhere(..) => vec![(ClickSubject::Orphans, None)],
        };
        for (subject, owner) in subjects {
            let kept = self.kept.entry(subject).or_default();
            kept.total.add(click);
            kept.hours.entry(Unit::Hour.floor(click.at)).or_default().add(click);
            if owner.is_some() {
                kept.owner = owner;
                self.last_number += 1;
                kept.raw.insert(
                    ClickCursor { at_ms: click.at.as_ms(), number: self.last_number },
                    click.clone(),
                );
            }
        }
    }

    fn trim(&mut self) {
        for kept in self.kept.values_mut() {
            kept.total.tally.trim(MAX_VALUES_TOTAL);
            kept.hours.values_mut().for_each(|sum| sum.tally.trim(MAX_VALUES_PER_HOUR));
            kept.days.values_mut().for_each(|sum| sum.tally.trim(MAX_VALUES_PER_DAY));
        }
    }
}

#[async_trait]
impl ClickStore for MemoryClickStore {
    async fn positions(&self) -> Result<Vec<(u64, u64)>, StoreError> {
        Ok(self.enter().await?.positions.iter().map(|(segment, to)| (*segment, *to)).collect())
    }

    async fn record(&self, batch: &Batch) -> Result<Recorded, StoreError> {
        let mut state = self.enter().await?;
        if batch
            .moves
            .iter()
            .any(|one| state.positions.get(&one.segment).copied().unwrap_or(0) != one.from)
        {
            return Ok(Recorded::OutOfStep);
        }
        batch.clicks.iter().for_each(|click| state.count(click));
        state.positions.extend(batch.moves.iter().map(|one| (one.segment, one.to)));
        state.trim();
        self.recorded.fetch_add(1, Ordering::SeqCst);
        if self.losing.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to lose the answer".into()));
        }
        Ok(Recorded::Done)
    }

    async fn forget_segments(&self, segments: &[u64]) -> Result<(), StoreError> {
        self.enter().await?.positions.retain(|segment, _| !segments.contains(segment));
        Ok(())
    }

    async fn counts(&self, links: &[LinkId]) -> Result<Vec<Count>, StoreError> {
        let state = self.enter().await?;
        let count = |link: &LinkId| {
            state.kept.get(&ClickSubject::Link(link.clone())).map(|kept| kept.total.tally.clicks)
        };
        Ok(links.iter().map(|link| count(link).unwrap_or_default()).collect())
    }

    async fn report(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
    ) -> Result<ClickReport, StoreError> {
        let state = self.enter().await?;
        let Some(kept) = state.kept.get(subject) else {
            return Ok(ClickReport::default());
        };
        let from = period.from.map_or(i64::MIN, Timestamp::as_ms);
        let to = period.to.map_or(i64::MAX, Timestamp::as_ms);
        let touched = kept.touching(from, to);
        let mut sum = Sum::default();
        match period == Period::default() {
            true => sum = kept.total.clone(),
            false => touched.iter().for_each(|(_, one)| sum.merge(one)),
        }
        sum.tally.trim(MAX_VALUES_TOTAL);
        let hour = Unit::Hour.floor(now).as_ms();
        let mut recent = Count::default();
        let lately = kept.touching(hour - 23 * Unit::Hour.ms(), hour + Unit::Hour.ms());
        lately.iter().for_each(|(bucket, _)| recent.add(bucket.clicks));
        let buckets = touched.into_iter().map(|(bucket, _)| bucket).collect();
        Ok(ClickReport { tally: sum.tally, visitors: sum.visitors.count(), recent, buckets })
    }

    async fn clicks(&self, query: &RawQuery) -> Result<ClickPage, StoreError> {
        let state = self.enter().await?;
        let Some(kept) = state.kept.get(&ClickSubject::Link(query.link.clone())) else {
            return Ok(ClickPage::default());
        };
        let wanted = |place: &ClickCursor| {
            query.from.is_none_or(|from| place.at_ms >= from.as_ms())
                && query.to.is_none_or(|to| place.at_ms < to.as_ms())
                && query.after.is_none_or(|after| *place > after)
        };
        let mut found = kept.raw.iter().filter(|(place, _)| wanted(place));
        let page: Vec<_> = found.by_ref().take(query.limit).collect();
        let next = found.next().and(page.last().map(|(place, _)| **place));
        Ok(ClickPage { clicks: page.into_iter().map(|(_, click)| click.clone()).collect(), next })
    }

    async fn links(&self, after: Option<&LinkId>, limit: usize) -> Result<Vec<LinkId>, StoreError> {
        let state = self.enter().await?;
        let links = state.kept.keys().filter_map(|subject| match subject {
            ClickSubject::Link(link) => Some(link),
            _ => None,
        });
        Ok(links
            .filter(|link| after.is_none_or(|after| *link > after))
            .take(limit)
            .cloned()
            .collect())
    }

    async fn forget_links(&self, links: &[LinkKey], born_by: Timestamp) -> Result<(), StoreError> {
        let meant = |link: &LinkId| link.born <= born_by && links.contains(&link.key);
        self.enter()
            .await?
            .kept
            .retain(|subject, _| !matches!(subject, ClickSubject::Link(link) if meant(link)));
        Ok(())
    }

    async fn forget_owner(&self, owner: OwnerId) -> Result<(), StoreError> {
        self.enter().await?.kept.retain(|subject, kept| {
            *subject != ClickSubject::Owner(owner) && kept.owner != Some(owner)
        });
        Ok(())
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned, StoreError> {
        let mut state = self.enter().await?;
        let mut pruned = Pruned::default();
        let mut left = retention.limit;
        let raw_before = Unit::Hour.floor(retention.raw_before);
        let hours_before = Unit::Day.floor(retention.hours_before);
        for kept in state.kept.values_mut() {
            while kept
                .raw
                .first_key_value()
                .is_some_and(|(place, _)| place.at_ms < raw_before.as_ms())
            {
                if left == 0 {
                    pruned.more = true;
                    break;
                }
                kept.raw.pop_first();
                left -= 1;
                pruned.raw += 1;
            }
            while kept.hours.first_key_value().is_some_and(|(start, _)| *start < hours_before) {
                if left == 0 {
                    pruned.more = true;
                    break;
                }
                if let Some((start, sum)) = kept.hours.pop_first() {
                    let day = kept.days.entry(Unit::Day.floor(start)).or_default();
                    day.merge(&sum);
                    day.tally.trim(MAX_VALUES_PER_DAY);
                    left -= 1;
                    pruned.hours += 1;
                }
            }
        }
        Ok(pruned)
    }

    async fn salt(&self, day: i64) -> Result<Salt, StoreError> {
        let mut state = self.enter().await?;
        if let Some(salt) = state.salts.get(&day) {
            return Ok(*salt);
        }
        state.salts.retain(|old, _| *old > day - 2);
        let salt = some_salt();
        state.salts.insert(day, salt);
        Ok(salt)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.enter().await.map(|_| ())
    }
}

/// Another one each time. The standard library's hashes are seeded at random, which is random
/// enough for a test.
fn some_salt() -> Salt {
    use std::hash::{BuildHasher as _, RandomState};
    let seed = RandomState::new();
    let mut salt = Salt::default();
    salt.chunks_mut(8)
        .zip(0..)
        .for_each(|(half, n): (_, u8)| half.copy_from_slice(&seed.hash_one(n).to_le_bytes()));
    salt
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    async fn fresh() -> Option<MemoryClickStore> {
        Some(MemoryClickStore::new())
    }
    crate::click_store!(fresh);

    #[tokio::test]
    async fn it_breaks_on_command() {
        let store = Arc::new(MemoryClickStore::new());
        let batch = Batch::default();
        store.fail(true);
        assert!(store.record(&batch).await.is_err() && store.check().await.is_err());
        assert_eq!(store.recorded(), 0);
        store.fail(false);
        store.lose_answers(true);
        assert!(store.record(&batch).await.is_err());
        assert_eq!(store.recorded(), 1);
        store.lose_answers(false);
        store.stop(true);
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.record(&Batch::default()).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        store.stop(false);
        assert_eq!(waiting.await.unwrap().unwrap(), Recorded::Done);
    }
}
