//! Links of owners who are suspended, or no longer are.
//!
//! Nothing on the way of a hit asks who is suspended: a link of such an owner is made a blocked
//! route when it is read, and what is remembered is forgotten when that changes.

use terse_core::OwnerId;

use crate::redirector::Redirector;

impl Redirector {
    /// Takes down the links of these owners and of nobody else. When it returns, no visitor who
    /// comes is answered from what was known before. Looks at all remembered routes if anything
    /// changed: not for a serving thread.
    pub fn suspend(&self, owners: &[OwnerId]) {
        let changed = self.suspended.replace(owners.iter().copied());
        if changed.is_empty() {
            return;
        }
        // In this order: a look-up that begins from now on knows, one that began before is not
        // remembered, and what was remembered before that is found below.
        self.single_flight.invalidate_all();
        self.routes.remove_where(|route| changed.contains(&OwnerId(route.head().owner)));
    }
}
