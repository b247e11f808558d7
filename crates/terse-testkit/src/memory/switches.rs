//! What tests switch on a store: failures, delays, age and counts of calls.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::{LinkKey, OutboxEntry, StoreError};

use super::MemoryStore;

impl MemoryStore {
    /// Sets whether every call answers `Unavailable`.
    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// Makes `get` of this key answer `Corrupt`, as for an unreadable row.
    pub fn corrupt(&self, key: LinkKey) {
        self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// Makes `get` of this key answer `LaterVersion`.
    pub fn write_later_version(&self, key: LinkKey) {
        self.later.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// Delays every call by at least this long.
    pub fn delay(&self, by: Duration) {
        self.delay_ms.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Makes `surely_absent` answer `Likely` at best, as a store of several nodes does: also for
    /// links that exist, as if other nodes had added them.
    pub fn be_unsure(&self) {
        self.unsure.store(true, Ordering::SeqCst);
    }

    /// Sets how old the links are that it returns, as those of a cache.
    pub fn set_age(&self, age: Duration) {
        self.age_ms.store(age.as_millis() as u64, Ordering::SeqCst);
    }

    /// How many times `get` was called, failures included.
    pub fn gets(&self) -> u64 {
        self.gets.load(Ordering::SeqCst)
    }

    /// How many times `lease` was called.
    pub fn leases(&self) -> u64 {
        self.leases.load(Ordering::SeqCst)
    }

    /// How many times `confirm` was called.
    pub fn confirmations(&self) -> u64 {
        self.confirmations.load(Ordering::SeqCst)
    }

    /// Sets whether `lease` waits.
    pub fn stall_leases(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::SeqCst);
    }

    /// Forgets all leases, like a store that was restored from an older copy.
    pub fn forget_leases(&self) {
        self.state().leased.clear();
    }

    /// Puts an entry back into the outbox, as if its removal had failed.
    pub fn put_back(&self, entry: OutboxEntry) {
        self.state().outbox.push(entry);
    }

    /// Makes the waiting entries ones that only a later version of terse can read.
    pub fn make_outbox_later(&self) {
        let mut state = self.state();
        let entries = std::mem::take(&mut state.outbox);
        let later = |entry: &OutboxEntry| terse_core::LaterEntry {
            position: entry.position,
            at: entry.event.at,
        };
        state.later.extend(entries.iter().map(later));
    }

    /// Removes all change rows, as the pruning of old ones does.
    pub fn prune_changes(&self) {
        let mut state = self.state();
        state.pruned = state.last_change();
        state.changes.clear();
    }

    /// Every call runs this first; it delays or fails the call on command.
    pub(super) async fn enter(&self) -> Result<(), StoreError> {
        let delay = self.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if self.failing.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to fail".into()));
        }
        Ok(())
    }
}
