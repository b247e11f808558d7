//! Targets of links.

use std::fmt;

use url::{Host, Url};

use crate::domain::{Domain, Hosts};
use crate::host::{BlockedHosts, is_public_address, is_public_name};
use crate::validation::{ValidationError, ValidationErrorKind};

/// The serialisation of an absolute http(s) URL, exactly as sent in `Location`.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Target(Box<str>);

/// The operator's rules for targets.
#[derive(Clone, Debug, Default)]
pub struct TargetRules {
    /// Our own hosts: a link to them would loop.
    pub hosts: Option<Hosts>,
    /// Whether private and loopback targets are allowed.
    pub allow_private: bool,
    /// Blocked hosts.
    pub blocked: BlockedHosts,
}

impl Target {
    /// The maximum length of the serialisation in bytes.
    pub const MAX: usize = 8192;

    /// Parses like a browser (WHATWG URL) and refuses unsafe targets.
    pub fn parse(text: &str, rules: &TargetRules) -> Result<Self, ValidationError> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        // Percent-encoding only lengthens a URL, but a Unicode host may become shorter: the limit
        // before parsing is higher.
        if text.len() > 4 * Self::MAX {
            return refuse(ValidationErrorKind::InvalidUrl, "a URL may have at most 8,192 bytes");
        }
        if text.chars().any(char::is_control) {
            return refuse(
                ValidationErrorKind::InvalidUrl,
                "a URL must not contain control characters",
            );
        }
        let url = Url::parse(text).map_err(|error| {
            let detail = match error {
                url::ParseError::RelativeUrlWithoutBase => {
                    "this is not a web address: it must begin with https:// or http://"
                }
                url::ParseError::InvalidPort => "the port in the address is invalid",
                url::ParseError::EmptyHost => "the address has no host",
                _ => "this is not a web address",
            };
            ValidationError::new(ValidationErrorKind::InvalidUrl, "long_url", detail)
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return refuse(
                ValidationErrorKind::SchemeNotAllowed,
                "the address must begin with https:// or http://",
            );
        }
        check_host(&url, rules)?;
        if url.port().is_some_and(is_bad_port) {
            return refuse(ValidationErrorKind::InvalidUrl, "browsers block this port");
        }
        if url.as_str().len() > Self::MAX {
            return refuse(ValidationErrorKind::InvalidUrl, "a URL may have at most 8,192 bytes");
        }
        Ok(Self(String::from(url).into()))
    }

    /// Reads a stored target. The store guarantees its integrity.
    pub fn from_stored(text: String) -> Self {
        Self(text.into())
    }

    /// The serialisation: printable ASCII only.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host.
    pub fn host(&self) -> Option<String> {
        Url::parse(&self.0).ok()?.host_str().map(str::to_owned)
    }

    /// Appends the visitor's query to the target's query, before the fragment. Characters that a
    /// URL cannot contain are escaped.
    pub fn with_query(&self, query: &str) -> String {
        let query: String = query
            .bytes()
            .map(|byte| {
                if byte.is_ascii_graphic() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
            .collect();
        let (before, fragment) = match self.0.split_once('#') {
            Some((before, fragment)) => (before, Some(fragment)),
            None => (&*self.0, None),
        };
        let joint = match before.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some((_, own)) if own.ends_with('&') => "",
            Some(_) => "&",
        };
        let mut whole = format!("{before}{joint}{query}");
        if let Some(fragment) = fragment {
            whole.push('#');
            whole.push_str(fragment);
        }
        whole
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Omits query and fragment: they may contain secrets, and debug output may be logged.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.split(['?', '#']).next().unwrap_or_default();
        write!(f, "Target({shown})")
    }
}

fn check_host(url: &Url, rules: &TargetRules) -> Result<(), ValidationError> {
    let host = match url.host() {
        Some(Host::Domain(name)) => {
            check_name(name)?;
            name.strip_suffix('.').unwrap_or(name)
        }
        Some(_) => url.host_str().unwrap_or_default(),
        None => return refuse(ValidationErrorKind::InvalidUrl, "the address has no host"),
    };
    if rules.hosts.as_ref().is_some_and(|own| own.domain_of(host).is_some()) {
        return refuse(
            ValidationErrorKind::SelfReference,
            "the address is on this server: the link would lead back to itself",
        );
    }
    let public = match url.host() {
        Some(Host::Domain(name)) => is_public_name(name),
        Some(Host::Ipv4(address)) => is_public_address(address.into()),
        Some(Host::Ipv6(address)) => is_public_address(address.into()),
        None => false,
    };
    if !public && !rules.allow_private {
        return refuse(
            ValidationErrorKind::DestinationNotPublic,
            "the address is not reachable from the public Internet",
        );
    }
    if rules.blocked.contains(host) {
        return refuse(ValidationErrorKind::BlockedDestination, "this target is blocked");
    }
    Ok(())
}

/// Refuses names that exceed the DNS length limits.
fn check_name(name: &str) -> Result<(), ValidationError> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.len() > Domain::MAX || name.split('.').any(|label| !(1..=63).contains(&label.len())) {
        return refuse(
            ValidationErrorKind::InvalidUrl,
            "the host name is invalid: labels may have 1 to 63 characters, the name at most 253",
        );
    }
    // A fallback would fill in its {code} there, and the visitor would choose the host.
    if name.contains(['{', '}']) {
        return refuse(ValidationErrorKind::InvalidUrl, "the host name must not contain braces");
    }
    Ok(())
}

