//! A link store in memory that keeps every promise and fails on command.

mod state;
mod switches;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::registry::EventKind;
use terse_core::{
    AbsenceCertainty, Alphabet, ChangeCursor, ChangeFeed, ChangePage, ClickSpend, ClickSpender,
    Code, CodeHash, CodeLease, Cursor, Domain, IdempotencyKey, Insert, Inserted, Link, LinkChange,
    LinkKey, LinkPage, LinkReader, LinkStatus, LinkStore, LinkVersion, ListQuery, MAX_CODE_LENGTH,
    MAX_REVISIONS, MIN_CODE_LENGTH, Numbering, Outbox, OutboxEvent, OutboxPage, OwnerId,
    PurgeBefore, Revision, Sort, StoreError, StoreIdentity, TagCount, Timestamp, Updated,
};

use self::state::{Answered, State};

/// Stores links only in memory. Tests can make it fail, make it slow, and count its reads.
#[derive(Debug)]
pub struct MemoryStore {
    identity: StoreIdentity,
    numbering: Numbering,
    state: Arc<Mutex<State>>,
    failing: AtomicBool,
    /// Whether `surely_absent` answers `Likely` where it knows better.
    unsure: AtomicBool,
    corrupt: Mutex<HashSet<LinkKey>>,
    /// Links whose rows a later version wrote.
    later: Mutex<HashSet<LinkKey>>,
    delay_ms: AtomicU64,
    age_ms: AtomicU64,
    gets: AtomicU64,
    leases: AtomicU64,
    confirmations: AtomicU64,
    /// Whether `lease` waits.
    stalled: AtomicBool,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store. All have the same identity, so that tests see the same codes in every run.
    pub fn new() -> Self {
        let identity = StoreIdentity::from_stored([7; 32], Alphabet::Base62, CodeHash::Hmac);
        Self {
            numbering: Numbering::new(&identity),
            identity,
            state: Arc::default(),
            failing: AtomicBool::new(false),
            unsure: AtomicBool::new(false),
            corrupt: Mutex::default(),
            later: Mutex::default(),
            delay_ms: AtomicU64::new(0),
            age_ms: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            leases: AtomicU64::new(0),
            confirmations: AtomicU64::new(0),
            stalled: AtomicBool::new(false),
        }
    }

    /// Another handle on the same links, as another node has one. Each handle has its own failures
    /// and delays.
    pub fn another_handle(&self) -> Self {
        Self { state: Arc::clone(&self.state), ..Self::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LinkReader for MemoryStore {
    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        self.enter().await?;
        if self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).contains(key) {
            return Err(StoreError::Corrupt("this row cannot be read".into()));
        }
        if self.later.lock().unwrap_or_else(PoisonError::into_inner).contains(key) {
            return Err(StoreError::LaterVersion);
        }
        Ok(self.state().find(key).map(|(_, link)| link.clone()))
    }

    async fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.enter().await?;
        let state = self.state();
        let folded = key.code.folded();
        let mut alike = state.links.values().filter(|link| {
            !link.generated && link.key.domain == key.domain && link.key.code.folded() == folded
        });
        let only = alike.next();
        Ok(only.filter(|_| alike.next().is_none()).cloned())
    }

    fn age(&self, _key: &LinkKey) -> Duration {
        Duration::from_millis(self.age_ms.load(Ordering::SeqCst))
    }

    fn surely_absent(&self, domain: &Domain, code: &str) -> AbsenceCertainty {
        let (Some((length, n)), Some(code)) =
            (self.numbering.number(code.as_bytes()), Code::parse(code))
        else {
            return AbsenceCertainty::Unknown;
        };
        let key = LinkKey { domain: domain.clone(), code };
        let state = self.state();
        if n < state.leased.get(&length).copied().unwrap_or(0) {
            return AbsenceCertainty::Unknown;
        }
        match (self.unsure.load(Ordering::SeqCst), state.serials.contains_key(&key)) {
            // Another node may have added the link, so whether it exists makes no difference.
            (true, _) => AbsenceCertainty::Likely,
            (false, true) => AbsenceCertainty::Unknown,
            (false, false) => AbsenceCertainty::Certain,
        }
    }
}

#[async_trait]
impl ClickSpender for MemoryStore {
    async fn spend(&self, key: &LinkKey) -> Result<ClickSpend, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let Some((serial, _)) = state.find(key) else {
            return Ok(ClickSpend::Missing);
        };
        let link = state.links.get_mut(&serial).expect("it was just found");
        match link.max_clicks {
            None => Ok(ClickSpend::Yes),
            Some(max) if link.spent_clicks >= max => Ok(ClickSpend::UsedUp),
            Some(_) => {
                link.spent_clicks += 1;
                Ok(ClickSpend::Yes)
            }
        }
    }
}

