//! Finds the domain of a `Host` field.
//!
//! The domains of the settings are in plain tables that never change; most requests need only
//! these. The domains that were added at run time are in lock-free tables.

use std::sync::{Mutex, OnceLock, PoisonError};

use terse_core::{Domain, Hosts};

/// How many domains can be added while the process runs, including those that are removed again. A
/// number is never reused, so that cached routes under it stay correct.
const MAX_ADDED: usize = 4096;

/// The domains by number, and the common spellings of their hosts.
pub struct HostTable {
    hosts: Hosts,
    port: u16,
    domains: Vec<Domain>,
    spellings: Vec<(Box<[u8]>, u16)>,
    /// Added domains. Their numbers follow those of `domains`, in the order of their arrival.
    added: Box<[OnceLock<Domain>]>,
    added_spellings: papaya::HashMap<Box<[u8]>, u16, foldhash::quality::RandomState>,
    /// How many of `added` are in use.
    added_count: Mutex<usize>,
}

impl HostTable {
    /// `port` is the one that most visitors have in their `Host` field.
    pub fn new(hosts: Hosts, port: u16) -> Self {
        let domains: Vec<Domain> = hosts.configured().collect();
        let mut table = Self {
            hosts,
            port,
            domains,
            spellings: Vec::new(),
            added: (0..MAX_ADDED).map(|_| OnceLock::new()).collect(),
            added_spellings: papaya::HashMap::default(),
            added_count: Mutex::new(0),
        };
        for name in table.hosts.names() {
            if let Some(domain) = table.look_up(name.as_bytes()) {
                table.spellings.extend(spellings(&name, port).map(|spelling| (spelling, domain)));
            }
        }
        table
    }

    /// The number of the domain that a `Host` value names; `None` if this server does not answer
    /// for it.
    pub fn domain(&self, host: &[u8]) -> Option<u16> {
        match self.spellings.iter().find(|(spelling, _)| **spelling == *host) {
            Some(&(_, domain)) => Some(domain),
            None => self.domain_added(host),
        }
    }

    #[cold]
    fn domain_added(&self, host: &[u8]) -> Option<u16> {
        let known = self.added_spellings.pin().get(host).copied();
        known.or_else(|| self.look_up(host))
    }

    /// The domain with this number.
    pub fn name(&self, domain: u16) -> &Domain {
        match self.domains.get(usize::from(domain)) {
            Some(name) => name,
            None => self.name_added(domain),
        }
    }

    #[cold]
    fn name_added(&self, domain: u16) -> &Domain {
        let name = self.added.get(usize::from(domain) - self.domains.len()).and_then(OnceLock::get);
        name.expect("callers hold only numbers that this table gave out")
    }

    /// The number of a domain, also of one that was removed.
    pub fn number(&self, domain: &Domain) -> Option<u16> {
        let added = self.added.iter().map_while(OnceLock::get);
        self.domains
            .iter()
            .chain(added)
            .position(|have| have == domain)
            .and_then(|at| u16::try_from(at).ok())
    }

