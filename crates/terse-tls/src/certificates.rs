//! The certificates in use, and which one a client gets.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::Certificate;

/// The protocol (ALPN) of the challenge TLS-ALPN-01: a certificate authority that offers it gets
/// the certificate of the challenge, and nothing is sent over the connection.
pub const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The certificates in use. They can be replaced while connections are made; sessions that are
/// open, or are resumed, do not notice.
#[derive(Default)]
pub struct Certificates {
    /// Locked briefly at each handshake.
    table: RwLock<Arc<Table>>,
    /// Called when a client asks for a name without a certificate.
    missing: OnceLock<MissingHook>,
}

/// Gets a name that a client asked for.
type MissingHook = Box<dyn Fn(&str) + Send + Sync>;

#[derive(Clone, Default)]
struct Table {
    /// From the settings. They come before those that terse ordered.
    files: Vec<Certificate>,
    issued: Vec<Certificate>,
    by_name: HashMap<String, Certificate>,
    /// For certificate authorities that check whether a name is ours, by name.
    challenges: HashMap<String, Arc<CertifiedKey>>,
}

impl Certificates {
    /// Holds these certificates.
    pub fn of(certificates: &[Certificate]) -> Self {
        let all = Self::default();
        all.set(certificates);
        all
    }

    /// Replaces all certificates from files. Of two with the same name the earlier one is used.
    pub fn set(&self, certificates: &[Certificate]) {
        self.change(|table| table.files = certificates.to_vec());
    }

    /// Replaces all certificates that terse ordered.
    pub(crate) fn set_issued(&self, certificates: Vec<Certificate>) {
        self.change(|table| table.issued = certificates);
    }

    /// Replaces all certificates of challenges.
    pub(crate) fn set_challenges(&self, challenges: HashMap<String, Arc<CertifiedKey>>) {
        self.change(|table| table.challenges = challenges);
    }

    /// Sets what is called, on the thread of the handshake, when a client asks for a name without a
    /// certificate. Only the first call has an effect.
    pub(crate) fn on_missing(&self, hook: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.missing.set(Box::new(hook));
    }

    fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut current = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&current);
        change(&mut table);
        table.by_name.clear();
        for certificate in table.files.iter().chain(&table.issued) {
            for name in certificate.names() {
                table.by_name.entry(name.clone()).or_insert_with(|| certificate.clone());
            }
        }
        *current = Arc::new(table);
    }

    /// Those from files alone.
    pub(crate) fn only_files(&self) -> Self {
        Self::of(&self.table().files)
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
        let (table, name) = (self.table(), hello.server_name());
        if hello.alpn().is_some_and(|mut offered| offered.any(|one| one == CHALLENGE_PROTOCOL)) {
            return table.challenges.get(&name?.to_ascii_lowercase()).cloned();
        }
        let named = name.and_then(|name| table.for_name(name));
        if named.is_none()
            && let (Some(name), Some(missing)) = (name, self.missing.get())
        {
            missing(name);
        }
        // For clients that ask for no name, or for one without a certificate.
        let first = || table.files.first().or(table.issued.first());
        named.or_else(first).map(|certificate| Arc::clone(certificate.certified()))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("names", &self.expiries()).finish()
    }
}

/// The TLS settings of a listener: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, and session tickets. The
/// keys of the tickets stay in memory and are replaced every few hours. With `challenges` it also
/// speaks to certificate authorities that check whether a name is ours.
pub fn server_config(
    certificates: Arc<Certificates>,
    challenges: bool,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    if challenges {
        config.alpn_protocols.push(CHALLENGE_PROTOCOL.to_vec());
    }
    config.ticketer = ring::Ticketer::new()?;
    Ok(Arc::new(config))
}
