//! The domains of short links.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// The domain part of a link's key. The primary domain is stored as the empty name, so that a
/// change of `base_url` changes no link's key. Additional domains are stored as their canonical
/// host.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Domain(Arc<str>);

impl Domain {
    /// The longest name of a host, in bytes (RFC 1035, without the last dot).
    pub const MAX: usize = 253;

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
    /// The host of the API and the dashboard, if they have one of their own.
    api: Option<Domain>,
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
        Some(Self { base_url, primary, also_primary, further, api: None, added: Arc::default() })
    }

    /// Gives API, sign-in and dashboard a host of their own, which is no short domain. `None` if it
    /// is one.
    pub fn with_api_host(self, host: Domain) -> Option<Self> {
        match self.domain_of(host.as_str()) {
            Some(_) => None,
            None => Some(Self { api: Some(host), ..self }),
        }
    }

    /// The host of API, sign-in and dashboard, if they have one of their own.
    pub fn api_host(&self) -> Option<&str> {
        self.api.as_ref().map(Domain::as_str)
    }

    /// Whether a request's host (without port) is that of the API. Ignores case and a trailing dot.
    pub fn is_api_host(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.api.as_ref().is_some_and(|api| api.as_str().eq_ignore_ascii_case(host))
    }

    /// Whether a request's host (without port) is a local name, which commands on this machine use.
    pub fn is_local_name(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.also_primary.iter().any(|own| own.eq_ignore_ascii_case(host))
    }

    /// The base of API, sign-in and dashboard, without a trailing slash.
    pub fn api_base(&self) -> String {
        self.base_of(self.api.as_ref().unwrap_or(&Domain::primary()))
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
            || self.is_api_host(host)
    }

    /// All canonical host names of this server, also that of the API.
    pub fn own_names(&self) -> Vec<String> {
        self.names().into_iter().chain(self.api_host().map(str::to_owned)).collect()
    }

    /// The canonical host names of the short domains.
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

/// A host name as the URL parser serialises it, without a trailing dot. The parser would remove
/// tabs and line breaks, and the name would be another one than was sent.
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
    fn the_host_of_the_api_is_no_short_domain() {
        let base = url::Url::parse("https://go.example:8443/").unwrap();
        let own = || Hosts::new(&base, &["localhost"], vec![Domain::parse("b.example").unwrap()]);
        assert_eq!(own().unwrap().api_base(), "https://go.example:8443");
        let parse = |host| Domain::parse(host).unwrap();
        for host in ["go.example", "B.example", "localhost"] {
            assert!(own().unwrap().with_api_host(parse(host)).is_none(), "{host}");
        }
        let hosts = own().unwrap().with_api_host(parse("Api.example")).unwrap();
        assert_eq!(hosts.api_base(), "https://api.example:8443");
        assert!(hosts.is_api_host("API.example.") && !hosts.is_api_host("go.example"));
        assert_eq!(hosts.domain_of("api.example"), None);
        hosts.set_added([parse("api.example"), parse("c.example")]);
        assert_eq!(*hosts.added(), [parse("c.example")]);
        assert!(!hosts.names().contains(&"api.example".to_owned()));
        assert!(hosts.own_names().contains(&"api.example".to_owned()));
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
