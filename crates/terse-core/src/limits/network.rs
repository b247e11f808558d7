//! Networks: which addresses a limiter counts together.

use std::net::IpAddr;

/// How many times the limit of a /64 an IPv6 /48 gets, because it contains many /64 networks.
pub const SUBNET_FACTOR: u32 = 8;

/// Addresses that a limiter counts together. An IPv4 address counts alone. An IPv6 client usually
/// has 2⁶⁴ addresses and often 65,536 times that, so a /64 counts as one network, and so does its
/// /48, with [`SUBNET_FACTOR`] times the limit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Network {
    /// The leading bits of the address, right-aligned.
    prefix: u64,
    /// The number of these bits: 32 for IPv4, 64 and 48 for IPv6.
    bits: u8,
}

impl Network {
    /// The smallest network of an address, and the wider one above it.
    pub fn of(address: IpAddr) -> (Self, Option<Self>) {
        match address.to_canonical() {
            IpAddr::V4(address) => (Self { prefix: address.to_bits().into(), bits: 32 }, None),
            IpAddr::V6(address) => {
                let prefix = (address.to_bits() >> 64) as u64;
                (Self { prefix, bits: 64 }, Some(Self { prefix: prefix >> 16, bits: 48 }))
            }
        }
    }

    /// The prefix as a number, unique among networks of the same width.
    pub fn prefix(self) -> u64 {
        self.prefix
    }

    /// The width in bits.
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
