//! The ledger: what gives a store without transactions batches that are counted once and appear
//! as a whole.
//!
//! The ledger is in the registry, which has transactions. It gives every batch a number. The store
//! writes the rows of a batch with that number, and a reader asks the ledger first which numbers
//! it may use ([`LedgerSnapshot`]). So rows of a batch that was begun and never finished, or that
//! were written a second time under another number, are in no report, whatever was killed when.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;

use super::click::{ClickTarget, LinkId};
use super::columns::{ClickRow, WarningVisit};
use super::delta::{Delta, SumSubject};
use super::export::ErasedLink;
use super::ingest::{Added, Batch, Forgotten, JournalId, JournalSpan, Opened, Position};
use super::report::ClickSubject;
use crate::link::{LinkKey, OwnerId};
use crate::store::StoreError;
use crate::time::Timestamp;

/// What a ledger says to a batch.
#[derive(Clone, Debug)]
pub enum BeginResult {
    /// The batch is not to be written.
    Refused(Added),
    /// The store writes the batch under this number, and finishes it.
    Accepted {
        /// The number. A batch that is begun again soon has the number of the first try.
        sequence: u64,
        /// Which of its clicks are not counted.
        tombstones: Tombstones,
    },
}

/// The outcome of finishing a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FinishResult {
    /// The batch is counted from now on.
    Now,
    /// Another call has finished it before.
    Before,
    /// The ledger has given the same clicks another number since: nothing under this number is
    /// ever counted.
    Abandoned,
}

/// Rows that reports leave out, and that are to be deleted from the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LedgerErasure {
    /// Rows with this number or a lower one are erased.
    pub sequence: u64,
    /// Whose rows.
    pub erased: ErasedSubject,
}

/// What was erased.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ErasedSubject {
    /// The links with this key that were created by this time.
    Link(LinkKey, Timestamp),
    /// The links of this owner, and the owner's own sums.
    Owner(OwnerId),
}

/// Rows that the store is merging into fewer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LedgerMerge {
    /// The number of the rows that replace others.
    pub sequence: u64,
    /// They replace rows up to this number. All of these are finished, or never will be.
    pub up_to: u64,
}

/// Which rows of the store count, at one time.
#[derive(Clone, Debug, Default)]
pub struct LedgerSnapshot {
    /// The highest number that was given out.
    pub last: u64,
    /// Numbers that do not count: of batches and merges that were begun and not finished.
    pub unfinished: Vec<u64>,
    /// Erased rows that may still be in the store.
    pub erasures: Vec<LedgerErasure>,
    /// The positions of the journal that was asked for. They include all batches that count, and no
    /// others.
    pub positions: Vec<Position>,
}

/// Work that an earlier process left in the store.
#[derive(Clone, Debug, Default)]
pub struct LedgerCleanup {
    /// Rows with these numbers never count. Delete them.
    pub abandoned: Vec<u64>,
    /// These merges are finished: delete what they replaced.
    pub merged: Vec<LedgerMerge>,
    /// Delete these rows.
    pub erasures: Vec<LedgerErasure>,
}

