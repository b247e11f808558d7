//! What a click keeps of its visitor and of the request.

use std::hash::Hasher as _;
use std::net::IpAddr;

use siphasher::sip::SipHasher13;

use super::journal::MAX_AGENT_LEN;
use super::store::Salt;

const MAX_HOST_LEN: usize = 253;

/// The hash of a visitor under the salt of the day. It distinguishes visitors and does not identify
/// them. Never 0.
#[inline]
pub fn visitor_hash(salt: &Salt, address: IpAddr, agent: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(salt);
    // All addresses have one length, so that no address and user agent together equal another pair.
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    hasher.write(&octets);
    hasher.write(&agent[..agent.len().min(MAX_AGENT_LEN)]);
    hasher.finish().max(1)
}

/// The octets of an address, and how many of them are recorded: those of its network, unless the
/// operator keeps whole addresses.
#[inline]
pub fn address_octets(address: IpAddr, whole: bool) -> ([u8; 16], usize) {
    let mut octets = [0; 16];
    let (all, network) = match address {
        IpAddr::V4(address) => {
            octets[..4].copy_from_slice(&address.octets());
            (4, 3)
        }
        IpAddr::V6(address) => {
            octets = address.octets();
            (16, 6)
        }
    };
    if whole {
        return (octets, all);
    }
    // The /48 of a 6to4 address contains a whole IPv4 address.
    if octets.starts_with(&[0x20, 0x02]) && all == 16 {
        octets[5] = 0;
    }
    (octets, network)
}

/// The host of a referrer, without scheme, user, port and path. Empty if there is none.
#[inline]
pub fn referrer_host(referrer: &[u8]) -> &[u8] {
    let scheme = before(referrer, b":/?#\\@").len();
    let Some(rest) = referrer[scheme..].strip_prefix(b"://").filter(|_| scheme > 0) else {
        return b"";
    };
    let authority = before(rest, b"/?#\\");
    let named = authority
        .iter()
        .rposition(|&byte| byte == b'@')
        .map_or(authority, |at| &authority[at + 1..]);
    let host = match named.iter().position(|&byte| byte == b']') {
        Some(end) if named.first() == Some(&b'[') => &named[..=end],
        _ => before(named, b":"),
    };
    if host.len() <= MAX_HOST_LEN { host } else { b"" }
}

/// Copies the `utm_…` pairs of a query into the buffer, joined by `&`. Pairs that do not fit are
/// left out.
#[inline]
pub fn campaign<'b>(query: &[u8], buffer: &'b mut [u8]) -> &'b [u8] {
    let mut used = 0;
    // A request has no fragment, but some clients send one.
    for pair in
        before(query, b"#").split(|&byte| byte == b'&').filter(|pair| pair.starts_with(b"utm_"))
    {
        let separator = usize::from(used > 0);
        let Some(room) = buffer.get_mut(used..used + separator + pair.len()) else { continue };
        room[..separator].fill(b'&');
        room[separator..].copy_from_slice(pair);
        used += room.len();
    }
    &buffer[..used]
}

/// The part before the first of these bytes.
#[inline]
fn before<'a>(text: &'a [u8], ends: &[u8]) -> &'a [u8] {
    text.iter().position(|byte| ends.contains(byte)).map_or(text, |at| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_cut_to_its_network() {
        let cut = |text: &str, whole| {
            let (octets, kept) =
                address_octets(text.parse::<IpAddr>().unwrap().to_canonical(), whole);
            octets[..kept].to_vec()
        };
        assert_eq!(cut("203.0.113.77", false), [203, 0, 113]);
        assert_eq!(cut("::ffff:203.0.113.77", true), [203, 0, 113, 77]);
        assert_eq!(cut("2001:db8:aaaa:bbbb::1", false), [0x20, 1, 0x0d, 0xb8, 0xaa, 0xaa]);
        assert_eq!(cut("2001:db8::1", true).len(), 16);
        // 203.0.113.77 as 6to4, and an IPv4 address that begins with the same octets.
        assert_eq!(cut("2002:cb00:714d::1", false), [0x20, 2, 203, 0, 113, 0]);
        assert_eq!(cut("2002:cb00:714d::1", true)[..6], [0x20, 2, 203, 0, 113, 77]);
        assert_eq!(cut("32.2.113.77", false), [32, 2, 113]);
    }

    #[test]
    fn visitors_differ_by_day_address_and_agent() {
        let (one, other): (IpAddr, IpAddr) =
            ("203.0.113.7".parse().unwrap(), "203.0.113.8".parse().unwrap());
        let first = visitor_hash(&[1; 16], one, b"x");
        assert_eq!(first, visitor_hash(&[1; 16], one, b"x"));
        for another in [
            visitor_hash(&[2; 16], one, b"x"),
            visitor_hash(&[1; 16], other, b"x"),
            visitor_hash(&[1; 16], one, b"y"),
        ] {
            assert_ne!(first, another);
        }
    }
}
