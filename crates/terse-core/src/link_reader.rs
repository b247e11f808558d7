//! The read side of a link store, and the one write that a visit needs.

use std::time::Duration;

use async_trait::async_trait;

use crate::domain::Domain;
use crate::link::{Link, LinkKey};
use crate::store::StoreError;

/// What a reader knows about a code without reading anything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AbsenceCertainty {
    /// No such link exists: its number was never leased and no alias has this code. Only a store
    /// that sees every lease and every alias before they are committed can answer this; the
    /// embedded store does.
    Certain,
    /// The code is shaped like a generated one, and its number lies past all leases that this node
    /// knows of; but another node may have leased more, or an alias may have the code. A store
    /// shared by several nodes answers this where the embedded one answers `Certain`. The caller
    /// must still read; it may give such reads a lower priority.
    Likely,
    /// The link may well exist. Read it.
    Unknown,
}

/// Looks links up. An L2 cache implements this trait in front of a store's own.
#[async_trait]
pub trait LinkReader: Send + Sync + 'static {
    /// Returns expired and deleted links too: the caller decides whether a link is live.
    async fn get(&self, key: &LinkKey) -> Result<Option<Link>, StoreError>;

    /// Reads many links in one round trip, each as [`LinkReader::get`] would answer, in order.
    async fn get_many(&self, keys: &[LinkKey]) -> Vec<Result<Option<Link>, StoreError>> {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push(self.get(key).await);
        }
        found
    }

    /// The only alias on this domain that differs from the code at most by case, if there is
    /// exactly one.
    async fn get_folded(&self, key: &LinkKey) -> Result<Option<Link>, StoreError>;

    /// The age of the link that was returned last for this key. More than zero only if a cache has
    /// answered with an old copy, because the store did not answer. Must be cheap and must not
    /// block.
    fn age(&self, _key: &LinkKey) -> Duration {
        Duration::ZERO
    }

    /// Whether the code can exist at all, by arithmetic alone. Must be cheap and must not block.
    /// `Unknown` for every code whose number this handle leased, and for every generated link that
    /// it has read.
    fn surely_absent(&self, _domain: &Domain, _code: &str) -> AbsenceCertainty {
        AbsenceCertainty::Unknown
    }
}

/// The outcome of spending one of a link's clicks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClickSpend {
    /// One more visit was counted.
    Yes,
    /// All clicks were spent before.
    UsedUp,
    /// No such link.
    Missing,
}

/// Counts the visits of links with `max_clicks`. Apart from [`LinkReader`], because a cache can
/// answer reads but never this.
#[async_trait]
pub trait ClickSpender: Send + Sync + 'static {
    /// Counts one visit, exactly: never more successes than `max_clicks`. After `Unavailable` the
    /// visit may have been counted; the caller must not try again.
    async fn spend(&self, key: &LinkKey) -> Result<ClickSpend, StoreError>;
}