    /// Gives each of these domains a number, which it keeps while the process runs. `None` if there
    /// are no numbers left.
    pub(crate) fn reserve<'a>(
        &self,
        domains: impl Iterator<Item = &'a Domain>,
    ) -> Vec<Option<u16>> {
        let mut count = self.added_count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reserve = |domain: &Domain| {
            if let Some(number) = self.number(domain) {
                return Some(number);
            }
            let Some(entry) = self.added.get(*count) else {
                tracing::error!(
                    max = MAX_ADDED,
                    "cannot add a domain: too many were added since the start; restart the server"
                );
                return None;
            };
            let _ = entry.set(domain.clone());
            *count += 1;
            self.number(domain)
        };
        domains.map(&mut reserve).collect()
    }

    /// Replaces the added domains. The server answers for these and for those of the settings.
    pub(crate) fn set_added<'a>(&self, domains: impl Iterator<Item = (u16, &'a Domain)>) {
        let added = domains
            .filter(|(number, _)| usize::from(*number) >= self.domains.len())
            .collect::<Vec<_>>();
        self.hosts.set_added(added.iter().map(|(_, domain)| (*domain).clone()));
        // A name that the settings give to the primary domain is not added.
        let known = self.hosts.added();
        let by_spelling = self.added_spellings.pin();
        by_spelling.retain(|_, number| known.contains(self.name(*number)));
        for (number, domain) in added.iter().filter(|(_, domain)| known.contains(domain)) {
            for spelling in spellings(domain.as_str(), self.port) {
                by_spelling.insert(spelling, *number);
            }
        }
    }

    fn look_up(&self, host: &[u8]) -> Option<u16> {
        let host = std::str::from_utf8(host).ok()?;
        let name = match host.rsplit_once(':') {
            // The colons inside [::1] belong to the address.
            Some((name, port)) if !port.ends_with(']') => {
                let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
                (digits && port.parse::<u16>().is_ok()).then_some(name)?
            }
            _ => host,
        };
        self.number(&self.hosts.domain_of(name)?)
    }
}

/// The common spellings of a host.
fn spellings(name: &str, port: u16) -> [Box<[u8]>; 2] {
    [name.as_bytes().into(), format!("{name}:{port}").into_bytes().into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_field_names_a_domain_or_none() {
        let base = "http://go.example:8080/".parse().unwrap();
        let hosts =
            Hosts::new(&base, &["[::1]"], vec![Domain::parse("b.example").unwrap()]).unwrap();
        let table = HostTable::new(hosts, 8080);
        for (host, want) in [
            ("go.example", Some(0)),
            ("go.example:8080", Some(0)),
            ("GO.example.:9", Some(0)),
            ("[::1]", Some(0)),
            ("[::1]:8080", Some(0)),
            ("b.example", Some(1)),
            ("go.example:99999", None),
            ("go.example:", None),
            ("go.example:+80", None),
            ("go.example/x", None),
            ("go.example@evil.net", None),
            ("evil.net", None),
            ("", None),
        ] {
            assert_eq!(table.domain(host.as_bytes()), want, "{host}");
        }
    }

    #[test]
    fn added_domains_keep_their_numbers_and_removed_ones_are_unknown_hosts() {
        let base = "http://go.example:8080/".parse().unwrap();
        let table = HostTable::new(Hosts::new(&base, &[], vec![]).unwrap(), 8080);
        let named = |names: &[&str]| {
            names.iter().map(|name| Domain::parse(name).unwrap()).collect::<Vec<_>>()
        };
        let set_domains = |names: &[&str]| {
            let domains = named(names);
            let numbers = table.reserve(domains.iter());
            table.set_added(numbers.iter().flatten().copied().zip(&domains));
            numbers
        };
        let number = |host: &str| table.domain(host.as_bytes());
        assert_eq!(set_domains(&["c.example", "b.example"]), [Some(1), Some(2)]);
        assert_eq!((number("b.example:8080"), number("C.example.")), (Some(2), Some(1)));
        assert_eq!(set_domains(&["a.example", "b.example"]), [Some(3), Some(2)]);
        assert_eq!(
            (number("b.example"), number("c.example"), number("C.EXAMPLE")),
            (Some(2), None, None)
        );
        assert_eq!(table.name(1).as_str(), "c.example", "cached routes of it keep their domain");
        assert_eq!(set_domains(&["c.example", "go.example"]).len(), 2);
        assert_eq!(
            (number("c.example"), number("go.example"), number("a.example")),
            (Some(1), Some(0), None)
        );
        let many: Vec<String> = (0..MAX_ADDED + 9).map(|n| format!("d{n}.example")).collect();
        let numbers = set_domains(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(numbers[0].is_some() && numbers[MAX_ADDED].is_none());
        assert_eq!(
            (number("d0.example"), number(&format!("d{MAX_ADDED}.example"))),
            (numbers[0], None)
        );
    }
}
