//! The address of a click: how much of it is stored, and in which form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use terse_core::clicks::Interned;

/// How much of a visitor's address is stored with a click.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AddressPrecision {
    /// The network: /24 of IPv4, /48 of IPv6.
    #[default]
    Network,
    /// Nothing; the click has only the country.
    Omitted,
    /// The whole address.
    Full,
}

/// An address as a journal record holds it: whole, or cut to its network.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Address {
    octets: [u8; 16],
    length: u8,
}

impl Address {
    /// Reads the octets of a record; `None` if they are not an address.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let length =
            u8::try_from(bytes.len()).ok().filter(|length| [3, 4, 6, 16].contains(length))?;
        let mut octets = [0; 16];
        octets[..bytes.len()].copy_from_slice(bytes);
        Some(Self { octets, length })
    }

    /// The address, with zeros in place of the octets that were cut off.
    pub(crate) fn ip(self) -> IpAddr {
        let [a, b, c, d, ..] = self.octets;
        if self.length <= 4 {
            Ipv4Addr::new(a, b, c, d).into()
        } else {
            Ipv6Addr::from(self.octets).into()
        }
    }

    /// The text that is stored with a click.
    pub(crate) fn text(self, precision: AddressPrecision) -> Option<Interned> {
        let Self { octets: [a, b, c, ..], length } = self;
        Some(match (precision, length) {
            (AddressPrecision::Omitted, _) => return None,
            (AddressPrecision::Full, 4 | 16) => self.ip().to_string().into(),
            (_, ..=4) => network_text([a, b, c]),
            _ => {
                let mut octets = self.octets;
                // The first six octets of a 6to4 address hold a whole IPv4 address.
                let stored = if octets.starts_with(&[0x20, 0x02]) { 5 } else { 6 };
                octets[stored..].fill(0);
                format!("{}/48", Ipv6Addr::from(octets)).into()
            }
        })
    }
}

/// A network of IPv4, without the cost of `format!`: there are many.
fn network_text(octets: [u8; 3]) -> Interned {
    let mut text = String::with_capacity("255.255.255.0/24".len());
    for octet in octets {
        for digit in [octet / 100, octet / 10 % 10, octet % 10] {
            let is_leading = text.is_empty() || text.ends_with('.');
            if digit != 0 || !is_leading {
                text.push(char::from(b'0' + digit));
            }
        }
        if text.is_empty() || text.ends_with('.') {
            text.push('0');
        }
        text.push('.');
    }
    text.push_str("0/24");
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_of_an_address_is_stored_than_the_setting_allows() {
        let v6: Ipv6Addr = "2001:db8:1:2::3".parse().unwrap();
        let v6 = v6.octets();
        for (bytes, precision, want) in [
            (&[203, 0, 113][..], AddressPrecision::Network, Some("203.0.113.0/24")),
            (&[203, 0, 113], AddressPrecision::Full, Some("203.0.113.0/24")),
            (&[0, 10, 255], AddressPrecision::Network, Some("0.10.255.0/24")),
            (&[100, 101, 9], AddressPrecision::Network, Some("100.101.9.0/24")),
            (&[203, 0, 113, 9], AddressPrecision::Network, Some("203.0.113.0/24")),
            (&[203, 0, 113, 9], AddressPrecision::Full, Some("203.0.113.9")),
            (&[203, 0, 113, 9], AddressPrecision::Omitted, None),
            (&v6[..6], AddressPrecision::Network, Some("2001:db8:1::/48")),
            (&v6, AddressPrecision::Network, Some("2001:db8:1::/48")),
            (&v6, AddressPrecision::Full, Some("2001:db8:1:2::3")),
            (&v6, AddressPrecision::Omitted, None),
            (
                &[0x20, 2, 203, 0, 113, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                AddressPrecision::Network,
                Some("2002:cb00:7100::/48"),
            ),
        ] {
            assert_eq!(
                Address::read(bytes).unwrap().text(precision).as_deref(),
                want,
                "{bytes:?} {precision:?}"
            );
        }
        for length in (0..20).filter(|length| ![3, 4, 6, 16].contains(length)) {
            assert_eq!(Address::read(&vec![1; length]), None);
        }
    }
}
