//! The domains of short links.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// The domain part of a link's key. The primary domain is stored as the empty name, so that a
/// change of `base_url` changes no link's key. Additional domains are stored as their canonical
/// host.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Domain(Arc<str>);

impl Domain {
    /// The domain of `base_url`.
    pub fn primary() -> Self {
        Self("".into())
    }

    /// Parses an additional domain and canonicalises it like the host of a URL. `None` if it is not
    /// a valid host.
    pub fn parse(host: &str) -> Option<Self> {
        canonical_host(host).map(|host| Self(host.into()))
    }

    /// Reads a stored domain.
    pub fn from_stored(name: &str) -> Self {
        Self(name.into())
    }

    /// The stored name: empty for the primary domain.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the domain of `base_url`.
    pub fn is_primary(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_primary() {
            f.write_str("Domain(primary)")
        } else {
            write!(f, "Domain({})", self.0)
        }
    }
}

/// The host names that this server answers for. All clones share the domains added at run time.
#[derive(Clone, Debug)]
pub struct Hosts {
    base_url: Box<str>,
    primary: Box<str>,
    /// Aliases of the primary domain, such as `localhost`.
    also_primary: Vec<Box<str>>,
    /// From the settings; fixed for the life of the process.
    further: Vec<Domain>,
    /// Added at run time.
    added: Arc<RwLock<Arc<[Domain]>>>,
}

impl Hosts {
    /// `base_url` must be an absolute http(s) URL without query and fragment. A short link is
    /// `base_url`, a slash and the code.
    pub fn new(base_url: &url::Url, also_primary: &[&str], further: Vec<Domain>) -> Option<Self> {
        let primary = base_url.host_str()?.trim_end_matches('.').into();
        let also_primary =
            also_primary.iter().filter_map(|host| canonical_host(host)).map(Into::into).collect();
        let base_url = base_url.as_str().trim_end_matches('/').into();
        Some(Self { base_url, primary, also_primary, further, added: Arc::default() })
    }

    /// The domain for a request's host (without port); `None` if it is not one of ours. Ignores
    /// case and a trailing dot.
    pub fn domain_of(&self, host: &str) -> Option<Domain> {
        let host = host.strip_suffix('.').unwrap_or(host);
        if self.primary.eq_ignore_ascii_case(host)
            || self.also_primary.iter().any(|h| h.eq_ignore_ascii_case(host))
        {
            return Some(Domain::primary());
        }
        let is = |domain: &&Domain| domain.as_str().eq_ignore_ascii_case(host);
        self.further.iter().find(is).cloned().or_else(|| self.added().iter().find(is).cloned())
    }

    /// The domains from the settings, the primary one first.
    pub fn configured(&self) -> impl Iterator<Item = Domain> + '_ {
        std::iter::once(Domain::primary()).chain(self.further.iter().cloned())
    }

    /// The domains added at run time.
    pub fn added(&self) -> Arc<[Domain]> {
        Arc::clone(&self.added.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the domains added at run time. Domains from the settings are left out.
    pub fn set_added(&self, domains: impl IntoIterator<Item = Domain>) {
        let fixed = |domain: &Domain| domain.is_primary() || self.is_configured(domain);
        let added = domains.into_iter().filter(|domain| !fixed(domain)).collect();
        *self.added.write().unwrap_or_else(PoisonError::into_inner) = added;
    }

    /// Whether the settings name this host.
    fn is_configured(&self, domain: &Domain) -> bool {
        let host = domain.as_str();
        *self.primary == *host
            || self.also_primary.iter().any(|own| **own == *host)
            || self.further.contains(domain)
    }

    /// All canonical host names of this server.
    pub fn names(&self) -> Vec<String> {
        std::iter::once(&*self.primary)
            .chain(self.also_primary.iter().map(|host| &**host))
            .chain(self.further.iter().map(Domain::as_str))
            .chain(self.added().iter().map(Domain::as_str))
            .map(str::to_owned)
            .collect()
    }

    /// The display name of a domain.
    pub fn name_of<'a>(&'a self, domain: &'a Domain) -> &'a str {
        if domain.is_primary() { &self.primary } else { domain.as_str() }
    }

    /// The base of the short links of a domain, without a trailing slash.
    pub fn base_of(&self, domain: &Domain) -> String {
        if domain.is_primary() {
            return self.base_url.to_string();
        }
        // All domains use the same scheme and port.
        let (scheme, rest) = self.base_url.split_once("://").unwrap_or(("https", ""));
        let port = rest.strip_prefix(&*self.primary).unwrap_or_default();
        format!("{scheme}://{}{port}", domain.as_str())
    }

    /// The host of `base_url`.
    pub fn primary_host(&self) -> &str {
        &self.primary
    }
}

/// A host name as the URL parser serialises it, without a trailing dot. The parser would remove tabs
/// and line breaks, and the name would be another one than was sent.
fn canonical_host(host: &str) -> Option<String> {
    if host.contains(['/', '@', '?', '#', '\\']) || host.contains(char::is_control) {
        return None;
    }
    let url = url::Url::parse(&format!("http://{host}/")).ok()?;
    if url.port().is_some() {
        return None;
    }
    Some(url.host_str()?.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_ours_in_any_spelling_and_nothing_else_is() {
        let base = url::Url::parse("https://Go.Example/").unwrap();
        let hosts =
            Hosts::new(&base, &["localhost"], vec![Domain::parse("b.example").unwrap()]).unwrap();
        for host in ["go.example", "GO.example.", "localhost"] {
            assert_eq!(hosts.domain_of(host), Some(Domain::primary()), "{host}");
        }
        assert_eq!(hosts.domain_of("B.example").unwrap().as_str(), "b.example");
        for host in ["", "example", "x.go.example", "go.example.evil.net", "go.example:80"] {
            assert_eq!(hosts.domain_of(host), None, "{host}");
        }
        assert_eq!(hosts.base_of(&Domain::primary()), "https://go.example");
        assert_eq!(hosts.base_of(&Domain::parse("b.example").unwrap()), "https://b.example");
        let base = url::Url::parse("http://[::1]:8080/").unwrap();
        let hosts = Hosts::new(&base, &[], vec![]).unwrap();
        assert_eq!(hosts.base_of(&Domain::parse("b.example").unwrap()), "http://b.example:8080");
    }

    #[test]
    fn a_control_character_in_a_name_is_refused_not_removed() {
        for name in ["b.exam\tple", "b.exam\nple", "b.example\r", "\tb.example", "b.\u{7f}example"]
        {
            assert_eq!(Domain::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn added_domains_are_shared_by_all_clones_and_can_be_removed() {
        let base = url::Url::parse("https://go.example/").unwrap();
        let b = Domain::parse("b.example").unwrap();
        let hosts = Hosts::new(&base, &["localhost"], vec![b.clone()]).unwrap();
        let (clone, c) = (hosts.clone(), Domain::parse("c.example").unwrap());
        hosts.set_added(
            ["go.example", "localhost", "b.example", "c.example"]
                .map(|name| Domain::parse(name).unwrap()),
        );
        assert_eq!(*clone.added(), *std::slice::from_ref(&c));
        assert_eq!(clone.domain_of("C.example."), Some(c));
        assert_eq!(clone.domain_of("localhost"), Some(Domain::primary()));
        assert_eq!(clone.names(), ["go.example", "localhost", "b.example", "c.example"]);
        hosts.set_added([]);
        assert_eq!((clone.domain_of("c.example"), clone.domain_of("b.example")), (None, Some(b)));
    }
}
