//! The header of the PROXY protocol, versions 1 and 2: a TCP balancer says before the first byte of
//! a connection where the connection comes from.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::AsyncReadExt as _;

use crate::listener::Socket;

const V1_SIGNATURE: &[u8] = b"PROXY ";
/// The longest header of version 1, as its specification says.
const V1_MAX: usize = 107;
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Up to the length.
const V2_FIXED: usize = 16;
/// The longest header of version 2: addresses, and more extensions than balancers send.
const V2_MAX: usize = 2048;

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Parsed {
    /// The beginning of a header.
    Incomplete,
    /// No header, or a malformed one.
    Invalid,
    /// A header of this length. `None` if the balancer made the connection for itself, such as a
    /// health check, or names no address.
    Header { len: usize, source: Option<SocketAddr> },
}

/// What a balancer said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ProxyHeader {
    /// Where the connection comes from; `None` if the balancer does not say.
    Source(Option<SocketAddr>),
    /// There is no header; nothing was read.
    Absent,
}

/// Reads the header and not one byte more. A malformed header is an error.
pub(crate) async fn read(socket: &mut Socket) -> io::Result<ProxyHeader> {
    let (mut held, mut buffer) = (Vec::new(), [0; V2_MAX]);
    loop {
        let peeked = socket.peek(&mut buffer).await?;
        let before = held.len();
        held.extend_from_slice(&buffer[..peeked]);
        // All bytes of an incomplete header belong to it.
        let (take, found) = match parse(&held) {
            Parsed::Incomplete if peeked > 0 => (peeked, None),
            Parsed::Header { len, source } => (len - before, Some(source)),
            Parsed::Invalid if before == 0 => return Ok(ProxyHeader::Absent),
            Parsed::Incomplete | Parsed::Invalid => return Err(io::ErrorKind::InvalidData.into()),
        };
        socket.read_exact(&mut buffer[..take]).await?;
        if let Some(source) = found {
            return Ok(ProxyHeader::Source(source));
        }
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    let begins = |signature: &[u8]| {
        let len = bytes.len().min(signature.len());
        bytes[..len] == signature[..len]
    };
    match () {
        () if begins(V2_SIGNATURE) => version_2(bytes),
        () if begins(V1_SIGNATURE) => version_1(bytes),
        () => Parsed::Invalid,
    }
}

/// `PROXY TCP4 203.0.113.7 198.51.100.1 51234 443\r\n`.
fn version_1(bytes: &[u8]) -> Parsed {
    let line = &bytes[..bytes.len().min(V1_MAX)];
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() < V1_MAX { Parsed::Incomplete } else { Parsed::Invalid };
    };
    let source = line[..end].strip_suffix(b"\r").and_then(|line| std::str::from_utf8(line).ok());
    match source.and_then(version_1_source) {
        Some(source) => Parsed::Header { len: end + 1, source },
        None => Parsed::Invalid,
    }
}

/// `None` if the line is malformed.
fn version_1_source(line: &str) -> Option<Option<SocketAddr>> {
    let mut words = line.split(' ').skip(1);
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(None);
    }
    let rest: Vec<&str> = words.collect();
    let [source, destination, port, destination_port] = rest[..] else { return None };
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(Into::into),
            "TCP6" => text.parse::<Ipv6Addr>().ok().map(Into::into),
            _ => None,
        }
    };
    let number = |text: &str| -> Option<u16> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
    };
    address(destination)?;
    number(destination_port)?;
    Some(Some(SocketAddr::new(address(source)?, number(port)?)))
}

