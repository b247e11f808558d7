//! URLs that the client may request.

use terse_core::{is_bad_port, is_public_name};
use ureq::http::Uri;
use url::{Host, Url};

use crate::policy::Policy;
use terse_core::OutgoingError;

/// The same limit as for targets.
const MAX_URL_LEN: usize = 8192;

/// A URL with an allowed scheme, port and host name. Addresses are checked separately, after
/// resolution.
pub(crate) struct RequestUrl {
    url: Url,
    /// The same URL for ureq. Both parsers agree on the host, so the checked host is the requested
    /// one.
    uri: Uri,
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

impl RequestUrl {
    pub(crate) fn parse(text: &str, policy: &Policy) -> Result<Self, OutgoingError> {
        if text.len() > MAX_URL_LEN {
            return refuse("the URL is too long");
        }
        // The URL parser would silently drop tabs and line breaks.
        if text.chars().any(char::is_control) {
            return refuse("the URL contains control characters");
        }
        match Url::parse(text) {
            Ok(url) => Self::check(url, policy),
            Err(_) => refuse("not a valid URL"),
        }
    }

    fn check(mut url: Url, policy: &Policy) -> Result<Self, OutgoingError> {
        if !matches!(url.scheme(), "http" | "https") {
            return refuse("the scheme must be http or https");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("the URL must not contain a user name or password");
        }
        url.set_fragment(None);
        let (Some(host), Some(port)) =
            (url.host().map(|host| host.to_owned()), url.port_or_known_default())
        else {
            return refuse("the URL has no host");
        };
        if is_bad_port(port) || (port < 1024 && !matches!(port, 80 | 443)) {
            return refuse("the port is not allowed");
        }
        if let Host::Domain(name) = &host {
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.len() > 253 || name.split('.').any(|label| !(1..=63).contains(&label.len())) {
                return refuse("the host name is invalid");
            }
            // Public names contain a dot; others can only be resolved in a local network.
            let public = is_public_name(name) && name.contains('.');
            if !public && !policy.allow_private {
                return Err(OutgoingError::RefusedAddress);
            }
        }
        if url.as_str().len() > MAX_URL_LEN {
            return refuse("the URL is too long");
        }
        let Ok(uri) = url.as_str().parse::<Uri>() else { return refuse("not a valid URL") };
        if uri.host() != url.host_str()
            || uri.port_u16() != url.port()
            || uri.scheme_str() != Some(url.scheme())
        {
            return refuse("not a valid URL");
        }
        Ok(Self { url, uri, host, port })
    }

    /// Resolves a `Location` header, checked like the first URL.
    pub(crate) fn follow(&self, location: &[u8], policy: &Policy) -> Result<Self, OutgoingError> {
        let Ok(text) = str::from_utf8(location) else {
            return Err(OutgoingError::BadRedirect("its Location header is not UTF-8"));
        };
        if text.len() > MAX_URL_LEN {
            return Err(OutgoingError::BadRedirect("its Location header is too long"));
        }
        let Ok(url) = self.url.join(text) else {
            return Err(OutgoingError::BadRedirect("its Location header is not a URL"));
        };
        let next = Self::check(url, policy).map_err(|error| match error {
            OutgoingError::NotAllowed(why) => OutgoingError::BadRedirect(why),
            error => error,
        })?;
        if self.is_tls() && !next.is_tls() {
            return Err(OutgoingError::BadRedirect("from https to http"));
        }
        Ok(next)
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(crate) fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) fn uri(&self) -> Uri {
        self.uri.clone()
    }
}

fn refuse<T>(why: &'static str) -> Result<T, OutgoingError> {
    Err(OutgoingError::NotAllowed(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RequestUrl, OutgoingError> {
        RequestUrl::parse(text, &Policy::default())
    }

    #[test]
    fn ordinary_urls_are_accepted() {
        for (text, port) in [
            ("http://site.test", 80),
            ("https://site.test./a?b=`|^{}\"<>'[]#c", 443),
            ("https://münchen.test:8443/straße", 8443),
            ("http://[2620:fe::fe]:8080/", 8080),
            ("http://8.8.8.8/", 80),
        ] {
            assert_eq!(parse(text).map(|url| url.port).ok(), Some(port), "{text}");
        }
        assert_eq!(parse("http://site.test/p#f").unwrap().as_str(), "http://site.test/p");
    }

    #[test]
    fn disallowed_urls_are_refused_before_any_lookup() {
        let long = format!("http://site.test/{}", "a".repeat(MAX_URL_LEN));
        for text in [
            "",
            "site.test/",
            "ftp://site.test/",
            "file:///etc/passwd",
            "gopher://site.test:70/",
            "http://user@site.test/",
            "http://user:pass@site.test/",
            "http://:pass@site.test/",
            "http://site.test:22/",
            "http://site.test:81/",
            "http://site.test:6667/",
            "http://site..test/",
            "http://si\tte.test/",
            "http://site.test/\r\nHost: x",
            &long,
        ] {
            assert!(matches!(parse(text), Err(OutgoingError::NotAllowed(_))), "{text}");
        }
    }

    #[test]
    fn redirects_never_leave_tls() {
        let policy = Policy::default();
        let secure = parse("https://site.test/a/b").unwrap();
        assert_eq!(
            secure.follow(b"../c?d", &policy).ok().unwrap().as_str(),
            "https://site.test/c?d"
        );
        assert_eq!(
            secure.follow(b"//other.test/", &policy).ok().unwrap().as_str(),
            "https://other.test/"
        );
        for location in [
            &b"http://site.test/"[..],
            b"javascript:alert(1)",
            b"https://u:p@site.test/",
            b"\xff",
            b"https://site.test:25/",
        ] {
            assert!(
                matches!(secure.follow(location, &policy), Err(OutgoingError::BadRedirect(_))),
                "{location:?}"
            );
        }
    }
}
