//! A store in memory: true to every promise, and breakable on command.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::{
    Absence, Alphabet, ClickSpend, ClickSpender, Code, Cursor, Domain, Identity, Insert, Inserted,
    Link, LinkKey, LinkReader, LinkStore, LinkVersion, ListQuery, MAX_CODE_LENGTH, MAX_REVISIONS,
    MIN_CODE_LENGTH, ModerationStatus, Numbering, OwnerId, Page, Request, Revision, Sort, Status,
    StoreError, TagCount, Timestamp, Updated,
};

/// Keeps links in memory and nowhere else. Tests can make it fail, make it slow, and count what is
/// read from it.
#[derive(Debug)]
pub struct MemoryStore {
    identity: Identity,
    numbering: Numbering,
    state: Mutex<State>,
    failing: AtomicBool,
    /// Whether `surely_absent` answers `Likely` where it knows better.
    unsure: AtomicBool,
    corrupt: Mutex<HashSet<LinkKey>>,
    delay_ms: AtomicU64,
    gets: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// By serial number, which is never used twice: a request must not be answered with a later
    /// link of the same name.
    links: BTreeMap<u64, Link>,
    serials: HashMap<LinkKey, u64>,
    last: u64,
    marked: HashSet<u64>,
    /// Latest last.
    history: HashMap<u64, Vec<LinkVersion>>,
    requests: HashMap<[u8; 32], Answered>,
    leased: HashMap<u8, u64>,
    /// Aliases of links that are gone: whose they were, and until when nobody else gets them.
    held: HashMap<LinkKey, (OwnerId, Timestamp)>,
}

#[derive(Debug)]
struct Answered {
    fingerprint: [u8; 32],
    serial: u64,
    at: Timestamp,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty one. Every one has the same identity, so that codes in tests are the same in every
    /// run.
    pub fn new() -> Self {
        let identity = Identity::from_stored([7; 32], Alphabet::Base62);
        Self {
            numbering: Numbering::new(&identity),
            identity,
            state: Mutex::default(),
            failing: AtomicBool::new(false),
            unsure: AtomicBool::new(false),
            corrupt: Mutex::default(),
            delay_ms: AtomicU64::new(0),
            gets: AtomicU64::new(0),
        }
    }