fn version_2(bytes: &[u8]) -> Parsed {
    let Some((fixed, rest)) = bytes.split_at_checked(V2_FIXED) else { return Parsed::Incomplete };
    let len = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if V2_FIXED + len > V2_MAX {
        return Parsed::Invalid;
    }
    let Some(addresses) = rest.get(..len) else { return Parsed::Incomplete };
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    let source = match (fixed[12], fixed[13]) {
        // LOCAL: a connection of the balancer itself, such as a health check.
        (0x20, _) => None,
        // PROXY, over TCP.
        (0x21, 0x11) if len >= 12 => {
            let ip = <[u8; 4]>::try_from(&addresses[..4]).map(Ipv4Addr::from);
            ip.ok().map(|ip| SocketAddr::new(ip.into(), port(8)))
        }
        (0x21, 0x21) if len >= 36 => {
            let ip = <[u8; 16]>::try_from(&addresses[..16]).map(Ipv6Addr::from);
            ip.ok().map(|ip| SocketAddr::new(ip.into(), port(32)))
        }
        // Of no known family, or of a Unix socket.
        (0x21, 0x00 | 0x31) => None,
        _ => return Parsed::Invalid,
    };
    Parsed::Header { len: V2_FIXED + len, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of version 2.
    fn v2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let len = u16::try_from(addresses.len()).expect("a length").to_be_bytes();
        [&V2_SIGNATURE[..], &[command, family], &len, addresses].concat()
    }

    fn valid() -> Vec<(Vec<u8>, Option<&'static str>)> {
        let v4 = [203, 0, 113, 7, 198, 51, 100, 1, 0xc8, 0x22, 1, 0xbb];
        let mut v6 = [0; 36];
        v6[..2].copy_from_slice(&[0x20, 0x01]);
        v6[15] = 9;
        v6[32..34].copy_from_slice(&[0, 80]);
        let extended = [&v4[..], &[0x04, 0, 2, 7, 7]].concat();
        vec![
            (
                b"PROXY TCP4 203.0.113.7 198.51.100.1 51234 443\r\n".into(),
                Some("203.0.113.7:51234"),
            ),
            (b"PROXY TCP6 2001::9 2001::1 80 443\r\n".into(), Some("[2001::9]:80")),
            (b"PROXY UNKNOWN\r\n".into(), None),
            (b"PROXY UNKNOWN a b c\r\n".into(), None),
            (v2(0x21, 0x11, &v4), Some("203.0.113.7:51234")),
            (v2(0x21, 0x11, &extended), Some("203.0.113.7:51234")),
            (v2(0x21, 0x21, &v6), Some("[2001::9]:80")),
            (v2(0x20, 0x00, &[]), None),
            (v2(0x20, 0x11, &v4), None),
            (v2(0x21, 0x00, &[]), None),
        ]
    }

    #[test]
    fn a_header_says_where_a_connection_comes_from_and_ends_before_the_request() {
        for (header, source) in valid() {
            let source = source.map(|source| source.parse().expect("an address"));
            let expected = Parsed::Header { len: header.len(), source };
            assert_eq!(parse(&header), expected, "{header:?}");
            assert_eq!(parse(&[&header[..], b"GET / HTTP/1.1\r\n"].concat()), expected);
            for len in 0..header.len() {
                assert_eq!(parse(&header[..len]), Parsed::Incomplete, "{len} of {header:?}");
            }
        }
    }

    #[test]
    fn malformed_headers_are_refused() {
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(107));
        for text in [
            "GET / HTTP/1.1\r\n",
            "PROXX",
            "proxy TCP4 1.2.3.4 1.2.3.4 1 1\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 1\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 1 1\r\n",
            "PROXY TCP4  1.2.3.4 1.2.3.4 1 1\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 -1 1\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 +1 1\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n",
            "PROXY TCP4 1.2.3.256 1.2.3.4 1 1\r\n",
            "PROXY TCP4 2001::9 2001::1 1 1\r\n",
            "PROXY TCP6 1.2.3.4 1.2.3.4 1 1\r\n",
            "PROXY UDP4 1.2.3.4 1.2.3.4 1 1\r\n",
            "PROXY \r\n",
            "PROXY TCP4 \u{ff11}.2.3.4 1.2.3.4 1 1\r\n",
            long.as_str(),
        ] {
            assert_eq!(parse(text.as_bytes()), Parsed::Invalid, "{text}");
        }
        for bytes in [
            v2(0x11, 0x11, &[0; 12]),
            v2(0x22, 0x11, &[0; 12]),
            v2(0x21, 0x11, &[0; 11]),
            v2(0x21, 0x21, &[0; 35]),
            v2(0x21, 0x12, &[0; 12]),
            v2(0x21, 0x41, &[0; 12]),
            v2(0x20, 0x00, &[0; V2_MAX - V2_FIXED + 1]),
            b"\r\n\r\n\0\r\nQUIX".to_vec(),
        ] {
            assert_eq!(parse(&bytes), Parsed::Invalid, "{bytes:?}");
        }
    }
}
