//! One certificate with its chain and its private key.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::validity::validity;

/// The most that is read of a file.
const MAX_BYTES: u64 = 1 << 20;

/// A certificate with its chain and its private key.
#[derive(Clone)]
pub struct Certificate {
    certified: Arc<CertifiedKey>,
    names: Vec<String>,
    not_after: i64,
}

/// Why a certificate cannot be used. The message never contains a part of the key.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{} {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The two files do not belong together.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The file with the certificate.
        certificate: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
}

impl Certificate {
    /// Reads a certificate and its key from files in PEM format. The certificate comes first in its
    /// file, and the rest of its chain follows.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let wrong = |path: &Path, what| CertificateError::File { path: path.to_owned(), what };
        let chain = read(certificate)?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain)
            .collect::<Result<_, _>>()
            .map_err(|_| wrong(certificate, "is not in PEM format"))?;
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| {
            wrong(key, "has no private key in PEM format (an encrypted key cannot be used)")
        })?;
        let Some(first) = chain.first() else {
            return Err(wrong(certificate, "has no certificate in PEM format"));
        };
        let unreadable = || wrong(certificate, "has a certificate that cannot be read");
        let (names, not_after) = facts(first).ok_or_else(unreadable)?;
        if names.is_empty() {
            return Err(wrong(certificate, "has a certificate without a host name"));
        }
        let secret = ring::sign::any_supported_type(&secret)
            .map_err(|_| wrong(key, "has a key of a kind that cannot be used"))?;
        let certified = CertifiedKey::new(chain, secret);
        match certified.keys_match() {
            // Accepts a key whose public part rustls cannot compute.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => {
                let (certificate, key) = (certificate.to_owned(), key.to_owned());
                return Err(CertificateError::Mismatch { certificate, key });
            }
        }
        Ok(Self { certified: Arc::new(certified), names, not_after })
    }

    /// The host names that it is for; some may begin with `*.`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// When it expires, in seconds since 1970.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }
}

/// The names, and when it expires.
fn facts(certificate: &CertificateDer<'_>) -> Option<(Vec<String>, i64)> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let names = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
    Some((names, validity(certificate)?.1))
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Err(source) => Err(CertificateError::Read { path: path.to_owned(), source }),
        Ok(_) if bytes.len() as u64 > MAX_BYTES => Err(CertificateError::File {
            path: path.to_owned(),
            what: "has more than 1 MiB and cannot be a certificate or a key",
        }),
        Ok(_) => Ok(bytes),
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("names", &self.names).finish_non_exhaustive()
    }
}
