//! Which addresses may be connected to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use terse_core::is_public_address;
use url::Host;

use crate::error::OutgoingError;
use crate::remote_addr::RemoteAddr;
use crate::resolve::Resolve;

/// Names have more addresses now and then, but nobody waits for the ninth.
const MAX_ADDRESSES: usize = 8;

/// What counts as outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) allow_private: bool,
    pub(crate) allow: Vec<SocketAddr>,
}

impl Policy {
    /// Whether one address may be connected to.
    pub(crate) fn allows(&self, address: SocketAddr) -> bool {
        // A zone means "on this network card": no such thing has a place on the Internet.
        if matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0) {
            return false;
        }
        is_public_address(address.ip())
            || self.allow.contains(&address)
            || (self.allow_private && is_inside(address.ip()))
    }

    /// The addresses of a place, looked up once. If any is not allowed none is: a mixed answer is
    /// an attack or a mistake.
    pub(crate) fn addresses(
        &self,
        place: &RemoteAddr,
        resolver: &dyn Resolve,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, OutgoingError> {
        let found = match &place.host {
            Host::Ipv4(address) => vec![SocketAddr::new((*address).into(), place.port)],
            Host::Ipv6(address) => vec![SocketAddr::new((*address).into(), place.port)],
            Host::Domain(name) => {
                let mut found = resolver.resolve(name, place.port, deadline).map_err(|error| {
                    match error.kind() {
                        io::ErrorKind::TimedOut => OutgoingError::TooSlow,
                        io::ErrorKind::ResourceBusy => OutgoingError::Busy,
                        _ => OutgoingError::Unreachable(error),
                    }
                })?;
                found.iter_mut().for_each(|address| address.set_port(place.port));
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

/// Loopback and private networks. Not the link-local and other places where clouds answer with
/// credentials, nor addresses that are for everyone or for nobody: these are refused even inside a
/// company.
fn is_inside(address: IpAddr) -> bool {
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
