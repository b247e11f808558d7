//! Expiry and deletion by age: links expire, and links that were deleted or expired long enough ago
//! are deleted permanently. The reaper calls these functions in rounds, each in batches.

use std::time::Duration;

use super::Links;
use crate::link::LinkKey;
use crate::store::{PurgeBefore, StoreError};

/// How long a request id is kept: the guaranteed 24 hours, and one hour more.
const REMEMBER_REQUESTS: Duration = Duration::from_hours(25);

impl Links {
    /// Marks up to `limit` links past their expiry as expired, drops their cached routes, and
    /// returns their keys. Owners who want events get one for each, written in the same
    /// transaction. Expiry does not change the link itself.
    pub async fn expire(&self, limit: usize) -> Result<Vec<LinkKey>, StoreError> {
        let subscribers = self.events.subscribers();
        let keys = self.store.mark_expired(self.clock.now(), limit, &subscribers).await?;
        keys.iter().for_each(|key| self.cache.forget(key));
        if !keys.is_empty() && !subscribers.is_empty() {
            self.events.written();
        }
        Ok(keys)
    }

    /// Permanently deletes up to `limit` links: deleted ones and expired ones without an owner after
    /// the grace time, and expired ones of owners after `keep_expired`. Quarantines their aliases,
    /// drops their cached routes, and returns their keys.
    pub async fn purge(&self, limit: usize) -> Result<Vec<LinkKey>, StoreError> {
        let now = self.clock.now();
        let before = PurgeBefore {
            ended: now.saturating_sub(self.rules.grace),
            expired_with_owner: now.saturating_sub(self.rules.keep_expired),
        };
        let quarantine = self.rules.quarantine_until(now);
        let keys = self.store.purge(before, limit, quarantine).await?;
        keys.iter().for_each(|key| self.cache.forget(key));
        Ok(keys)
    }

    /// Releases up to `limit` aliases whose quarantine is over, and returns how many.
    pub async fn release_aliases(&self, limit: usize) -> Result<usize, StoreError> {
        self.store.release(self.clock.now(), limit).await
    }

    /// Deletes up to `limit` request ids that are no longer needed, and returns how many.
    pub async fn forget_requests(&self, limit: usize) -> Result<usize, StoreError> {
        let before = self.clock.now().saturating_sub(REMEMBER_REQUESTS);
        self.store.forget_requests(before, limit).await
    }
}
