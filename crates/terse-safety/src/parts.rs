//! The parts of a target, sliced from its serialisation.

use std::net::Ipv4Addr;

use terse_core::Target;

/// Slices of one serialised URL. A serialisation is canonical, so its parts are found by their
/// delimiters alone: the authority ends at the first slash, and within it an `@` can only end the
/// credentials.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Parts<'a> {
    /// `user:password`, without the `@`.
    pub(crate) credentials: Option<&'a str>,
    /// The host without a trailing dot; an IPv6 address in brackets.
    pub(crate) host: &'a str,
    /// Only where it is not the scheme's own.
    pub(crate) port: Option<&'a str>,
    /// From the slash on.
    pub(crate) path: &'a str,
    /// Behind the question mark.
    pub(crate) query: Option<&'a str>,
    /// Behind the hash.
    pub(crate) fragment: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// `None` for what is no http(s) URL, which only a damaged store could hold.
    pub(crate) fn of(target: &'a Target) -> Option<Self> {
        Self::of_text(target.as_str())
    }

    /// Of a serialisation.
    pub(crate) fn of_text(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let (rest, fragment) = split(rest, '#');
        let (rest, query) = split(rest, '?');
        let (authority, path) = rest.split_at(rest.find('/')?);
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, authority),
        };
        let (host, port) = match place.rfind([':', ']']) {
            Some(at) if place.as_bytes()[at] == b':' => (&place[..at], Some(&place[at + 1..])),
            _ => (place, None),
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

    /// Whether the host is an address rather than a name.
    pub(crate) fn is_address(&self) -> bool {
        is_address(self.host)
    }
}

/// Whether a canonical host is an address. Only a canonical IPv4 address ends in a number.
pub(crate) fn is_address(host: &str) -> bool {
    host.starts_with('[')
        || (host.ends_with(|last: char| last.is_ascii_digit()) && host.parse::<Ipv4Addr>().is_ok())
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, behind)) => (before, Some(behind)),
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
        let parts = Parts::of_text(url.as_str()).unwrap();
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
        fn any_stored_text_is_survived(text in "(https?://)?\\PC{0,40}") {
            let _ = Parts::of_text(&text);
        }
    }
}
