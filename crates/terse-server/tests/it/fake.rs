//! A link store in memory, just enough for the server's tests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use terse_core::*;

pub(crate) struct Fake {
    identity: StoreIdentity,
    inner: Mutex<Inner>,
    /// While set, every call fails.
    pub(crate) away: AtomicBool,
    /// If set, this many more calls succeed, and all later ones fail.
    pub(crate) left: Mutex<Option<usize>>,
    /// While set, every code is taken.
    pub(crate) full: AtomicBool,
    /// If not 0, a list examines this many links and then stops early.
    pub(crate) examined: AtomicUsize,
    /// How many pages of lists were read.
    pub(crate) lists: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    links: BTreeMap<LinkKey, Link>,
    history: Vec<LinkVersion>,
    /// With the link that answered each, and whether the request created it.
    requests: Vec<(IdempotencyKey, LinkKey, bool)>,
    next: u64,
}

impl Inner {
    /// The answer to a request that was answered before.
    fn answered(&self, request: &IdempotencyKey) -> Option<Inserted> {
        let (first, key, created) =
            self.requests.iter().find(|(have, ..)| have.id == request.id)?;
        if first.fingerprint != request.fingerprint {
            return Some(Inserted::RequestMismatch);
        }
        let link = self.links.get(key).cloned().map(Box::new);
        Some(Inserted::Replayed { link, created: *created })
    }
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        let identity = StoreIdentity::from_stored([1; 32], Alphabet::Base62, CodeHash::Hmac);
        Arc::new(Self {
            identity,
            inner: Mutex::default(),
            away: AtomicBool::new(false),
            left: Mutex::new(None),
            full: AtomicBool::new(false),
            examined: AtomicUsize::new(0),
            lists: AtomicUsize::new(0),
        })
    }

    /// All stored links, to compare.
    #[allow(dead_code, reason = "the example compares nothing")]
    pub(crate) fn everything(&self) -> Vec<Link> {
        self.inner.lock().expect("no test panics in here").links.values().cloned().collect()
    }

    fn open(&self) -> Result<std::sync::MutexGuard<'_, Inner>, StoreError> {
        let mut left = self.left.lock().expect("no test panics in here");
        let used_up = *left == Some(0);
        *left = left.map(|left| left.saturating_sub(1));
        if used_up || self.away.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("pulled the plug".into()));
        }
        Ok(self.inner.lock().expect("no test panics in here"))
    }
}

#[async_trait]
impl LinkReader for Fake {
    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        Ok(self.open()?.links.get(key).cloned())
    }

    async fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.get(key).await
    }
}

#[async_trait]
impl ClickSpender for Fake {
    async fn spend(&self, _: &LinkKey) -> Result<ClickSpend, StoreError> {
        Ok(ClickSpend::Yes)
    }
}

#[async_trait]
impl ChangeFeed for Fake {
    async fn last_change(&self) -> Result<ChangeCursor, StoreError> {
        Ok(ChangeCursor(0))
    }

    async fn changes(&self, next: ChangeCursor, _: usize) -> Result<ChangePage, StoreError> {
        Ok(ChangePage { changes: vec![], next, gap: false })
    }

    async fn announce(&self, _: &LinkKey) -> Result<(), StoreError> {
        self.open().map(drop)
    }
}

#[async_trait]
impl Outbox for Fake {
    async fn outbox(&self, _: Option<u64>, _: usize) -> Result<OutboxPage, StoreError> {
        Ok(OutboxPage::default())
    }

