//! Deleting: which clicks a store deletes, and which it must not count any more.

use async_trait::async_trait;

use crate::link::{LinkKey, OwnerId};
use crate::store::StoreError;
use crate::time::Timestamp;

/// Which data to delete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retention {
    /// Raw clicks of hours that ended by this time are deleted.
    pub raw_before: Timestamp,
    /// The most bytes that raw clicks may take, as the store measures them; the oldest are
    /// deleted. Without it, only their age counts.
    pub max_raw: Option<u64>,
    /// The sums of days that ended by this time may be written: no more clicks are expected. A
    /// store whose reports sum up hours does nothing.
    pub days_before: Timestamp,
    /// The hours of days that ended by this time are deleted; their days stay.
    pub hours_before: Timestamp,
    /// Tombstones of erasures before this time are deleted: the caller knows that every journal has
    /// been counted past it.
    pub tombstones_before: Timestamp,
    /// The largest number of rows that one call changes. Single clicks that are kept in blocks are
    /// deleted by the block.
    pub limit: usize,
}

/// The result of one call of [`ClickRetention::prune`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pruned {
    /// Raw clicks deleted.
    pub raw: u64,
    /// Hours that were added to the sums of their days.
    pub hours: u64,
    /// Tombstones deleted.
    pub tombstones: u64,
    /// Whether there is more to do.
    pub more: bool,
}

/// Deletes clicks: by age, and with the link or the owner they belong to.
///
/// Clicks wait in journals before they are counted, so those of an erased link may arrive after the
/// erasure. Each erasure leaves a tombstone, which every later [`add`](super::ClickIngest::add)
/// obeys until [`Retention::tombstones_before`] has passed it.
///
/// Each promise has a test in `terse_testkit::click_store!`.
#[async_trait]
pub trait ClickRetention: Send + Sync + 'static {
    /// Deletes everything about the clicks of the links with these keys that were created by
    /// `created_by`. Clicks made by `erased_at` that arrive later are not counted for these links.
    /// All of them stay in the sums of the owner and of everything.
    async fn erase_links(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Deletes everything about the clicks of an owner's links, and the owner's own sums. Clicks
    /// that arrive later are counted neither for the links nor for the owner. All of them stay in
    /// the sum of everything.
    async fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) -> Result<(), StoreError>;

    /// Returns once what was deleted is gone from the store's own files, as
    /// [`LinkStore::scrub`](crate::LinkStore::scrub) does for links.
    async fn scrub(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// One bounded step, safe to repeat: deletes raw clicks and tombstones that are old enough, and
    /// merges hours into days. The caller repeats it while there is more.
    async fn prune(&self, retention: Retention) -> Result<Pruned, StoreError>;

    /// Forgets the logs of CDNs that were imported last before this day, with their positions: see
    /// [`JournalId::log_generation`](super::JournalId::log_generation). Journals of nodes stay.
    /// Returns how many were forgotten.
    async fn forget_logs(&self, _before: Timestamp) -> Result<u64, StoreError> {
        Ok(0)
    }
}
