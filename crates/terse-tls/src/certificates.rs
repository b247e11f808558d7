//! The certificates in use, and which one a client gets.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::Certificate;

/// The certificates in use. They can be replaced while connections are made; sessions that are
/// open, or are resumed, do not notice.
#[derive(Default)]
pub struct Certificates {
    /// Locked briefly at each handshake.
    table: RwLock<Arc<Table>>,
}

#[derive(Default)]
struct Table {
    by_name: HashMap<String, Certificate>,
    /// For clients that ask for no name, or for one without a certificate.
    first: Option<Certificate>,
}

impl Certificates {
    /// Holds these certificates.
    pub fn of(certificates: &[Certificate]) -> Self {
        let all = Self::default();
        all.set(certificates);
        all
    }

    /// Replaces all certificates. Of two with the same name the earlier one is used.
    pub fn set(&self, certificates: &[Certificate]) {
        let mut by_name = HashMap::new();
        for certificate in certificates {
            for name in certificate.names() {
                by_name.entry(name.clone()).or_insert_with(|| certificate.clone());
            }
        }
        let table = Arc::new(Table { by_name, first: certificates.first().cloned() });
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// The certificate for a host name: one for the name itself, else one for all names beside it.
    pub fn for_name(&self, name: &str) -> Option<Certificate> {
        self.table().for_name(name).cloned()
    }

    /// The host names that have a certificate, and when each expires, in seconds since 1970.
    pub fn expiries(&self) -> Vec<(String, i64)> {
        let table = self.table();
        let mut all: Vec<_> = table
            .by_name
            .iter()
            .map(|(name, certificate)| (name.clone(), certificate.not_after()))
            .collect();
        all.sort();
        all
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Table {
    fn for_name(&self, name: &str) -> Option<&Certificate> {
        let name = name.to_ascii_lowercase();
        let wildcard = || Some(format!("*.{}", name.split_once('.')?.1));
        self.by_name.get(&name).or_else(|| self.by_name.get(&wildcard()?))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let table = self.table();
        let named = hello.server_name().and_then(|name| table.for_name(name));
        named.or(table.first.as_ref()).map(|certificate| Arc::clone(certificate.certified()))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("names", &self.expiries()).finish()
    }
}

/// The TLS settings of a listener: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, and session tickets. The
/// keys of the tickets stay in memory and are replaced every few hours.
pub fn server_config(certificates: Arc<Certificates>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = ring::Ticketer::new()?;
    Ok(Arc::new(config))
}