#[async_trait]
impl ChangeFeed for MemoryStore {
    async fn last_change(&self) -> Result<ChangeCursor, StoreError> {
        self.enter().await?;
        Ok(ChangeCursor(self.state().last_change()))
    }

    async fn changes(&self, after: ChangeCursor, limit: usize) -> Result<ChangePage, StoreError> {
        self.enter().await?;
        let state = self.state();
        let (pruned, last) = (state.pruned, state.last_change());
        let gap = after.0 < pruned || after.0 > last;
        let from = if after.0 > last { pruned } else { after.0.max(pruned) };
        let read = state.changes.iter().skip((from - pruned) as usize).take(limit);
        let changes: Vec<LinkChange> = read.cloned().collect();
        let next = ChangeCursor(from + changes.len() as u64);
        Ok(ChangePage { changes, next, gap })
    }

    async fn announce(&self, key: &LinkKey) -> Result<(), StoreError> {
        self.enter().await?;
        self.state().changed(key, Revision::UNKNOWN);
        Ok(())
    }

    async fn recent_changes(
        &self,
        _span: Duration,
        limit: usize,
    ) -> Result<Option<Vec<LinkChange>>, StoreError> {
        self.enter().await?;
        let changes: Vec<LinkChange> = self.state().changes.to_vec();
        Ok((changes.len() <= limit).then_some(changes))
    }
}

#[async_trait]
impl Outbox for MemoryStore {
    async fn outbox(&self, after: Option<u64>, limit: usize) -> Result<OutboxPage, StoreError> {
        self.enter().await?;
        let state = self.state();
        let is_behind = |position: u64| after.is_none_or(|after| position > after);
        let mut rows: Vec<u64> = state.outbox.iter().map(|entry| entry.position).collect();
        rows.extend(state.later.iter().map(|entry| entry.position));
        rows.retain(|position| is_behind(*position));
        rows.sort_unstable();
        rows.truncate(limit);
        let entries = state.outbox.iter().filter(|entry| rows.contains(&entry.position));
        let later = state.later.iter().filter(|entry| rows.contains(&entry.position));
        Ok(OutboxPage {
            entries: entries.cloned().collect(),
            later: later.copied().collect(),
            unreadable: Vec::new(),
        })
    }

    async fn outbox_done(&self, positions: &[u64]) -> Result<(), StoreError> {
        self.enter().await?;
        let mut state = self.state();
        state.outbox.retain(|entry| !positions.contains(&entry.position));
        state.later.retain(|entry| !positions.contains(&entry.position));
        Ok(())
    }
}

