//! The address of a client, also behind trusted proxies.

use std::net::IpAddr;

use terse_core::Proxies;

use crate::visitor_headers::VisitorHeaders;

/// The peer of a connection, and whether it is a trusted proxy. Determined once per connection.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddr {
    peer: IpAddr,
    trusted_proxy: bool,
    transport: Transport,
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Transport {
    /// Without TLS, and terse has no TLS listener: `base_url` and proxies say whether visitors use
    /// https.
    #[default]
    Unknown,
    /// Without TLS, while terse also has a TLS listener.
    Plain,
    /// Encrypted.
    Tls,
}

impl ClientAddr {
    /// The address of a connection from this peer.
    pub fn new(peer: IpAddr, proxies: &Proxies) -> Self {
        let transport = Transport::default();
        Self { peer: peer.to_canonical(), trusted_proxy: proxies.trusts(peer), transport }
    }

    /// The address of a connection through a trusted proxy that sent no client address. Headers of
    /// such a connection are not trusted.
    pub(crate) fn behind(proxy: IpAddr) -> Self {
        let transport = Transport::default();
        Self { peer: proxy.to_canonical(), trusted_proxy: false, transport }
    }

    /// The same, with this transport.
    pub(crate) fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Whether the connection is encrypted.
    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }

    /// Whether the peer is a trusted proxy.
    pub(crate) fn is_trusted_proxy(&self) -> bool {
        self.trusted_proxy
    }

    /// The client of a request: the peer, or the address that a trusted proxy names.
    pub(crate) fn client(&self, proxies: &Proxies, headers: &VisitorHeaders<'_>) -> IpAddr {
        match self {
            Self { peer, trusted_proxy: false, .. } => *peer,
            Self { peer, trusted_proxy: true, .. } => proxies.client(*peer, headers.forwarded()),
        }
    }
}
