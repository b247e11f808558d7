//! Hosts that no blocklist may block. A broken feed must not block whole registries or our own
//! domains.

use crate::host_name::{SuffixKind, is_at_or_below, is_internal, suffix_kind};

/// Hosts that no blocklist may block.
#[derive(Clone, Debug, Default)]
pub struct ProtectedHosts {
    /// Our own short domains, canonical.
    pub own_hosts: Vec<String>,
    /// Whether a list may block a whole platform such as `github.io`: true for the operator's own
    /// lists. Registries such as `com` are always protected.
    pub allow_platforms: bool,
}

impl ProtectedHosts {
    /// Whether an entry may block this host with its subdomains.
    pub(crate) fn allows_host(&self, host: &str) -> bool {
        let too_much = match suffix_kind(host) {
            Some(SuffixKind::Registry) => !crate::url_parts::is_address(host),
            Some(SuffixKind::Platform) => !self.allow_platforms,
            None => false,
        };
        !too_much
            && self.allows_url_at(host)
            && !self.own_hosts.iter().any(|own| is_at_or_below(own, host))
    }

    /// Whether an entry may block a single URL on this host.
    pub(crate) fn allows_url_at(&self, host: &str) -> bool {
        !is_internal(host) && !self.own_hosts.iter().any(|own| own == host)
    }
}
