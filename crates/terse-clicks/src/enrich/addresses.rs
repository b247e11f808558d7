//! Addresses: how much of one is kept, and how it is written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use terse_core::clicks::Interned;

/// How much of a visitor's address is kept with a click.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Keep {
    /// The network: /24 of IPv4, /48 of IPv6.
    #[default]
    Cut,
    /// Nothing: only its country.
    Nothing,
    /// All of it.
    Full,
}

/// An address as a record has it: whole, or cut.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Address {
    octets: [u8; 16],
    length: u8,
}

impl Address {
    /// `None` if these are not the octets of an address.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let length =
            u8::try_from(bytes.len()).ok().filter(|length| [3, 4, 6, 16].contains(length))?;
        let mut octets = [0; 16];
        octets[..bytes.len()].copy_from_slice(bytes);
        Some(Self { octets, length })
    }

    /// As an address; what was cut off is nought.
    pub(crate) fn ip(self) -> IpAddr {
        let [a, b, c, d, ..] = self.octets;
        if self.length <= 4 {
            Ipv4Addr::new(a, b, c, d).into()
        } else {
            Ipv6Addr::from(self.octets).into()
        }
    }

    /// What is kept of it.
    pub(crate) fn text(self, keep: Keep) -> Option<Interned> {
        let Self { octets: [a, b, c, ..], length } = self;
        Some(match (keep, length) {
            (Keep::Nothing, _) => return None,
            (Keep::Full, 4 | 16) => self.ip().to_string().into(),
            (_, ..=4) => format!("{a}.{b}.{c}.0/24").into(),
            _ => {
                let mut octets = self.octets;
                // Of 6to4 the first six octets hold a whole address of IPv4.
                let kept = if octets.starts_with(&[0x20, 0x02]) { 5 } else { 6 };
                octets[kept..].fill(0);
                format!("{}/48", Ipv6Addr::from(octets)).into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_was_asked_for() {
        let v6: Ipv6Addr = "2001:db8:1:2::3".parse().unwrap();
        let v6 = v6.octets();
        for (bytes, keep, want) in [
            (&[203, 0, 113][..], Keep::Cut, Some("203.0.113.0/24")),
            (&[203, 0, 113], Keep::Full, Some("203.0.113.0/24")),
            (&[203, 0, 113, 9], Keep::Cut, Some("203.0.113.0/24")),
            (&[203, 0, 113, 9], Keep::Full, Some("203.0.113.9")),
            (&[203, 0, 113, 9], Keep::Nothing, None),
            (&v6[..6], Keep::Cut, Some("2001:db8:1::/48")),
            (&v6, Keep::Cut, Some("2001:db8:1::/48")),
            (&v6, Keep::Full, Some("2001:db8:1:2::3")),
            (&v6, Keep::Nothing, None),
            (
                &[0x20, 2, 203, 0, 113, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                Keep::Cut,
                Some("2002:cb00:7100::/48"),
            ),
        ] {
            assert_eq!(
                Address::read(bytes).unwrap().text(keep).as_deref(),
                want,
                "{bytes:?} {keep:?}"
            );
        }
        for length in (0..20).filter(|length| ![3, 4, 6, 16].contains(length)) {
            assert_eq!(Address::read(&vec![1; length]), None);
        }
    }
}
