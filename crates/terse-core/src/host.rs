//! Checks of target hosts.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocked hosts with their subdomains. Compared label by label with the parsed host.
#[derive(Clone, Debug, Default)]
pub struct BlockedHosts(HashSet<Box<str>>);

impl BlockedHosts {
    /// Parses host names or addresses in any URL spelling. Returns the first invalid one as an
    /// error.
    pub fn parse<T: AsRef<str>>(hosts: &[T]) -> Result<Self, String> {
        let mut set = HashSet::new();
        for host in hosts {
            let host = host.as_ref();
            set.insert(canonical_host(host).ok_or_else(|| host.to_owned())?.into());
        }
        Ok(Self(set))
    }

    /// Whether a canonical host or a parent domain is on the list.
    pub(crate) fn contains(&self, host: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let mut rest = host.strip_suffix('.').unwrap_or(host);
        loop {
            if self.0.contains(rest) {
                return true;
            }
            match rest.split_once('.') {
                Some((_, above)) => rest = above,
                None => return false,
            }
        }
    }
}

/// The canonical form of a host name or address in any URL spelling. `None` if it is not a valid
/// host.
pub fn canonical_host(text: &str) -> Option<String> {
    // The parser would remove tabs and line breaks, and block another name than was sent.
    if text.contains(char::is_control) {
        return None;
    }
    let parsed = url::Url::parse(&format!("http://{text}/")).ok()?;
    let beside = [
        parsed.username(),
        parsed.query().unwrap_or_default(),
        parsed.fragment().unwrap_or_default(),
    ];
    let bare = parsed.path() == "/"
        && parsed.port().is_none()
        && beside.iter().all(|text| text.is_empty());
    let name = parsed.host_str().filter(|_| bare)?.trim_end_matches('.');
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether a name can be public: not a local or internal name.
pub fn is_public_name(host: &str) -> bool {
    const INTERNAL: &[&str] = &[
        "localhost",
        "local",
        "internal",
        "localdomain",
        "intranet",
        "lan",
        "home.arpa",
        "private",
        "corp",
    ];
    let host = host.strip_suffix('.').unwrap_or(host);
    !INTERNAL.iter().any(|name| {
        host.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// Whether an address is on the public Internet. For addresses that embed an IPv4 address, both
/// must be public.
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let inner = |high: u16, low: u16| {
        let [w, x] = high.to_be_bytes();
        let [y, z] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(w, x, y, z))
    };
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) => inner(g, h),    // IPv4-mapped
        (0x64, 0xff9b, 0, 0, 0, 0) => inner(g, h), // NAT64
        (0x2002, ..) => inner(b, c),               // 6to4
        (0x2001, 0..=0x01ff, ..) => false,         // protocol assignments, Teredo
        (0x2001, 0xdb8, ..) => false,              // documentation
        (0x3fff, 0..=0x0fff, ..) => false,         // documentation
        (0x2000..=0x3fff, ..) => true,             // global unicast
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for address in [
            "8.8.8.8",
            "1.1.1.1",
            "100.63.0.1",
            "172.32.0.1",
            "2620:fe::fe",
            "::ffff:8.8.8.8",
            "2606:4700::1111",
            "64:ff9b::808:808",
        ] {
            assert!(is_public_address(address.parse().unwrap()), "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.0.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "100.64.0.1",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fe80::1",
            "fec0::1",
            "fd00:ec2::254",
            "ff02::1",
            "100::1",
            "3fff::1",
            "192.0.0.8",
            "192.88.99.1",
            "198.51.100.7",
            "::ffff:0:127.0.0.1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:10::1",
            "2001:20::1",
            "2002:a9fe:a9fe::1",
            "2002:c0a8:101::",
            "5f00::1",
            "febf::1",
            "ff0e::1",
        ] {
            assert!(!is_public_address(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn blocked_hosts_match_by_label() {
        let blocked = BlockedHosts::parse(&["Evil.example", "8.8.8.8"]).unwrap();
        for host in ["evil.example", "evil.example.", "a.b.evil.example", "8.8.8.8"] {
            assert!(blocked.contains(host), "{host}");
        }
        for host in ["notevil.example", "evil.example.org", "example"] {
            assert!(!blocked.contains(host), "{host}");
        }
        for text in [
            "a/b",
            "",
            ".",
            "a b",
            "u@evil.example",
            "evil.example:8080",
            "evil.example?x",
            "evil.example#x",
        ] {
            assert!(BlockedHosts::parse(&[text]).is_err(), "{text:?}");
        }
    }
}
