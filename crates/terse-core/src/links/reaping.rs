//! Expiry and deletion by age: links expire, and links that were deleted or expired long enough ago
//! are deleted permanently. The reaper calls these functions in rounds, each in batches, with a
//! time that it trusts.

use std::time::Duration;

use super::Links;
use crate::link::LinkKey;
use crate::store::{ListQuery, PurgeBefore, Sort, StoreError};
use crate::time::Timestamp;

/// How long a request id is kept: the guaranteed 24 hours, and one hour more.
const REMEMBER_REQUESTS: Duration = Duration::from_hours(25);

/// A purge of this many links needs no confirmation, whatever share of all links they are.
const SMALL_PURGE: u64 = 100;

impl Links {
    /// Marks up to `limit` links past their expiry as expired, drops their cached routes, and
    /// returns their keys. Owners who want events get one for each, written in the same
    /// transaction. Expiry does not change the link itself.
    pub async fn expire(&self, now: Timestamp, limit: usize) -> Result<Vec<LinkKey>, StoreError> {
        let subscribers = self.events.subscribers();
        let keys = self.store.mark_expired(now, limit, &subscribers).await?;
        keys.iter().for_each(|key| self.cache.forget_everywhere(key));
        if !keys.is_empty() && !subscribers.is_empty() {
            self.events.written();
        }
        Ok(keys)
    }

    /// Permanently deletes up to `limit` links: deleted ones and expired ones without an owner
    /// after the grace time, and expired ones of owners after `keep_expired`. Quarantines their
    /// aliases, drops their cached routes, and returns their keys. The time begins when a link was
    /// deleted, or when [`Links::expire`] marked it.
    pub async fn purge(&self, now: Timestamp, limit: usize) -> Result<Vec<LinkKey>, StoreError> {
        let before = self.purge_before(now);
        let quarantine = self.rules.quarantine_until(now);
        let keys = self.store.purge(before, limit, quarantine).await?;
        keys.iter().for_each(|key| self.cache.forget_everywhere(key));
        Ok(keys)
    }

    fn purge_before(&self, now: Timestamp) -> PurgeBefore {
        PurgeBefore {
            ended: now.saturating_sub(self.rules.grace),
            expired_with_owner: now.saturating_sub(self.rules.keep_expired),
        }
    }

    /// If a purge at `now` would delete more than `max_percent` of all links: how many it would
    /// delete, and how many there are. Small purges are never too many.
    pub async fn is_purge_too_large(
        &self,
        now: Timestamp,
        max_percent: u8,
    ) -> Result<Option<(u64, u64)>, StoreError> {
        let due = self.store.count_purgeable(self.purge_before(now)).await?;
        if due <= SMALL_PURGE || max_percent >= 100 {
            return Ok(None);
        }
        let all = self.store.count_links().await?;
        Ok((due.saturating_mul(100) > all.saturating_mul(max_percent.into())).then_some((due, all)))
    }

    /// When the newest link was created.
    pub async fn newest_write(&self) -> Result<Option<Timestamp>, StoreError> {
        let newest = ListQuery::all(Sort::Newest, 1, self.clock.now());
        Ok(self.store.list(&newest).await?.links.first().map(|link| link.created_at))
    }

    /// When the oldest link that is not deleted was created.
    pub async fn oldest_write(&self) -> Result<Option<Timestamp>, StoreError> {
        let oldest = ListQuery::all(Sort::Oldest, 1, self.clock.now());
        Ok(self.store.list(&oldest).await?.links.first().map(|link| link.created_at))
    }

    /// Releases up to `limit` aliases whose quarantine is over, and returns how many.
    pub async fn release_aliases(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.store.release(now, limit).await
    }

    /// Deletes up to `limit` request ids that are no longer needed, and returns how many.
    pub async fn forget_requests(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let before = now.saturating_sub(REMEMBER_REQUESTS);
        self.store.forget_requests(before, limit).await
    }
}
