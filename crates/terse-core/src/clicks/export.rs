//! Copying: what an archive of single clicks reads from a store.

use async_trait::async_trait;

use super::report::{ClickCursor, ClickPage};
use crate::link::{LinkKey, OwnerId};
use crate::store::StoreError;
use crate::time::Timestamp;

/// Which single clicks of all links to read, the earliest first.
#[derive(Clone, Copy, Debug)]
pub struct PeriodQuery {
    /// The start, inclusive.
    pub from: Timestamp,
    /// The end, exclusive.
    pub to: Timestamp,
    /// Only clicks after this position.
    pub after: Option<ClickCursor>,
    /// The largest number of clicks to return. A store may return fewer.
    pub limit: usize,
}

/// The links with this key that were created by a time were erased.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ErasedLink {
    /// Domain and code.
    pub key: LinkKey,
    /// The latest creation time of an erased link with this key.
    pub created_by: Timestamp,
    /// When they were erased.
    pub erased_at: Timestamp,
}

/// Reads single clicks of all links, and which of them were erased since.
///
/// Each promise has a test in `terse_testkit::click_store!`.
#[async_trait]
pub trait ClickExport: Send + Sync + 'static {
    /// Single clicks of all links, within their retention time. Clicks of erased links and owners
    /// are left out. The pages of one query contain every click of the period once, if none is
    /// added or erased meanwhile.
    async fn clicks_between(&self, query: &PeriodQuery) -> Result<ClickPage, StoreError>;

    /// Up to `limit` links that were erased at this time or later and whose tombstone is not
    /// deleted yet, in the order of domain, code and creation time, after `after`.
    async fn erased_links(
        &self,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, StoreError>;

    /// The owners that were erased at this time or later and whose tombstone is not deleted yet.
    async fn erased_owners(&self, since: Timestamp) -> Result<Vec<OwnerId>, StoreError>;
}
