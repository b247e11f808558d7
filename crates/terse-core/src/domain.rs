//! The host names under which short links live.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// The domain half of a link's key. The primary domain is written as the empty name, so that a
/// server can be given another `base_url` without a single link changing its key; further domains
/// are written as their canonical host.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Domain(Arc<str>);

impl Domain {
    /// The domain of `base_url`, whatever it is today.
    pub fn primary() -> Self {
        Self("".into())
    }

    /// A further domain, canonicalised like the host of a URL. `None` if it cannot be a host.
    pub fn parse(host: &str) -> Option<Self> {
        canonical_host(host).map(|host| Self(host.into()))
    }

    /// As a store wrote it earlier.
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

/// Which host names this server answers for. What is added while running is known to all clones at
/// once.
#[derive(Clone, Debug)]
pub struct Hosts {
    base_url: Box<str>,
    primary: Box<str>,
    /// Other spellings of the primary domain, such as `localhost` on a laptop.
    also_primary: Vec<Box<str>>,
    /// From the settings: for the life of the process.
    further: Vec<Domain>,
    /// Added while running.
    added: Arc<RwLock<Arc<[Domain]>>>,
}

impl Hosts {
    /// `base_url` must be an absolute http(s) URL without query and fragment; short links are it, a
    /// slash, and the code.
    pub fn new(base_url: &url::Url, also_primary: &[&str], further: Vec<Domain>) -> Option<Self> {
        let primary = base_url.host_str()?.trim_end_matches('.').into();
        let also_primary =
            also_primary.iter().filter_map(|host| canonical_host(host)).map(Into::into).collect();
        let base_url = base_url.as_str().trim_end_matches('/').into();
        Some(Self { base_url, primary, also_primary, further, added: Arc::default() })
    }

    /// The domain a request for `host` (no port) is for, or `None` if it is not ours. Case and a
    /// trailing dot do not matter.
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

    /// The domains of the settings, the primary one first.
    pub fn settled(&self) -> impl Iterator<Item = Domain> + '_ {
        std::iter::once(Domain::primary()).chain(self.further.iter().cloned())
    }

    /// Those that were added while running.
    pub fn added(&self) -> Arc<[Domain]> {
        Arc::clone(&self.added.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces those that were added while running. What the settings name already is not added to
    /// it.
    pub fn set_added(&self, domains: impl IntoIterator<Item = Domain>) {
        let fixed = |domain: &Domain| domain.is_primary() || self.is_settled(domain);
        let added = domains.into_iter().filter(|domain| !fixed(domain)).collect();
        *self.added.write().unwrap_or_else(PoisonError::into_inner) = added;
    }

    /// Whether the settings name this host in one way or another.
    fn is_settled(&self, domain: &Domain) -> bool {
        let host = domain.as_str();
        *self.primary == *host
            || self.also_primary.iter().any(|own| **own == *host)
            || self.further.contains(domain)
    }

    /// Every host name that leads to us, canonical.
    pub fn names(&self) -> Vec<String> {
        std::iter::once(&*self.primary)
            .chain(self.also_primary.iter().map(|host| &**host))
            .chain(self.further.iter().map(Domain::as_str))
            .chain(self.added().iter().map(Domain::as_str))
            .map(str::to_owned)
            .collect()
    }

    /// What people call a domain.
    pub fn name_of<'a>(&'a self, domain: &'a Domain) -> &'a str {
        if domain.is_primary() { &self.primary } else { domain.as_str() }
    }

    /// What short links of a domain begin with, without the closing slash.
    pub fn base_of(&self, domain: &Domain) -> String {
        if domain.is_primary() {
            return self.base_url.to_string();
        }
        // The same scheme and port: all domains lead to the same server.
        let (scheme, rest) = self.base_url.split_once("://").unwrap_or(("https", ""));
        let port = rest.strip_prefix(&*self.primary).unwrap_or_default();
        format!("{scheme}://{}{port}", domain.as_str())
    }

    /// The host of `base_url`.
    pub fn primary_host(&self) -> &str {
        &self.primary
    }
}

/// A host name as a URL parser writes it, without a trailing dot.
fn canonical_host(host: &str) -> Option<String> {
    if host.contains(['/', '@', '?', '#', '\\']) {
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
    fn a_domain_that_is_added_is_known_to_every_clone_and_leaves_again() {
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