#[async_trait]
impl LinkStore for MemoryStore {
    fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let decided = state.decide(&insert, &self.numbering)?;
        let Insert { link, alias, request, events, .. } = insert;
        let at = link.created_at;
        match decided {
            Inserted::Created => {}
            Inserted::Existing(existing) => {
                let serial = state.find(&existing.key).map(|(serial, _)| serial);
                if let (Some(request), Some(serial)) = (request, serial) {
                    let fingerprint = request.fingerprint;
                    let answered = Answered { fingerprint, serial, at, created: false };
                    state.requests.insert(request.id, answered);
                }
                return Ok(Inserted::Existing(existing));
            }
            answer => return Ok(answer),
        }
        if let Some(alias) = alias {
            state.quarantined.remove(&link.key);
            state.aliases.insert(link.key.clone(), alias);
            state.changed(&link.key, link.revision);
        }
        state.last += 1;
        let serial = state.last;
        if let Some(request) = request {
            let fingerprint = request.fingerprint;
            let answered = Answered { fingerprint, serial, at, created: true };
            state.requests.insert(request.id, answered);
        }
        events.into_iter().for_each(|event| state.post(event, &link));
        state.serials.insert(link.key.clone(), serial);
        state.links.insert(serial, link);
        Ok(Inserted::Created)
    }

    async fn preview_insert(&self, insert: &Insert) -> Result<Inserted, StoreError> {
        self.enter().await?;
        self.state().decide(insert, &self.numbering)
    }

    async fn answered(&self, request: &IdempotencyKey) -> Result<Option<Inserted>, StoreError> {
        self.enter().await?;
        Ok(self.state().answered(request))
    }

    async fn update(
        &self,
        link: &Link,
        expected: Revision,
        events: &[OutboxEvent],
    ) -> Result<Updated, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let Some((serial, old)) = state.find(&link.key) else {
            return Ok(Updated::Missing);
        };
        if old.revision != expected {
            return Err(StoreError::Conflict);
        }
        let new = old.updated_to(link);
        let before = (!old.owner_visible_eq(&new))
            .then(|| LinkVersion { link: old.clone(), until: new.updated_at });
        if new.expires_at != old.expires_at {
            state.marked.remove(&serial);
        }
        if let Some(before) = before {
            let history = state.history.entry(serial).or_default();
            history.push(before);
            let too_many = history.len().saturating_sub(MAX_REVISIONS);
            history.drain(..too_many);
        }
        state.changed(&new.key, new.revision);
        events.iter().for_each(|event| state.post(*event, &new));
        state.links.insert(serial, new);
        Ok(Updated::Done)
    }

    async fn confirm(&self) -> Result<(), StoreError> {
        self.confirmations.fetch_add(1, Ordering::SeqCst);
        self.enter().await
    }

    async fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<LinkVersion>, StoreError> {
        self.enter().await?;
        let state = self.state();
        let history = state.find(key).and_then(|(serial, _)| state.history.get(&serial));
        Ok(history.into_iter().flatten().rev().take(limit).cloned().collect())
    }

    async fn forget_history(&self, key: &LinkKey) -> Result<(), StoreError> {
        self.enter().await?;
        let mut state = self.state();
        if let Some(serial) = state.find(key).map(|(serial, _)| serial) {
            state.history.remove(&serial);
        }
        Ok(())
    }

    async fn list(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        self.enter().await?;
        let after = query.after.as_ref().map(read_cursor).transpose()?;
        let state = self.state();
        let mut places: Vec<(Timestamp, u64)> =
            state.links.iter().map(|(serial, link)| (link.created_at, *serial)).collect();
        places.sort_unstable();
        if query.sort == Sort::Newest {
            places.reverse();
        }
        let behind = |place: &(Timestamp, u64)| match (after, query.sort) {
            (None, _) => true,
            (Some(after), Sort::Newest) => *place < after,
            (Some(after), Sort::Oldest) => *place > after,
        };
        let mut found = places
            .into_iter()
            .filter(behind)
            .map(|place| (place, &state.links[&place.1]))
            .filter(|(_, link)| query.matches(link))
            .peekable();
        let mut links = Vec::new();
        let mut last = None;
        while let Some((place, link)) = found.next_if(|_| links.len() < query.limit.max(1)) {
            links.push(link.clone());
            last = Some(place);
        }
        let next = found
            .peek()
            .and(last)
            .map(|(at, serial)| Cursor([at.as_ms().to_be_bytes(), serial.to_be_bytes()].concat()));
        Ok(LinkPage { links, next })
    }

    async fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, StoreError> {
        self.enter().await?;
        let mut counts = BTreeMap::<String, u64>::new();
        let state = self.state();
        let own =
            state.links.values().filter(|link| link.owner == owner && owner != OwnerId::ANONYMOUS);
        for tag in own.filter(|link| link.deleted_at.is_none()).flat_map(|link| link.tags.iter()) {
            *counts.entry(tag.to_owned()).or_default() += 1;
        }
        Ok(TagCount::ranked(counts, limit))
    }

    async fn lease_ahead(&self, lease: CodeLease) -> Result<Range<u64>, StoreError> {
        let CodeLease { length, count, capacity, at_least, skip } = lease;
        self.leases.fetch_add(1, Ordering::SeqCst);
        self.enter().await?;
        while self.stalled.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if !(MIN_CODE_LENGTH..=MAX_CODE_LENGTH).contains(&length) {
            return Err(StoreError::Exhausted);
        }
        let capacity = capacity.min(self.numbering.capacity(length));
        let at_least = at_least.min(self.numbering.capacity(length));
        let mut state = self.state();
        if at_least > state.leased.get(&length).copied().unwrap_or(0) {
            state.leased.insert(length, at_least);
            state.raise_incarnation(&self.numbering);
        }
        let next = state.leased.entry(length).or_default();
        let start = next.saturating_add(skip);
        if start >= capacity {
            return Err(StoreError::Exhausted);
        }
        let range = start..start.saturating_add(count.max(1)).min(capacity);
        *next = range.end;
        Ok(range)
    }

    async fn incarnation(&self) -> Result<u64, StoreError> {
        self.enter().await?;
        Ok(self.state().raised + 1)
    }

    async fn raise_incarnation(&self, seen: u64) -> Result<u64, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        if state.raised + 1 == seen {
            state.raise_incarnation(&self.numbering);
        }
        Ok(state.raised + 1)
    }

    async fn mark_expired(
        &self,
        now: Timestamp,
        limit: usize,
        subscribers: &[OwnerId],
    ) -> Result<Vec<LinkKey>, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let State { links, marked, .. } = &mut *state;
        let due = links.iter_mut().filter(|(serial, link)| {
            !marked.contains_key(serial) && link.expires_at.is_some_and(|at| at <= now)
        });
        let mut newly = Vec::new();
        for (serial, link) in due.take(limit) {
            link.reusable = false;
            newly.push((*serial, link.clone()));
        }
        for (serial, link) in &newly {
            state.marked.insert(*serial, now);
            state.changed(&link.key, link.revision);
            if link.status(now) == LinkStatus::Expired && subscribers.contains(&link.owner) {
                state.post(OutboxEvent { kind: EventKind::LinkExpired, at: now }, link);
            }
        }
        Ok(newly.into_iter().map(|(_, link)| link.key).collect())
    }

    async fn purge(
        &self,
        before: PurgeBefore,
        limit: usize,
        quarantine_until: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let due: Vec<u64> = state.purgeable(before).map(|(serial, _)| serial).take(limit).collect();
        let aliases =
            due.iter().filter_map(|serial| state.links.get(serial)).filter(|link| !link.generated);
        let quarantined: Vec<_> = aliases
            .filter_map(|link| Some((link.key.clone(), (link.owner, quarantine_until?))))
            .collect();
        state.quarantined.extend(quarantined);
        Ok(due.into_iter().filter_map(|serial| state.remove(serial)).collect())
    }

    async fn count_purgeable(&self, before: PurgeBefore) -> Result<u64, StoreError> {
        self.enter().await?;
        let state = self.state();
        let due = state.purgeable(before);
        Ok(due.filter(|(_, link)| link.deleted_at != Some(Timestamp::EPOCH)).count() as u64)
    }

    async fn count_links(&self) -> Result<u64, StoreError> {
        self.enter().await?;
        Ok(self.state().links.len() as u64)
    }

    async fn release(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let over: Vec<LinkKey> = state
            .quarantined
            .iter()
            .filter(|(_, (_, until))| *until <= now)
            .map(|(key, _)| key.clone())
            .take(limit)
            .collect();
        for key in &over {
            state.quarantined.remove(key);
        }
        Ok(over.len())
    }

    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let old: Vec<[u8; 32]> = state
            .requests
            .iter()
            .filter(|(_, answered)| answered.at < before)
            .map(|(id, _)| *id)
            .take(limit)
            .collect();
        for id in &old {
            state.requests.remove(id);
        }
        Ok(old.len())
    }

    async fn scrub(&self) -> Result<(), StoreError> {
        self.enter().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.enter().await
    }
}

