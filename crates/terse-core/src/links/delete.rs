//! Deleting, restoring, erasing and forgetting links.

use super::{Caller, LinkError, Links};
use crate::link::{Link, LinkKey, OwnerId};
use crate::principal::Principal;
use crate::registry::Role;
use crate::text::Tags;
use crate::time::Timestamp;

/// The deletion time of erased links. No grace time reaches back to it, so they are never restored.
const LONG_AGO: Timestamp = Timestamp::EPOCH;

impl Links {
    /// Deletes a link; it can be restored within the grace time. Deleting it again changes nothing.
    pub async fn delete(&self, caller: Caller, key: &LinkKey) -> Result<(), LinkError> {
        let deleted = self.change(caller, key, None, |link, now| {
            let mut new = link.clone();
            if new.deleted_at.is_none() {
                new.deleted_at = Some(now);
                new.reusable = false;
                new.revision.0 += 1;
            }
            Ok(new)
        });
        deleted.await.map(|_| ())
    }

    /// Restores a deleted link within the grace time.
    pub async fn restore(&self, caller: Caller, key: &LinkKey) -> Result<Link, LinkError> {
        self.change(caller, key, None, |link, now| {
            let mut new = link.clone();
            if let Some(at) = new.deleted_at {
                if at == LONG_AGO || at < now.saturating_sub(self.rules.grace) {
                    return Err(LinkError::NotFound);
                }
                new.deleted_at = None;
                new.updated_at = now.max(link.updated_at);
                new.revision.0 += 1;
                // Re-scans skip deleted links.
                if let Some(screened) = self.screened(&new) {
                    new = Link { revision: new.revision, ..screened };
                }
            }
            Ok(new)
        })
        .await
        .inspect(|link| self.revisit_if_unscreened(link))
    }

    /// Erases a link with its owner's account: it cannot be restored, and [`Links::purge_erased`]
    /// deletes it. A blocked link stays, so that its code is never issued again, but without its
    /// owner's texts. Erasing again, or a link that is gone, changes nothing.
    pub async fn erase(&self, owner: OwnerId, key: &LinkKey) -> Result<(), LinkError> {
        let erased = self.change(Caller::Owner(owner), key, None, |link, _| {
            let mut new = link.clone();
            if new.deleted_at != Some(LONG_AGO) {
                (new.deleted_at, new.reusable, new.title, new.tags) =
                    (Some(LONG_AGO), false, None, Tags::default());
                (new.notes, new.password, new.rules) = (None, None, None);
                new.revision.0 += 1;
            }
            Ok(new)
        });
        match erased.await {
            // Earlier versions contain the owner's texts, too.
            Ok(_) => Ok(self.store.forget_history(key).await?),
            Err(LinkError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes every node forget its copies of a link, in its memory and in the shared cache, so that
    /// the next visit reads the store. Needed only after a row of the store was removed or replaced
    /// without terse: nodes notice by themselves what terse changes. Only for admins.
    pub async fn forget(&self, principal: &Principal, key: &LinkKey) -> Result<(), LinkError> {
        principal.require(Role::Admin)?;
        self.store.announce(key).await?;
        self.cache.forget_everywhere(key);
        Ok(())
    }

    /// Returns once nothing of deleted links is left in the store's own files.
    pub async fn scrub(&self) -> Result<(), LinkError> {
        Ok(self.store.scrub().await?)
    }

    /// Deletes up to `limit` erased links permanently, and returns how many.
    pub async fn purge_erased(&self, limit: usize) -> Result<usize, LinkError> {
        let keys = self
            .store
            .purge(LONG_AGO.into(), limit, self.rules.quarantine_until(self.clock.now()))
            .await?;
        keys.iter().for_each(|key| self.cache.forget_everywhere(key));
        Ok(keys.len())
    }
}
