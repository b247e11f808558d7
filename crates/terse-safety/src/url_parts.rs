//! The parts of a URL, as slices of its serialisation.

use std::net::Ipv4Addr;

use terse_core::Target;

/// Slices of one serialised URL. A serialisation is canonical, so the delimiters alone determine
/// the parts: the authority ends at the first slash, and an `@` inside it ends the credentials.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct UrlParts<'a> {
    /// `user:password`, without the `@`.
    pub(crate) credentials: Option<&'a str>,
    /// The host without a trailing dot; an IPv6 address in brackets.
    pub(crate) host: &'a str,
    /// Absent for the scheme's default port.
    pub(crate) port: Option<&'a str>,
    /// Includes the leading slash.
    pub(crate) path: &'a str,
    /// Without the question mark.
    pub(crate) query: Option<&'a str>,
    /// Without the hash.
    pub(crate) fragment: Option<&'a str>,
}

impl<'a> UrlParts<'a> {
    /// `None` if the target is not an http(s) URL, which only a damaged store could contain.
    pub(crate) fn of(target: &'a Target) -> Option<Self> {
        Self::parse(target.as_str())
    }

    /// Splits a serialised URL.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let (rest, fragment) = split(rest, '#');
        let (rest, query) = split(rest, '?');
        let (authority, path) = rest.split_at(rest.find('/')?);
        let (credentials, host_and_port) = match authority.rsplit_once('@') {
            Some((credentials, host_and_port)) => (Some(credentials), host_and_port),
            None => (None, authority),
        };
        let (host, port) = match host_and_port.rfind([':', ']']) {
            Some(at) if host_and_port.as_bytes()[at] == b':' => {
                (&host_and_port[..at], Some(&host_and_port[at + 1..]))
            }
            _ => (host_and_port, None),
        };
        Some(Self {
            credentials,
            host: host.strip_suffix('.').unwrap_or(host),
            port,
            path,
            query,
            fragment,
        })
    }

    /// Whether the host is an IP address.
    pub(crate) fn is_address(&self) -> bool {
        is_address(self.host)
    }
}

/// Whether a canonical host is an IP address. Of canonical hosts only IPv4 addresses end in a digit
/// label.
pub(crate) fn is_address(host: &str) -> bool {
    host.starts_with('[')
        || (host.ends_with(|last: char| last.is_ascii_digit()) && host.parse::<Ipv4Addr>().is_ok())
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::Url;

    use super::*;

    fn as_the_parser_says(
        url: &Url,
    ) -> (String, Option<String>, String, Option<String>, Option<String>, bool) {
        let host = url.host_str().unwrap();
        (
            host.strip_suffix('.').unwrap_or(host).into(),
            url.port().map(|port| port.to_string()),
            url.path().into(),
            url.query().map(Into::into),
            url.fragment().map(Into::into),
            !url.username().is_empty() || url.password().is_some(),
        )
    }

    fn check(text: &str) {
        let Ok(url) = Url::parse(text) else { return };
        if !matches!(url.scheme(), "http" | "https") {
            return;
        }
        let parts = UrlParts::parse(url.as_str()).unwrap();
        let sliced = (
            parts.host.to_owned(),
            parts.port.map(Into::into),
            parts.path.to_owned(),
            parts.query.map(Into::into),
            parts.fragment.map(Into::into),
            parts.credentials.is_some(),
        );
        assert_eq!(sliced, as_the_parser_says(&url), "{url}");
        assert_eq!(parts.is_address(), !matches!(url.host(), Some(url::Host::Domain(_))), "{url}");
    }

    #[test]
    fn slices_agree_with_the_parser_on_odd_urls() {
        for text in [
            "https://example.com",
            "http://u:p@example.com.:8080/a:b@c?d@e#f?g",
            "http://[2620:fe::fe]:81/]:9",
            "http://[2620:fe::fe]/",
            "https://a%40b@x.example?y/z",
            "https://x.example#y/z?",
            "http://0x8080808/",
            "https://@x.example/",
            "https://:@x.example/",
        ] {
            check(text);
        }
    }

    proptest! {
        #[test]
        fn slices_agree_with_the_parser(tail in "[a-z0-9@:/?#.%\\[\\]é-]{0,40}") {
            check(&format!("https://{tail}"));
        }

        #[test]
        fn any_stored_text_is_handled(text in "(https?://)?\\PC{0,40}") {
            let _ = UrlParts::parse(&text);
        }
    }
}