    async fn outbox_done(&self, _: &[u64]) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl LinkStore for Fake {
    fn identity(&self) -> &StoreIdentity {
        &self.identity
    }

    async fn insert(&self, insert: Insert) -> Result<Inserted, StoreError> {
        let link = insert.link;
        // Some take longer than others, as with any real store.
        for _ in 0..link.target.as_str().bytes().last().unwrap_or_default() % 3 {
            tokio::task::yield_now().await;
        }
        let mut inner = self.open()?;
        if let Some(answer) = insert.request.as_ref().and_then(|request| inner.answered(request)) {
            return Ok(answer);
        }
        let same = insert
            .reuse
            .and_then(|reuse| inner.links.values().find(|have| reuse.matches(have)).cloned());
        if let Some(have) = same {
            let answered = insert.request.map(|request| (request, have.key.clone(), false));
            inner.requests.extend(answered);
            return Ok(Inserted::Existing(Box::new(have)));
        }
        if self.full.load(Ordering::Relaxed) || inner.links.contains_key(&link.key) {
            return Err(StoreError::CodeTaken);
        }
        inner.requests.extend(insert.request.map(|request| (request, link.key.clone(), true)));
        inner.links.insert(link.key.clone(), link);
        Ok(Inserted::Created)
    }

    async fn preview_insert(&self, insert: &Insert) -> Result<Inserted, StoreError> {
        let inner = self.open()?;
        let reuse = insert.reuse.as_ref();
        let same =
            reuse.and_then(|reuse| inner.links.values().find(|have| reuse.matches(have)).cloned());
        match same {
            Some(have) => Ok(Inserted::Existing(Box::new(have))),
            None if inner.links.contains_key(&insert.link.key) => Err(StoreError::CodeTaken),
            None => Ok(Inserted::Created),
        }
    }

    async fn answered(&self, request: &IdempotencyKey) -> Result<Option<Inserted>, StoreError> {
        Ok(self.open()?.answered(request))
    }

    async fn update(
        &self,
        link: &Link,
        expected: Revision,
        _: &[OutboxEvent],
    ) -> Result<Updated, StoreError> {
        let mut inner = self.open()?;
        let Inner { links, history, .. } = &mut *inner;
        match links.get_mut(&link.key) {
            None => Ok(Updated::Missing),
            Some(have) if have.revision != expected => Err(StoreError::Conflict),
            Some(have) => {
                if !have.owner_visible_eq(link) {
                    history.push(LinkVersion { link: have.clone(), until: link.updated_at });
                }
                *have = link.clone();
                Ok(Updated::Done)
            }
        }
    }

    async fn confirm(&self) -> Result<(), StoreError> {
        self.open().map(drop)
    }

    async fn history(&self, key: &LinkKey, limit: usize) -> Result<Vec<LinkVersion>, StoreError> {
        Ok(self
            .open()?
            .history
            .iter()
            .rev()
            .filter(|past| past.link.key == *key)
            .take(limit)
            .cloned()
            .collect())
    }

    async fn forget_history(&self, key: &LinkKey) -> Result<(), StoreError> {
        self.open()?.history.retain(|past| past.link.key != *key);
        Ok(())
    }

    async fn list(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        let skip = query.after.as_ref().map_or(0, |cursor| usize::from(cursor.0[0]));
        self.lists.fetch_add(1, Ordering::Relaxed);
        let inner = self.open()?;
        let matches = |link: &&Link| {
            let status = link.status(query.now);
            query.owner.is_none_or(|owner| link.owner == owner)
                && query.status.map_or(status != LinkStatus::Deleted, |wanted| wanted == status)
                && query.archived.is_none_or(|archived| link.archived_at.is_some() == archived)
                && query.tag.as_ref().is_none_or(|tag| link.tags.iter().any(|have| have == tag))
                && query.domain.as_ref().is_none_or(|domain| link.key.domain == *domain)
                && query.text.as_ref().is_none_or(|text| link.contains(&text.to_ascii_lowercase()))
        };
        let examined = self.examined.load(Ordering::Relaxed);
        let mut all: Vec<Link> =
            inner.links.values().filter(|link| examined > 0 || matches(link)).cloned().collect();
        all.sort_by_key(|link| (link.created_at, link.key.clone()));
        if query.sort == Sort::Newest {
            all.reverse();
        }
        let limit = if examined > 0 { examined } else { query.limit };
        let end = all.len().min(skip + limit);
        let next = (end < all.len()).then(|| Cursor(vec![u8::try_from(end).expect("few links")]));
        let links = all[skip.min(end)..end].iter().filter(matches).cloned().collect();
        Ok(LinkPage { links, next })
    }

    async fn tags(&self, owner: OwnerId, limit: usize) -> Result<Vec<TagCount>, StoreError> {
        let mut counts = BTreeMap::<String, u64>::new();
        for tag in self
            .open()?
            .links
            .values()
            .filter(|link| link.owner == owner)
            .flat_map(|link| link.tags.iter())
        {
            *counts.entry(tag.to_owned()).or_default() += 1;
        }
        Ok(TagCount::ranked(counts, limit))
    }

    async fn lease_ahead(&self, lease: CodeLease) -> Result<Range<u64>, StoreError> {
        let mut inner = self.open()?;
        let start = inner.next + lease.skip;
        inner.next = start + lease.count;
        Ok(start..inner.next)
    }

    async fn incarnation(&self) -> Result<u64, StoreError> {
        Ok(1)
    }

    async fn raise_incarnation(&self, seen: u64) -> Result<u64, StoreError> {
        Ok(seen)
    }

    async fn mark_expired(
        &self,
        _: Timestamp,
        _: usize,
        _: &[OwnerId],
    ) -> Result<Vec<LinkKey>, StoreError> {
        Ok(vec![])
    }

    async fn purge(
        &self,
        before: terse_core::PurgeBefore,
        limit: usize,
        _: Option<Timestamp>,
    ) -> Result<Vec<LinkKey>, StoreError> {
        let mut inner = self.open()?;
        let over = |link: &&Link| {
            link.moderation != ModerationStatus::Blocked
                && link.deleted_at.is_some_and(|at| at <= before.ended)
        };
        let keys: Vec<LinkKey> =
            inner.links.values().filter(over).take(limit).map(|link| link.key.clone()).collect();
        keys.iter().for_each(|key| drop(inner.links.remove(key)));
        Ok(keys)
    }

    async fn count_purgeable(&self, _: PurgeBefore) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn count_links(&self) -> Result<u64, StoreError> {
        Ok(self.open()?.links.len() as u64)
    }

    async fn release(&self, _: Timestamp, _: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn forget_requests(&self, _: Timestamp, _: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn scrub(&self) -> Result<(), StoreError> {
        self.open().map(|_| ())
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.open().map(|_| ())
    }
}
