//! Host names: canonical form, public suffix and labels.

use std::net::IpAddr;

use terse_core::is_public_address;
use terse_suffix_list::public_suffix;
use url::Host;

/// A host as the URL parser serialises it, without a trailing dot. `None` for an invalid host.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    if !has_plausible_length(text) {
        return None;
    }
    if is_canonical_already(text) {
        return Some(text.to_owned());
    }
    // Blocklists write IPv6 addresses without brackets; URLs cannot.
    if let Ok(IpAddr::V6(address)) = text.parse() {
        return Some(format!("[{address}]"));
    }
    let host = Host::parse(text).ok()?.to_string();
    let host = host.strip_suffix('.').unwrap_or(&host);
    is_valid(host).then(|| host.to_owned())
}

/// Whether a host can be short enough after IDNA encoding. Encoding takes quadratic time, so the
/// check comes first and a malicious list cannot waste CPU time.
pub(crate) fn has_plausible_length(text: &str) -> bool {
    text.len() <= 1024 && text.chars().count() <= 3 * 253
}

/// A fast path: nearly all list entries are already canonical and need no parser.
fn is_canonical_already(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
        && has_valid_labels(text)
        && text.split('.').all(|label| !label.starts_with("xn--"))
        && text
            .rsplit('.')
            .next()
            .is_some_and(|last| last.starts_with(|first: char| first.is_ascii_lowercase()))
}

/// Whether a canonical host satisfies the DNS length limits, which the URL parser does not check.
pub(crate) fn is_valid(host: &str) -> bool {
    host.starts_with('[') || has_valid_labels(host)
}

fn has_valid_labels(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len()))
}

/// Whether a host is internal: a name without a dot, a local name, or a non-public IP address.
pub(crate) fn is_internal(host: &str) -> bool {
    const INTERNAL: &[&str] = &[
        "localhost",
        "local",
        "internal",
        "localdomain",
        "intranet",
        "lan",
        "private",
        "corp",
        "arpa",
    ];
    match address(host) {
        Some(address) => !is_public_address(address),
        None => {
            !host.contains('.')
                || host.rsplit('.').next().is_some_and(|last| INTERNAL.contains(&last))
        }
    }
}

fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?.parse().ok(),
        None => host.parse().ok(),
    }
}

/// The kind of public suffix that a whole host is, if it is one.
pub(crate) fn suffix_kind(host: &str) -> Option<SuffixKind> {
    let suffix = public_suffix(host)?;
    (suffix.len == host.len()).then_some(match suffix.is_private {
        true => SuffixKind::Platform,
        false => SuffixKind::Registry,
    })
}

/// Who assigns the names below a public suffix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SuffixKind {
    /// `com`, `co.uk`.
    Registry,
    /// `github.io`, `duckdns.org`.
    Platform,
}

/// A host split at its registered label: `a.b` + `paypal` + `com` for `a.b.paypal.com`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DomainParts<'a> {
    /// The labels before the registered one; may be empty.
    pub(crate) subdomains: &'a str,
    /// The registered label.
    pub(crate) label: &'a str,
    /// The public suffix.
    pub(crate) suffix: &'a str,
}

impl<'a> DomainParts<'a> {
    /// `None` for IP addresses, public suffixes and names without a dot.
    pub(crate) fn of(host: &'a str) -> Option<Self> {
        if crate::url_parts::is_address(host) {
            return None;
        }
        let suffix = public_suffix(host)?.len;
        let (rest, suffix) = host.split_at_checked(host.len().checked_sub(suffix)?)?;
        let rest = rest.strip_suffix('.')?;
        let (subdomains, label) = rest.rsplit_once('.').unwrap_or(("", rest));
        (!label.is_empty()).then_some(Self { subdomains, label, suffix })
    }
}

/// Whether a host is a domain or one of its subdomains.
pub(crate) fn is_at_or_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_spelling_of_a_host_becomes_one() {
        for (text, want) in [
            ("Bad.Example.", "bad.example"),
            ("  bad.example ", "bad.example"),
            ("%62ad.example", "bad.example"),
            ("ｂａｄ。example", "bad.example"),
            ("münchen.de", "xn--mnchen-3ya.de"),
            ("XN--MNCHEN-3YA.de", "xn--mnchen-3ya.de"),
            ("0x8080808", "8.8.8.8"),
            ("010.8.8.8", "8.8.8.8"),
            ("[2620:FE:0::FE]", "[2620:fe::fe]"),
            ("2620:FE:0::FE", "[2620:fe::fe]"),
            ("a_b.example", "a_b.example"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(want), "{text}");
        }
        for text in [
            "",
            ".",
            "..",
            "a..b",
            "a b",
            "a/b",
            "a@b",
            "a:80",
            "256.1.1.1",
            "xn--a",
            "\0",
            "1.2.3.999",
            "<html>",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
        assert_eq!(canonical(&format!("{}.example", "a".repeat(64))), None);
        assert_eq!(canonical(&"a.".repeat(130)), None);
    }

    #[test]
    fn a_host_is_split_at_its_public_suffix() {
        let parts =
            |host| DomainParts::of(host).map(|parts| (parts.subdomains, parts.label, parts.suffix));
        assert_eq!(parts("a.b.paypal.com"), Some(("a.b", "paypal", "com")));
        assert_eq!(parts("amazon.co.uk"), Some(("", "amazon", "co.uk")));
        assert_eq!(parts("paypal.github.io"), Some(("", "paypal", "github.io")));
        assert_eq!(parts("a.example"), Some(("", "a", "example")));
        for host in ["co.uk", "com", "ai", "8.8.8.8", "[2620:fe::fe]", "", "."] {
            assert_eq!(parts(host), None, "{host}");
        }
    }

    proptest! {
        #[test]
        fn the_fast_path_agrees_with_the_parser(text in "[a-z0-9.-]{0,20}") {
            let by_the_parser = Host::parse(&text).ok().map(|host| host.to_string());
            if is_canonical_already(&text) {
                prop_assert_eq!(Some(text), by_the_parser);
            }
        }

        #[test]
        fn a_canonical_host_stays_as_it_is(text in "\\PC{0,30}") {
            if let Some(host) = canonical(&text) {
                prop_assert_eq!(canonical(&host), Some(host.clone()));
                let _ = DomainParts::of(&host);
            }
        }
    }
}
