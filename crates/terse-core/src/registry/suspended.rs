//! Suspended owners, whose links do not redirect.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use crate::link::{Link, ModerationStatus, OwnerId};

/// The suspended owners, in memory for the redirect plane. A suspension does not write to links:
/// one change of an account switches all of them off, and one switches them on again.
#[derive(Debug, Default)]
pub struct SuspendedOwners {
    owners: RwLock<Arc<HashSet<OwnerId>>>,
}

impl SuspendedOwners {
    /// Replaces the set, and returns the owners whose state changed.
    pub fn replace(&self, owners: impl IntoIterator<Item = OwnerId>) -> HashSet<OwnerId> {
        let new = Arc::new(owners.into_iter().collect::<HashSet<_>>());
        let mut known = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *known, Arc::clone(&new));
        old.symmetric_difference(&new).copied().collect()
    }

    /// A link as visitors get it: taken down while its owner is suspended.
    pub fn applied(&self, mut link: Link) -> Link {
        let known = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&link.owner) {
            link.moderation = ModerationStatus::Blocked;
        }
        link
    }
}
