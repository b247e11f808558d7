//! What no list may block: a feed can break, and a broken feed must not block the world.

use crate::name::{SuffixKind, is_at_or_below, is_inside, suffix_kind};

/// What no list may block.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Our own short domains, canonical.
    pub own_hosts: Vec<String>,
    /// Lets a list name a whole platform, such as `github.io`: for an operator's own list.
    /// Registries, such as `com`, never.
    pub platforms: bool,
}

impl Guard {
    /// Whether a host, with all below it, may be blocked.
    pub(crate) fn admits_host(&self, host: &str) -> bool {
        let too_much = match suffix_kind(host) {
            Some(SuffixKind::Registry) => !crate::parts::is_address(host),
            Some(SuffixKind::Platform) => !self.platforms,
            None => false,
        };
        !too_much
            && self.admits_place(host)
            && !self.own_hosts.iter().any(|own| is_at_or_below(own, host))
    }

    /// Whether a single URL at this host may be blocked.
    pub(crate) fn admits_place(&self, host: &str) -> bool {
        !is_inside(host) && !self.own_hosts.iter().any(|own| own == host)
    }
}