fn read_cursor(cursor: &Cursor) -> Result<(Timestamp, u64), StoreError> {
    let bad = || StoreError::Corrupt("not a place in this list".into());
    let (at, serial) = cursor.0.split_at_checked(8).ok_or_else(bad)?;
    let at = i64::from_be_bytes(at.try_into().map_err(|_| bad())?);
    Ok((Timestamp::from_ms(at), u64::from_be_bytes(serial.try_into().map_err(|_| bad())?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{alias, key};

    async fn fresh() -> Option<crate::link_store::LinkStorePair> {
        let store = MemoryStore::new();
        let other = store.another_handle();
        Some(crate::link_store::LinkStorePair::two(store, other))
    }
    crate::link_store!(fresh);

    #[tokio::test]
    async fn it_fails_dawdles_and_counts_on_command() {
        let store = MemoryStore::new();
        store.insert(Insert::new(alias("abc", "https://example.com/"), None)).await.unwrap();
        store.fail(true);
        assert!(matches!(store.get(&key("abc")).await, Err(StoreError::Unavailable(_))));
        assert!(store.check().await.is_err());
        store.fail(false);
        store.delay(Duration::from_millis(30));
        let before = std::time::Instant::now();
        assert!(store.get(&key("abc")).await.unwrap().is_some());
        assert!(before.elapsed() >= Duration::from_millis(30));
        assert_eq!(store.gets(), 2);
    }
}
