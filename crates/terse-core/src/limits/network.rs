//! Who counts as one, by address.

use std::net::IpAddr;

/// How many times as much is allowed to a network that holds many of those that are usually told
/// apart.
pub const SUBNET_FACTOR: u32 = 8;

/// The addresses that are counted as one. With IPv4 that is each by itself. With IPv6 whoever has
/// one usually has 2⁶⁴ of them, and many have 65,536 times that: a /64 is counted as one, and above
/// it the /48 it belongs to, with [`SUBNET_FACTOR`] times as much.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Network {
    /// The first bits, at the lower end.
    prefix: u64,
    /// How many there are: 32 is IPv4, 64 and 48 are IPv6.
    bits: u8,
}

impl Network {
    /// The smallest one that an address belongs to, and the one above it.
    pub fn of(address: IpAddr) -> (Self, Option<Self>) {
        match address.to_canonical() {
            IpAddr::V4(address) => (Self { prefix: address.to_bits().into(), bits: 32 }, None),
            IpAddr::V6(address) => {
                let prefix = (address.to_bits() >> 64) as u64;
                (Self { prefix, bits: 64 }, Some(Self { prefix: prefix >> 16, bits: 48 }))
            }
        }
    }

    /// As one number that differs between any two of one width.
    pub fn prefix(self) -> u64 {
        self.prefix
    }

    /// The width.
    pub fn bits(self) -> u8 {
        self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_network_is_one() {
        let of = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(of("203.0.113.7"), of("::ffff:203.0.113.7"));
        assert_ne!(of("203.0.113.7"), of("203.0.113.8"));
        assert_eq!(of("203.0.113.7").1, None);
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        let (one, above) = of("2001:db8:1:2::1");
        let (other, also) = of("2001:db8:1:3::1");
        assert_ne!(one, other);
        assert!(above.is_some() && above == also);
        assert_ne!(above, of("2001:db8:2:2::1").1);
        // Equal numbers of different widths are different networks.
        assert_ne!(of("0.0.0.1").0, of("0:0:0:1::").0);
        assert_ne!(Some(of("0:0:0:1::").0), of("0:0:1::").1);
    }
}