/// Decides, for a store without transactions, which batches count. Implementations keep it in a
/// database with transactions.
#[async_trait]
pub trait ClickLedger: Send + Sync + 'static {
    /// See [`ClickIngest::open`](super::ClickIngest::open).
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError>;

    /// Begins a batch, or refuses it as [`ClickIngest::add`](super::ClickIngest::add) does. A batch
    /// that was begun less than `repeat_within` ago gets its number again; after that, and for
    /// other batches of the same clicks, the earlier number is abandoned.
    async fn begin(
        &self,
        batch: &Batch,
        repeat_within: Duration,
    ) -> Result<BeginResult, StoreError>;

    /// Counts a batch: its rows are stored. Moves the positions in the same step.
    async fn finish(&self, sequence: u64) -> Result<FinishResult, StoreError>;

    /// See [`ClickIngest::forget`](super::ClickIngest::forget).
    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError>;

    /// Which rows count now, and the positions of a journal at the same time.
    async fn snapshot(&self, journal: Option<JournalId>) -> Result<LedgerSnapshot, StoreError>;

    /// Leaves tombstones for links. Returns the number of the erasure.
    async fn erase_links(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Leaves a tombstone for an owner. Returns the number of the erasure.
    async fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) -> Result<u64, StoreError>;

    /// The rows of these erasures are deleted. An erasure stays in the snapshots while a batch that
    /// was begun before it may still be written.
    async fn erased(&self, sequences: &[u64]) -> Result<(), StoreError>;

    /// Deletes tombstones of erasures before a time, at most `limit`. Returns how many.
    async fn prune_tombstones(&self, before: Timestamp, limit: u64) -> Result<u64, StoreError>;

    /// See [`ClickRetention::forget_logs`](super::ClickRetention::forget_logs).
    async fn forget_logs(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// See [`ClickExport::erased_links`](super::ClickExport::erased_links).
    async fn erased_links(
        &self,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, StoreError>;

    /// See [`ClickExport::erased_owners`](super::ClickExport::erased_owners).
    async fn erased_owners(&self, since: Timestamp) -> Result<Vec<OwnerId>, StoreError>;

    /// Begins to merge rows. Earlier merges that are not finished never will be.
    async fn begin_merge(&self) -> Result<LedgerMerge, StoreError>;

    /// The merged rows count from now on, unless another merge was begun since (then false).
    async fn finish_merge(&self, sequence: u64) -> Result<bool, StoreError>;

    /// What to delete from the store. Rows that reports of `settled` ago may still be reading are
    /// not in it.
    async fn cleanup(&self, settled: Duration) -> Result<LedgerCleanup, StoreError>;

    /// Forgets numbers of batches and merges whose rows were deleted.
    async fn cleaned(&self, sequences: &[u64]) -> Result<(), StoreError>;

    /// Checks whether the ledger answers.
    async fn check(&self) -> Result<(), StoreError>;
}

/// Tombstones that concern a batch.
#[derive(Clone, Debug, Default)]
pub struct Tombstones {
    /// Up to which creation time, and up to which click, a key's links are erased.
    pub links: HashMap<LinkKey, Vec<(Timestamp, Timestamp)>>,
    /// Erased owners.
    pub owners: HashSet<OwnerId>,
}

impl Tombstones {
    /// What they mean for the clicks of a batch.
    pub fn of_batch(&self, batch: &Batch) -> ErasedClicks {
        let mut links = BTreeMap::new();
        for (number, target) in (0u32..).zip(&batch.clicks.targets) {
            let ClickTarget::Link(LinkId { key, created_at }, _) = target else { continue };
            let stones = self.links.get(key).into_iter().flatten();
            let covering = stones.filter(|(created_by, _)| created_at <= created_by);
            if let Some(until) = covering.map(|(_, erased_at)| *erased_at).max() {
                links.insert(number, until);
            }
        }
        ErasedClicks { links, owners: self.owners.clone() }
    }
}

/// The clicks of a batch that are not counted.
#[derive(Clone, Debug)]
pub struct ErasedClicks {
    /// Up to when clicks are not counted for a link, by the number of its target.
    links: BTreeMap<u32, Timestamp>,
    owners: HashSet<OwnerId>,
}

impl ErasedClicks {
    /// For links with a tombstone, the sums of the clicks after it.
    pub fn late_sums(&self, batch: &Batch) -> Vec<Delta> {
        let late = self.links.iter().map(|(target, until)| batch.sums_after(*target, *until));
        late.flatten().collect()
    }

    /// The sums to count. `late` is from [`Self::late_sums`].
    pub fn counted<'a>(&self, batch: &'a Batch, late: &'a [Delta]) -> Vec<&'a Delta> {
        let is_whole = |delta: &&Delta| match delta.subject {
            SumSubject::Link(target) => !self.links.contains_key(&target),
            _ => true,
        };
        let all = batch.sums.iter().filter(is_whole).chain(late);
        all.filter(|delta| !self.leaves_out(batch, delta)).collect()
    }

    fn leaves_out(&self, batch: &Batch, delta: &Delta) -> bool {
        match delta.subject {
            SumSubject::Link(target) => batch
                .clicks
                .targets
                .get(target as usize)
                .is_some_and(|target| self.is_owner_erased(target)),
            SumSubject::Owner(owner) => self.owners.contains(&owner),
            SumSubject::Everything | SumSubject::Orphans => false,
        }
    }

    /// Whether the link belongs to an erased owner.
    pub fn is_owner_erased(&self, target: &ClickTarget) -> bool {
        matches!(target, ClickTarget::Link(_, owner) if self.owners.contains(owner))
    }

    /// Whether a single click on a link is kept. Views of warning pages are not clicks.
    pub fn keeps(&self, batch: &Batch, row: &ClickRow) -> bool {
        let target = &batch.clicks.targets[row.target as usize];
        let is_late = self.links.get(&row.target).is_some_and(|by| row.at_ms <= by.as_ms());
        matches!(target, ClickTarget::Link(..))
            && !is_late
            && !self.is_owner_erased(target)
            && row.warning != WarningVisit::Shown
    }
}

impl ErasedSubject {
    /// Whether a report about this subject leaves such rows out.
    pub fn concerns(&self, subject: &ClickSubject) -> bool {
        match (self, subject) {
            (Self::Link(key, created_by), ClickSubject::Link(link)) => {
                link.key == *key && link.created_at <= *created_by
            }
            (Self::Owner(erased), ClickSubject::Owner(owner)) => erased == owner,
            _ => false,
        }
    }
}

/// Whether two batches share a part of a segment.
pub fn spans_overlap(one: &[JournalSpan], other: &[JournalSpan]) -> bool {
    one.iter().any(|a| {
        other.iter().any(|b| {
            (a.journal, a.segment) == (b.journal, b.segment) && a.from < b.to && b.from < a.to
        })
    })
}
