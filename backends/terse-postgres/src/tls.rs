//! TLS to the database, with the cryptography that the rest of terse uses.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use terse_core::BoxError;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::options::PostgresOpenError;

/// Trusts the certificates in the file, or the public ones without a file.
pub(crate) fn connector(roots: Option<&Path>) -> Result<MakeRustlsConnect, PostgresOpenError> {
    let store = match roots {
        None => rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
        Some(path) => read(path).map_err(|error| {
            PostgresOpenError::Url(format!(
                "sslrootcert: {} cannot be read: {error}",
                path.display()
            ))
        })?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PostgresOpenError::Url(error.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn read(path: &Path) -> Result<rustls::RootCertStore, BoxError> {
    let mut store = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path)? {
        store.add(certificate?)?;
    }
    if store.is_empty() {
        return Err("it has no certificate".into());
    }
    Ok(store)
}
