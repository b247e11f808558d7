//! The hashed expressions of a target: up to five host suffixes times six path prefixes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest as _, Sha256};
use terse_core::Target;

use crate::host_name::DomainParts;
use crate::url_parts::{UrlParts, is_address};

/// Parent domains besides the host itself.
const MORE_HOSTS: usize = 4;
/// Path prefixes besides the path itself with and without its query.
const MORE_PATHS: usize = 4;

#[cfg(test)]
thread_local! {
    /// The number of hashes this thread has computed.
    pub(crate) static HASHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Calls `each` with the hash of every expression of a target.
pub(crate) fn each_hash(target: &Target, mut each: impl FnMut(&[u8; 32])) {
    each_expression(target, |host, path| {
        #[cfg(test)]
        HASHED.set(HASHED.get() + 1);
        let mut digest = Sha256::new();
        digest.update(host);
        digest.update(path);
        each(&digest.finalize().into());
    });
}

/// Calls `each` with every pair of host and path.
fn each_expression(target: &Target, mut each: impl FnMut(&str, &[u8])) {
    let Some(parts) = UrlParts::of(target) else { return };
    let host = canonical_host(parts.host);
    let rest = match parts.query {
        Some(query) => unescape(&[parts.path, "?", query].concat()),
        None => unescape(parts.path),
    };
    // After unescaping, an escaped question mark counts as one.
    let (path, query) = match rest.iter().position(|byte| *byte == b'?') {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (&rest[..], None),
    };
    let path = escape(&resolve(path));
    let whole = query
        .filter(|query| !query.is_empty())
        .map(|query| [&path[..], b"?", &escape(query)].concat());
    // Each ends with a slash. The path itself is added separately.
    let roots = path
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| &path[..=at])
        .take(MORE_PATHS);
    let paths: Vec<&[u8]> = whole
        .as_deref()
        .into_iter()
        .chain([&path[..]])
        .chain(roots.filter(|root| *root != path))
        .collect();
    for host in hosts(&host) {
        for path in &paths {
            each(host, path);
        }
    }
}

/// The host, and at most four parent domains starting from the registered domain.
fn hosts(host: &str) -> impl Iterator<Item = &str> {
    let registered = DomainParts::of(host)
        .map_or(host.len(), |domain| domain.label.len() + 1 + domain.suffix.len());
    let parents = host.rmatch_indices('.').map(|(at, _)| &host[at + 1..]);
    let parents = parents.filter(move |name| name.len() >= registered && name.len() < host.len());
    std::iter::once(host).chain(parents.take(MORE_HOSTS))
}

/// The URL parser has already done the rest: lower case, IDNA, canonical addresses.
fn canonical_host(host: &str) -> String {
    let address = host
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .and_then(|inner| inner.parse().ok());
    match address.and_then(|address: Ipv6Addr| embedded_ipv4(address)) {
        Some(address) => address.to_string(),
        None if is_address(host) => host.to_owned(),
        None => host.split('.').filter(|label| !label.is_empty()).collect::<Vec<_>>().join("."),
    }
}

