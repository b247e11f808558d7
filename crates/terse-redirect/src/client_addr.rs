//! Where a connection comes from, and whom its requests are from.

use std::net::IpAddr;

use terse_core::Proxies;

use crate::visitor_headers::VisitorHeaders;

/// Where a connection comes from. Decided once for each.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddr {
    peer: IpAddr,
    /// Whether it may speak for others.
    proxy: bool,
}

impl ClientAddr {
    /// Of a connection from this address.
    pub fn new(peer: IpAddr, proxies: &Proxies) -> Self {
        Self { peer: peer.to_canonical(), proxy: proxies.trusts(peer) }
    }

    /// Whom a request is from: the peer, or whom a proxy of ours names.
    pub(crate) fn client(&self, proxies: &Proxies, seen: &VisitorHeaders<'_>) -> IpAddr {
        match self {
            Self { peer, proxy: false } => *peer,
            Self { peer, proxy: true } => proxies.client(*peer, seen.forwarded()),
        }
    }
}
