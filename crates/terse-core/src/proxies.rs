//! Trusted proxies and the client address.

use std::net::IpAddr;
use std::str::FromStr;

/// A range of addresses: `10.0.0.0/8`, `::1`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProxyRange {
    network: u128,
    mask: u128,
}

impl FromStr for ProxyRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} must be an IP address or a range such as 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits))
                if bits.len() <= 3 && bits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                (address, Some(bits.parse::<u32>().map_err(|_| refuse())?))
            }
            Some(_) => return Err(refuse()),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        if bits > width {
            return Err(refuse());
        }
        let mask = u128::MAX.checked_shl(width - bits).unwrap_or(0);
        Ok(Self { network: mapped(address) & mask, mask })
    }
}

/// The address as IPv6, so that IPv4 and IPv4-mapped addresses are equal.
fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The trusted reverse proxies. `X-Forwarded-For` from other addresses is ignored.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Vec<ProxyRange>);

impl Proxies {
    /// Trusts exactly these ranges.
    pub fn new(ranges: Vec<ProxyRange>) -> Self {
        Self(ranges)
    }

    /// Whether this address is a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = mapped(address);
        self.0.iter().any(|range| address & range.mask == range.network)
    }

    /// The client address: the last address in the chain that is not a trusted proxy. `forwarded`
    /// are the `X-Forwarded-For` values in order; each proxy appends the address of its peer.
    pub fn client<'a>(
        &self,
        peer: IpAddr,
        forwarded: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.trusts(client) {
            return client;
        }
        for value in forwarded.rev() {
            for name in value.rsplit(|&byte| byte == b',') {
                // After an invalid entry, the rest of the chain cannot be trusted.
                let Some(address) = address_in(name) else { return client };
                client = address.to_canonical();
                if !self.trusts(client) {
                    return client;
                }
            }
        }
        client
    }
}

/// `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]`, `[::1]:80`.
fn address_in(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split_once(']')?.0.parse().ok();
    }
    match text.split_once(':') {
        Some((address, port)) if !port.contains(':') => address.parse().ok(),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(ranges: &[&str]) -> Proxies {
        Proxies::new(ranges.iter().map(|range| range.parse().unwrap()).collect())
    }

    #[test]
    fn only_trusted_proxies_may_forward() {
        let ours = proxies(&["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"]);
        for (peer, forwarded, want) in [
            ("203.0.113.9", vec!["198.51.100.1"], "203.0.113.9"),
            ("127.0.0.1", vec![], "127.0.0.1"),
            ("::ffff:127.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", vec!["6.6.6.6, 198.51.100.1, 10.1.2.3"], "198.51.100.1"),
            ("127.0.0.1", vec!["6.6.6.6", "198.51.100.1:4711", "[2001:db8::7]:80"], "198.51.100.1"),
            ("127.0.0.1", vec!["6.6.6.6, unknown, 10.1.2.3"], "10.1.2.3"),
            ("127.0.0.1", vec!["10.0.0.1"], "10.0.0.1"),
            ("127.0.0.1", vec!["", "::ffff:1.2.3.4"], "1.2.3.4"),
            ("127.0.0.1", vec!["2001:0DB8:1::1,2a00::1"], "2a00::1"),
        ] {
            let client =
                ours.client(peer.parse().unwrap(), forwarded.iter().map(|value| value.as_bytes()));
            assert_eq!(client, want.parse::<IpAddr>().unwrap(), "{peer} {forwarded:?}");
        }
    }

    #[test]
    fn ranges_are_parsed_strictly() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "::/129",
            "localhost",
            "10.0.0.0/8/8",
            "10.0.0",
        ] {
            assert!(text.parse::<ProxyRange>().is_err(), "{text}");
        }
        assert!(proxies(&["0.0.0.0/0"]).trusts("8.8.8.8".parse().unwrap()));
        assert!(!proxies(&["0.0.0.0/0"]).trusts("2a00::1".parse().unwrap()));
        assert!(proxies(&["::/0"]).trusts("8.8.8.8".parse().unwrap()));
        assert!(proxies(&["10.1.2.3/8"]).trusts("10.9.9.9".parse().unwrap()));
    }
}
