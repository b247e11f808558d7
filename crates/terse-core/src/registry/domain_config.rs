//! Short domains that were added at run time, and hosts that moderators blocked.

use crate::domain::Domain;
use crate::target::Target;
use crate::time::Timestamp;

/// A short domain and its fallback targets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DomainConfig {
    /// The domain.
    pub domain: Domain,
    /// Where its root leads.
    pub root: Option<Target>,
    /// Where an unknown code leads, instead of a page.
    pub not_found: Option<Target>,
    /// Where an expired link leads, instead of a page.
    pub expired: Option<Target>,
}

/// A host that a moderator has blocked, with all its subdomains.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BlockedHost {
    /// The host, canonical.
    pub host: String,
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub why: Option<String>,
}