fn refuse<T>(kind: ValidationErrorKind, detail: &'static str) -> Result<T, ValidationError> {
    Err(ValidationError::new(kind, "long_url", detail))
}

/// Whether a port belongs to another protocol, whose server could misinterpret an HTTP request.
pub fn is_bad_port(port: u16) -> bool {
    BAD_PORTS.contains(&port)
}

/// The bad ports of the Fetch standard, and 0.
const BAD_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> TargetRules {
        TargetRules {
            hosts: Hosts::new(&Url::parse("https://go.example/").unwrap(), &[], vec![]),
            allow_private: false,
            blocked: BlockedHosts::parse(&["evil.example"]).unwrap(),
        }
    }

    #[test]
    fn a_target_is_stored_as_its_serialisation() {
        for (text, want) in [
            ("https://example.com", "https://example.com/"),
            (" https://example.com:0443/ ", "https://example.com/"),
            ("https://example.com./path", "https://example.com./path"),
            ("https://münchen.de/straße", "https://xn--mnchen-3ya.de/stra%C3%9Fe"),
            ("https://example.com/a/./b/../c", "https://example.com/a/c"),
            ("https://example.com/?a=1&&b=2&", "https://example.com/?a=1&&b=2&"),
            ("https://example.com/?", "https://example.com/?"),
            ("http://[2620:FE::FE]:8080/x", "http://[2620:fe::fe]:8080/x"),
        ] {
            assert_eq!(Target::parse(text, &rules()).unwrap().as_str(), want);
        }
    }

    #[test]
    fn an_invalid_target_is_refused_with_its_kind() {
        use ValidationErrorKind::*;
        let long = format!("https://example.com/{}", "a".repeat(8173));
        let label = format!("https://{}.example.com/", "a".repeat(64));
        for (text, kind) in [
            ("javascript:alert(1)", SchemeNotAllowed),
            ("JaVaScRiPt:alert(1)", SchemeNotAllowed),
            ("ftp://example.com/", SchemeNotAllowed),
            ("javascript\r\n:alert(1)", InvalidUrl),
            ("example.com/path", InvalidUrl),
            ("   ", InvalidUrl),
            ("http://", InvalidUrl),
            ("https://example..com/", InvalidUrl),
            ("https://../", InvalidUrl),
            ("https://example.com/\u{85}x", InvalidUrl),
            ("http://example.com:25/", InvalidUrl),
            (&long, InvalidUrl),
            (&label, InvalidUrl),
            ("https://GO.example:8080/x", SelfReference),
            ("https://user@go.example./x", SelfReference),
            ("http://0x7f.1/", DestinationNotPublic),
            ("http://①②⑦.⓪.⓪.①/", DestinationNotPublic),
            ("http://LOCALHOST:3000/", DestinationNotPublic),
            ("http://printer.local./", DestinationNotPublic),
            ("https://ev\u{ad}il.example/", BlockedDestination),
            ("https://sub.evil.example./", BlockedDestination),
        ] {
            assert_eq!(Target::parse(text, &rules()).unwrap_err().kind, kind, "{text}");
        }
    }

    #[test]
    fn the_limit_is_on_the_serialisation() {
        let just_fits = format!("https://example.com/{}", "a".repeat(8172));
        assert_eq!(Target::parse(&just_fits, &rules()).unwrap().as_str().len(), 8192);
        let grows = format!("https://example.com/{}", "é".repeat(1400));
        assert!(Target::parse(&grows, &rules()).is_err());
    }

    #[test]
    fn a_forwarded_query_is_put_before_the_fragment() {
        for (target, want) in [
            ("https://e.com/", "https://e.com/?x=1"),
            ("https://e.com/?a=1#f", "https://e.com/?a=1&x=1#f"),
            ("https://e.com/?#f", "https://e.com/?x=1#f"),
            ("https://e.com/?a=1&", "https://e.com/?a=1&x=1"),
        ] {
            assert_eq!(Target::from_stored(target.into()).with_query("x=1"), want);
        }
        assert_eq!(
            Target::from_stored("https://e.com/".into()).with_query("q=é%20\u{1}"),
            "https://e.com/?q=%C3%A9%20%01"
        );
    }

    #[test]
    fn debug_output_hides_the_query() {
        let target = Target::from_stored("https://e.com/p?token=secret#x".into());
        assert_eq!(format!("{target:?}"), "Target(https://e.com/p)");
    }
}
