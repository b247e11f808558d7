//! Which domain a `Host` field means.

use terse_core::{Domain, Hosts};

/// Domains by small numbers, and the spellings of `Host` that need no thought.
#[derive(Clone, Debug)]
pub struct HostTable {
    hosts: Hosts,
    domains: Vec<Domain>,
    ready: Vec<(Box<[u8]>, u16)>,
}

impl HostTable {
    /// For these hosts; `port` is the one visitors will most likely mention.
    pub fn new(hosts: Hosts, port: u16) -> Self {
        let domains: Vec<Domain> = hosts.domains().collect();
        let mut table = Self { hosts, domains, ready: Vec::new() };
        let names: Vec<String> = table.hosts.names().map(str::to_owned).collect();
        for name in names {
            if let Some(domain) = table.look_up(name.as_bytes()) {
                table.ready.push((name.clone().into_bytes().into(), domain));
                table.ready.push((format!("{name}:{port}").into_bytes().into(), domain));
            }
        }
        table
    }

    /// The number of the domain that a `Host` value means, or `None` if we do not answer for it.
    pub fn domain(&self, host: &[u8]) -> Option<u16> {
        match self.ready.iter().find(|(spelling, _)| **spelling == *host) {
            Some(&(_, domain)) => Some(domain),
            None => self.look_up(host),
        }
    }

    /// The domain with this number.
    pub fn name(&self, domain: u16) -> &Domain {
        &self.domains[usize::from(domain)]
    }

    /// The number of a domain, if it is one of ours.
    pub fn number(&self, domain: &Domain) -> Option<u16> {
        self.domains.iter().position(|have| have == domain).and_then(|at| u16::try_from(at).ok())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_field_names_a_domain_or_nothing() {
        let base = "http://go.example:8080/".parse().unwrap();
        let hosts = Hosts::new(&base, &["[::1]"], vec![Domain::parse("b.example").unwrap()]).unwrap();
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
}