/// The IPv4 address in an IPv4-mapped or NAT64 address.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match (address.to_canonical(), address.segments()) {
        (IpAddr::V4(mapped), _) => Some(mapped),
        (_, [0x64, 0xff9b, 0, 0, 0, 0, high, low]) => {
            Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

/// Unescapes repeatedly until no escape is left. Escapes cannot overlap, so each result can be
/// checked at once: one pass is enough, however often the text was escaped.
fn unescape(text: &str) -> Vec<u8> {
    let mut done = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        done.push(byte);
        while let [.., b'%', high, low] = done[..] {
            let (Some(high), Some(low)) = (digit(high), digit(low)) else { break };
            done.truncate(done.len() - 3);
            done.push(high << 4 | low);
        }
    }
    done
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Resolves `.` and `..`, then removes empty segments.
fn resolve(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let all: Vec<&[u8]> =
        path.strip_prefix(b"/").unwrap_or(path).split(|byte| *byte == b'/').collect();
    for (at, part) in all.iter().enumerate() {
        let dots = matches!(*part, b"." | b"..");
        if *part == b".." {
            parts.pop();
        }
        if !dots {
            parts.push(part);
        } else if at + 1 == all.len() {
            parts.push(b"");
        }
    }
    let mut resolved = vec![b'/'];
    for byte in parts.join(&b'/') {
        if byte != b'/' || resolved.last() != Some(&b'/') {
            resolved.push(byte);
        }
    }
    resolved
}

fn escape(bytes: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut escaped = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            0..=32 | 127.. | b'#' | b'%' => {
                escaped.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            byte => escaped.push(byte),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expressions(url: &str) -> Vec<String> {
        let mut all = Vec::new();
        let target = Target::from_stored(url::Url::parse(url).unwrap().to_string());
        each_expression(&target, |host, path| {
            all.push(format!("{host}{}", String::from_utf8(path.to_vec()).unwrap()));
        });
        all
    }

    #[test]
    fn the_documented_examples_have_the_documented_expressions() {
        for (url, want) in [
            (
                "http://a.b.com/1/2.html?param=1",
                &[
                    "a.b.com/1/2.html?param=1",
                    "a.b.com/1/2.html",
                    "a.b.com/",
                    "a.b.com/1/",
                    "b.com/1/2.html?param=1",
                    "b.com/1/2.html",
                    "b.com/",
                    "b.com/1/",
                ][..],
            ),
            (
                "http://a.b.c.d.e.f.com/1.html",
                &[
                    "a.b.c.d.e.f.com/1.html",
                    "a.b.c.d.e.f.com/",
                    "f.com/1.html",
                    "f.com/",
                    "e.f.com/1.html",
                    "e.f.com/",
                    "d.e.f.com/1.html",
                    "d.e.f.com/",
                    "c.d.e.f.com/1.html",
                    "c.d.e.f.com/",
                ],
            ),
            ("http://1.2.3.4/1/", &["1.2.3.4/1/", "1.2.3.4/"]),
            ("http://example.co.uk/1", &["example.co.uk/1", "example.co.uk/"]),
            ("http://co.uk/", &["co.uk/"]),
            ("http://localhost/", &["localhost/"]),
        ] {
            assert_eq!(expressions(url), want, "{url}");
        }
        let longest = expressions("http://a.b.c.d.e.f.example.co.uk/1/2/3/4/5/6.html?q=1");
        assert_eq!(longest.len(), 30);
        assert!(
            longest.contains(&"d.e.f.example.co.uk/1/2/3/".into())
                && !longest.contains(&"c.d.e.f.example.co.uk/".into())
        );
    }

    #[test]
    fn every_spelling_of_a_target_has_one_form() {
        for (url, want) in [
            ("http://host.com/%25%32%35", "host.com/%25"),
            ("http://host.com/%25%32%35%25%32%35", "host.com/%25%25"),
            ("http://host.com/%2525252525252525", "host.com/%25"),
            ("http://host.com/asdf%25%32%35asd", "host.com/asdf%25asd"),
            ("http://host.com/%%%25%32%35asd%%", "host.com/%25%25%25asd%25%25"),
            ("http://www.google.com/", "www.google.com/"),
            ("http://3279880203/blah", "195.127.0.11/blah"),
            ("http://www.google.com/blah/..", "www.google.com/"),
            ("http://www.evil.com/blah#frag", "www.evil.com/blah"),
            ("http://www.GOOgle.com/", "www.google.com/"),
            ("http://www.google.com/foo\tbar\rbaz\n2", "www.google.com/foobarbaz2"),
            ("http://www.google.com/q?r?s", "www.google.com/q?r?s"),
            ("http://www.google.com/q?", "www.google.com/q"),
            ("http://evil.com/foo;", "evil.com/foo;"),
            ("http://evil.com/foo?bar;", "evil.com/foo?bar;"),
            ("http://notrailingslash.com", "notrailingslash.com/"),
            ("http://www.gotaport.com:1234/", "www.gotaport.com/"),
            ("http://user:word@www.evil.com/", "www.evil.com/"),
            ("https://www.securesite.com/", "www.securesite.com/"),
            ("http://host.com/ab%23cd", "host.com/ab%23cd"),
            ("http://host.com//twoslashes?more//slashes", "host.com/twoslashes?more//slashes"),
            ("http://host.com/a/%2e%2e/b/%2E/c%2fd", "host.com/b/c/d"),
            ("http://host.com/a//../b", "host.com/a/b"),
            ("http://host.com/%3Fq=1", "host.com/?q=1"),
            ("http://host.com/%01%80%7f é", "host.com/%01%80%7F%20%C3%A9"),
            ("http://[::ffff:1.2.3.4]/", "1.2.3.4/"),
            ("http://[64:ff9b::1.2.3.4]/", "1.2.3.4/"),
            ("http://[2001:0db8:0000::1]/", "[2001:db8::1]/"),
        ] {
            assert_eq!(expressions(url).first().map(String::as_str), Some(want), "{url}");
        }
    }

    #[test]
    fn hashes_are_the_documented_ones() {
        let mut all = Vec::new();
        let first = |hash: &[u8; 32]| all.push(super::super::prefix_of(hash));
        each_hash(&Target::from_stored("https://a.example.com/".into()), first);
        assert_eq!(all[0], 0x291b_c542);
    }

    #[test]
    fn a_target_escaped_thousands_of_times_is_read_once() {
        let url = format!("http://host.com/%{}41", "25".repeat(4000));
        assert_eq!(expressions(&url)[0], "host.com/A");
    }
}
