//! Compares where the DNS records of short domains lead with where this server's name leads.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;

use crate::domain::Hosts;
use crate::host::{is_public_address, is_public_name};

/// A lookup that gave no result: the resolver did not answer in time, or is overloaded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LookupFailed;

/// Resolves host names. The binary implements it with the resolver of outgoing requests.
#[async_trait]
pub trait NameLookup: Send + Sync {
    /// All addresses of a name; none if the name has no record. Returns within a few seconds.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, LookupFailed>;
}

/// Knows no names.
#[derive(Clone, Copy, Debug)]
pub struct NoLookup;

#[async_trait]
impl NameLookup for NoLookup {
    async fn addresses(&self, _: &str) -> Result<Vec<IpAddr>, LookupFailed> {
        Err(LookupFailed)
    }
}

/// What DNS says about a short domain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DnsState {
    /// Its record leads to this server.
    Here(Vec<IpAddr>),
    /// Its record leads to other addresses, as it should if a proxy or CDN is in front of this
    /// server.
    Elsewhere(Vec<IpAddr>),
    /// It has no record.
    NoRecord,
    /// The lookup gave no result.
    Unknown,
    /// This server's own name is local, so the right addresses are not known.
    LocalServer,
}

/// The addresses that the records of short domains should lead to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExpectedAddresses {
    /// Those of the host of `base_url`.
    Known(Vec<IpAddr>),
    /// The host of `base_url` is a local name or address, or has no record.
    Local,
    /// The lookup gave no result.
    Unknown,
}

/// The service that checks DNS records.
#[derive(Clone)]
pub struct DomainChecks {
    lookup: Arc<dyn NameLookup>,
    hosts: Hosts,
}

impl DomainChecks {
    /// Wires the service.
    pub fn new(lookup: Arc<dyn NameLookup>, hosts: Hosts) -> Self {
        Self { lookup, hosts }
    }

    /// Finds out where records should lead.
    pub async fn expected(&self) -> ExpectedAddresses {
        let host = self.hosts.primary_host();
        if let Ok(address) = host.trim_matches(['[', ']']).parse() {
            return match is_public_address(address) {
                true => ExpectedAddresses::Known(vec![address]),
                false => ExpectedAddresses::Local,
            };
        }
        if !is_public_name(host) {
            return ExpectedAddresses::Local;
        }
        match self.lookup.addresses(host).await {
            Ok(found) if found.is_empty() => ExpectedAddresses::Local,
            Ok(found) => ExpectedAddresses::Known(sorted(found)),
            Err(LookupFailed) => ExpectedAddresses::Unknown,
        }
    }

    /// Checks the record of a domain. One address in common is enough: a name may have addresses
    /// of both versions, or of several nodes.
    pub async fn check(&self, name: &str, expected: &ExpectedAddresses) -> DnsState {
        let wanted = match expected {
            ExpectedAddresses::Known(wanted) => wanted,
            ExpectedAddresses::Local => return DnsState::LocalServer,
            ExpectedAddresses::Unknown => return DnsState::Unknown,
        };
        // A server that is reached by its address has no name to look up.
        let found = match name.trim_matches(['[', ']']).parse() {
            Ok(address) => Ok(vec![address]),
            Err(_) => self.lookup.addresses(name).await,
        };
        match found.map(sorted) {
            Err(LookupFailed) => DnsState::Unknown,
            Ok(found) if found.is_empty() => DnsState::NoRecord,
            Ok(found) if found.iter().any(|one| wanted.contains(one)) => DnsState::Here(found),
            Ok(found) => DnsState::Elsewhere(found),
        }
    }
}

fn sorted(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Records;

    #[async_trait]
    impl NameLookup for Records {
        async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, LookupFailed> {
            Ok(match host {
                "go.example" => vec![[8, 8, 4, 4].into(), [8, 8, 8, 8].into()],
                "here.example" => vec![[8, 8, 8, 8].into(), [8, 8, 8, 8].into()],
                "there.example" => vec![[9, 9, 9, 9].into()],
                "slow.example" => return Err(LookupFailed),
                _ => vec![],
            })
        }
    }

    #[tokio::test]
    async fn a_record_leads_here_elsewhere_or_nowhere() {
        let checks = |base: &str| {
            let hosts = Hosts::new(&url::Url::parse(base).unwrap(), &[], vec![]).unwrap();
            DomainChecks::new(Arc::new(Records), hosts)
        };
        let known = checks("https://go.example/");
        let expected = known.expected().await;
        for (name, state) in [
            ("here.example", DnsState::Here(vec![[8, 8, 8, 8].into()])),
            ("8.8.8.8", DnsState::Here(vec![[8, 8, 8, 8].into()])),
            ("there.example", DnsState::Elsewhere(vec![[9, 9, 9, 9].into()])),
            ("new.example", DnsState::NoRecord),
            ("slow.example", DnsState::Unknown),
        ] {
            assert_eq!(known.check(name, &expected).await, state, "{name}");
        }
        for (base, expected) in [
            ("https://8.8.8.8/", ExpectedAddresses::Known(vec![[8, 8, 8, 8].into()])),
            ("http://127.0.0.1:8080/", ExpectedAddresses::Local),
            ("http://[::1]:8080/", ExpectedAddresses::Local),
            ("http://localhost/", ExpectedAddresses::Local),
            ("https://unset.example/", ExpectedAddresses::Local),
            ("https://slow.example/", ExpectedAddresses::Unknown),
        ] {
            assert_eq!(checks(base).expected().await, expected, "{base}");
        }
        let local = checks("http://localhost/");
        let state = local.check("here.example", &ExpectedAddresses::Local).await;
        assert_eq!(state, DnsState::LocalServer);
    }
}
