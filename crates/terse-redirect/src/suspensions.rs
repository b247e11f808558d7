//! Suspended owners.
//!
//! A cache hit does not check whether the owner is suspended. The redirector turns a link of a
//! suspended owner into a blocked route when it reads the link, and drops the routes of an owner
//! when that owner's suspension begins or ends.

use terse_core::OwnerId;

use crate::redirector::Redirector;

impl Redirector {
    /// Replaces the set of suspended owners. When this returns, no visitor is answered from a route
    /// of before the change. It walks all cached routes if the set changed: do not call it on a
    /// serving thread.
    pub fn suspend(&self, owners: &[OwnerId]) {
        let changed = self.suspended.replace(owners.iter().copied());
        if changed.is_empty() {
            return;
        }
        // The order matters. Lookups that start after `replace` see the new set. Lookups that
        // started before are invalidated and not cached. Routes cached before that are removed.
        self.single_flight.invalidate_all();
        self.routes.remove_where(|route| changed.contains(&OwnerId(route.head().owner)));
    }
}
