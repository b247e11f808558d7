//! The address policy: which addresses the client may connect to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use terse_core::is_public_address;
use url::Host;

use crate::request_url::RequestUrl;
use crate::resolve::HostResolver;
use terse_core::OutgoingError;

/// The maximum number of addresses tried per name.
const MAX_ADDRESSES: usize = 8;

/// Which addresses are allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) allow_private: bool,
    pub(crate) allow: Vec<SocketAddr>,
}

impl Policy {
    /// Whether the client may connect to an address.
    pub(crate) fn allows(&self, address: SocketAddr) -> bool {
        // An address with a zone belongs to one network interface and is never public.
        if matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0) {
            return false;
        }
        is_public_address(address.ip())
            || self.allow.contains(&address)
            || (self.allow_private && is_private(address.ip()))
    }

    /// Resolves the host of a URL once. If any address is not allowed, all are refused: a mixed
    /// result is an attack or a mistake.
    pub(crate) fn addresses(
        &self,
        url: &RequestUrl,
        resolver: &dyn HostResolver,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, OutgoingError> {
        let found = match &url.host {
            Host::Ipv4(address) => vec![SocketAddr::new((*address).into(), url.port)],
            Host::Ipv6(address) => vec![SocketAddr::new((*address).into(), url.port)],
            Host::Domain(name) => {
                let mut found = resolver.resolve(name, url.port, deadline).map_err(|error| {
                    match error.kind() {
                        io::ErrorKind::TimedOut => OutgoingError::Timeout,
                        io::ErrorKind::ResourceBusy => OutgoingError::Busy,
                        _ => OutgoingError::Unreachable(error),
                    }
                })?;
                found.iter_mut().for_each(|address| address.set_port(url.port));
                found
            }
        };
        if !found.iter().all(|address| self.allows(*address)) {
            return Err(OutgoingError::RefusedAddress);
        }
        if found.is_empty() {
            return Err(OutgoingError::Unreachable(io::ErrorKind::NotFound.into()));
        }
        Ok(found.into_iter().take(MAX_ADDRESSES).collect())
    }
}

/// Loopback and private networks. Link-local and other cloud metadata addresses, multicast and
/// unspecified addresses are refused even when private networks are allowed.
fn is_private(address: IpAddr) -> bool {
    const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
    const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_loopback()
                || v4.is_private()
                || (a == 100 && (64..=127).contains(&b) && v4 != METADATA_V4)
        }
        IpAddr::V6(v6) => v6.is_loopback() || (v6.is_unique_local() && v6 != METADATA_V6),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV6;

    use super::*;

    #[test]
    fn private_mode_opens_private_networks_and_nothing_more() {
        let policy = Policy { allow_private: true, allow: Vec::new() };
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "100.64.0.1",
            "::1",
            "fd12::1",
            "::ffff:10.0.0.1",
            "8.8.8.8",
        ] {
            assert!(policy.allows(SocketAddr::new(address.parse().unwrap(), 80)), "{address}");
        }
        for address in [
            "0.0.0.0",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "100.100.100.200",
            "fd00:ec2::254",
            "fe80::1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "64:ff9b::a9fe:a9fe",
            "::127.0.0.1",
        ] {
            assert!(!policy.allows(SocketAddr::new(address.parse().unwrap(), 80)), "{address}");
        }
    }

    #[test]
    fn an_address_with_a_zone_is_not_public() {
        let address = SocketAddrV6::new("2620:fe::fe".parse().unwrap(), 80, 0, 2);
        assert!(!Policy::default().allows(address.into()));
    }
}