    /// From now on every call answers `Unavailable`, or no longer.
    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// From now on `get` of this key answers `Corrupt`, as for a row that cannot be read.
    pub fn corrupt(&self, key: LinkKey) {
        self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// From now on every call takes at least this long.
    pub fn delay(&self, by: Duration) {
        self.delay_ms.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// From now on `surely_absent` answers `Likely` at best, as a store of several nodes does.
    pub fn be_unsure(&self) {
        self.unsure.store(true, Ordering::SeqCst);
    }

    /// How many times `get` was called, failures included.
    pub fn gets(&self) -> u64 {
        self.gets.load(Ordering::SeqCst)
    }

    /// The gate every call passes before it does anything.
    async fn enter(&self) -> Result<(), StoreError> {
        let delay = self.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if self.failing.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to fail".into()));
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&self, key: &LinkKey) -> Option<(u64, &Link)> {
        let serial = *self.serials.get(key)?;
        Some((serial, self.links.get(&serial)?))
    }

    fn remove(&mut self, serial: u64) -> Option<LinkKey> {
        let link = self.links.remove(&serial)?;
        self.serials.remove(&link.key);
        self.marked.remove(&serial);
        self.history.remove(&serial);
        Some(link.key)
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

    fn surely_absent(&self, domain: &Domain, code: &str) -> Absence {
        let (Some((length, n)), Some(code)) =
            (self.numbering.number(code.as_bytes()), Code::parse(code))
        else {
            return Absence::Unknown;
        };
        let key = LinkKey { domain: domain.clone(), code };
        let state = self.state();
        let leased = n < state.leased.get(&length).copied().unwrap_or(0);
        match (leased || state.serials.contains_key(&key), self.unsure.load(Ordering::SeqCst)) {
            (true, _) => Absence::Unknown,
            (false, true) => Absence::Likely,
            (false, false) => Absence::Certain,
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
impl LinkStore for MemoryStore {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let Insert { link, request } = insert;
        if let Some(request) = &request
            && let Some(answered) = state.requests.get(&request.id)
        {
            return Ok(if answered.fingerprint == request.fingerprint {
                Inserted::Replayed(state.links.get(&answered.serial).cloned().map(Box::new))
            } else {
                Inserted::RequestMismatch
            });
        }
        if link.reusable {
            let existing = state.links.iter().find(|(_, have)| {
                have.reusable
                    && (have.owner, &have.key.domain, &have.target)
                        == (link.owner, &link.key.domain, &link.target)
                    && have.status(link.created_at) == Status::Active
            });
            if let Some((&serial, existing)) = existing {
                let existing = Box::new(existing.clone());
                if let Some(Request { id, fingerprint }) = request {
                    state
                        .requests
                        .insert(id, Answered { fingerprint, serial, at: link.created_at });
                }
                return Ok(Inserted::Existing(existing));
            }
        }
        if state.serials.contains_key(&link.key) {
            return Err(StoreError::CodeTaken);
        }
        let folded = link.key.code.folded();
        let too_alike = |have: &Link| {
            let anothers = have.owner != link.owner || have.owner == OwnerId::ANONYMOUS;
            !have.generated
                && anothers
                && have.key.domain == link.key.domain
                && have.key.code.folded() == folded
        };
        if !link.generated && state.links.values().any(too_alike) {
            return Err(StoreError::CodeTaken);
        }
        // What was made by us is nobody's to choose.
        let issued = |(length, n): (u8, u64)| n < state.leased.get(&length).copied().unwrap_or(0);
        let made = self.numbering.number(link.key.code.as_str().as_bytes()).is_some_and(issued);
        if made && !link.generated && link.owner != OwnerId::ADMIN {
            return Err(StoreError::CodeTaken);
        }
        // Nobody was the owner of an anonymous one; and what is made by us avoids them all.
        let is_anothers = |owner: OwnerId| owner != link.owner || owner == OwnerId::ANONYMOUS;
        let is_held = |(key, (owner, _)): (&LinkKey, &(OwnerId, Timestamp))| match link.generated {
            true => *key == link.key,
            false => {
                key.domain == link.key.domain && key.code.folded() == folded && is_anothers(*owner)
            }
        };
        if state.held.iter().any(is_held) {
            return Err(StoreError::CodeTaken);
        }
        state.held.remove(&link.key);
        state.last += 1;
        let serial = state.last;
        if let Some(request) = request {
            state.requests.insert(
                request.id,
                Answered { fingerprint: request.fingerprint, serial, at: link.created_at },
            );
        }
        state.serials.insert(link.key.clone(), serial);
        state.links.insert(serial, link);
        Ok(Inserted::Created)
    }

    async fn update(&self, link: &Link, expected: Revision) -> Result<Updated, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let Some((serial, old)) = state.find(&link.key) else {
            return Ok(Updated::Missing);
        };
        if old.revision != expected {
            return Err(StoreError::Conflict);
        }
        let new = Link {
            key: old.key.clone(),
            owner: old.owner,
            generated: old.generated,
            created_at: old.created_at,
            spent_clicks: old.spent_clicks,
            ..link.clone()
        };
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
        state.links.insert(serial, new);
        Ok(Updated::Done)
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

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
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
            .filter(|(_, link)| matches(query, link))
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
        Ok(Page { links, next })
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

    async fn lease(&self, length: u8, count: u64, capacity: u64) -> Result<Range<u64>, StoreError> {
        self.enter().await?;
        if !(MIN_CODE_LENGTH..=MAX_CODE_LENGTH).contains(&length) {
            return Err(StoreError::Exhausted);
        }
        let capacity = capacity.min(self.numbering.capacity(length));
        let mut state = self.state();
        let next = state.leased.entry(length).or_default();
        if *next >= capacity {
            return Err(StoreError::Exhausted);
        }
        let range = *next..next.saturating_add(count.max(1)).min(capacity);
        *next = range.end;
        Ok(range)
    }

    async fn mark_expired(&self, now: Timestamp, limit: usize) -> Result<Vec<LinkKey>, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let State { links, marked, .. } = &mut *state;
        let due = links.iter_mut().filter(|(serial, link)| {
            !marked.contains(serial) && link.expires_at.is_some_and(|at| at <= now)
        });
        let mut keys = Vec::new();
        let mut newly = Vec::new();
        for (serial, link) in due.take(limit) {
            link.reusable = false;
            newly.push(*serial);
            keys.push(link.key.clone());
        }
        marked.extend(newly);
        Ok(keys)
    }

    async fn purge(
        &self,
        before: Timestamp,
        limit: usize,
        hold: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let over = |at: Option<Timestamp>| at.is_some_and(|at| at <= before);
        let due: Vec<u64> = state
            .links
            .iter()
            .filter(|(_, link)| {
                link.standing != ModerationStatus::Blocked
                    && (over(link.expires_at) || over(link.deleted_at))
            })
            .map(|(serial, _)| *serial)
            .take(limit)
            .collect();
        let aliases =
            due.iter().filter_map(|serial| state.links.get(serial)).filter(|link| !link.generated);
        let held: Vec<_> =
            aliases.filter_map(|link| Some((link.key.clone(), (link.owner, hold?)))).collect();
        state.held.extend(held);
        Ok(due.into_iter().filter_map(|serial| state.remove(serial)).collect())
    }

    async fn release(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.enter().await?;
        let mut state = self.state();
        let over: Vec<LinkKey> = state
            .held
            .iter()
            .filter(|(_, (_, until))| *until <= now)
            .map(|(key, _)| key.clone())
            .take(limit)
            .collect();
        for key in &over {
            state.held.remove(key);
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

    async fn check(&self) -> Result<(), StoreError> {
        self.enter().await
    }
}

fn matches(query: &ListQuery, link: &Link) -> bool {
    let contains =
        |text: &str, part: &str| text.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
    let status = link.status(query.now);
    query.owner.is_none_or(|owner| link.owner == owner)
        && query.domain.as_ref().is_none_or(|domain| link.key.domain == *domain)
        && query.tag.as_ref().is_none_or(|tag| link.tags.iter().any(|have| have == tag))
        && query.text.as_ref().is_none_or(|text| {
            contains(link.key.code.as_str(), text)
                || contains(link.target.as_str(), text)
                || link.title.as_ref().is_some_and(|title| contains(title.as_str(), text))
        })
        && query.archived.is_none_or(|archived| link.archived_at.is_some() == archived)
        && match query.status {
            None => status != Status::Deleted,
            Some(wanted) => status == wanted,
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

    async fn fresh() -> Option<MemoryStore> {
        Some(MemoryStore::new())
    }
    crate::link_store!(fresh);

    #[tokio::test]
    async fn it_fails_dawdles_and_counts_on_command() {
        let store = MemoryStore::new();
        store
            .insert(Insert { link: alias("abc", "https://example.com/"), request: None })
            .await
            .unwrap();
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
