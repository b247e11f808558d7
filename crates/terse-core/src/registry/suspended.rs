//! Owners whose links lead nowhere for now.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use crate::link::{Link, ModerationStatus, OwnerId};

/// What is known of who is suspended, for those who answer visitors. Links are not written for it:
/// one change of an account switches all of them off, and one switches them on again as they were.
#[derive(Debug, Default)]
pub struct Suspended {
    owners: RwLock<Arc<HashSet<OwnerId>>>,
}

impl Suspended {
    /// Replaces all that is known, and says whose state is another now.
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
            link.standing = ModerationStatus::Blocked;
        }
        link
    }
}
