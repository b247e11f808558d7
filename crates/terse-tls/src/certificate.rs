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
    /// From when and until when, in seconds since 1970.
    validity: (i64, i64),
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

/// Why a certificate and a key in PEM format cannot be used.
pub(crate) enum PemProblem {
    /// What is wrong with the certificate.
    Certificate(&'static str),
    /// What is wrong with the key.
    Key(&'static str),
    /// The two do not belong together.
    Mismatch,
}

impl Certificate {
    /// Reads a certificate and its key from files in PEM format. The certificate comes first in its
    /// file, and the rest of its chain follows.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let wrong = |path: &Path, what| CertificateError::File { path: path.to_owned(), what };
        Self::parse(&read(certificate)?, &read(key)?).map_err(|problem| match problem {
            PemProblem::Certificate(what) => wrong(certificate, what),
            PemProblem::Key(what) => wrong(key, what),
            PemProblem::Mismatch => CertificateError::Mismatch {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            },
        })
    }

    /// Reads a certificate with the rest of its chain, and its key, both in PEM format.
    pub(crate) fn parse(chain: &[u8], key: &[u8]) -> Result<Self, PemProblem> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|_| PemProblem::Certificate("is not in PEM format"))?;
        let secret = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
            PemProblem::Key("has no private key in PEM format (an encrypted key cannot be used)")
        })?;
        let Some(first) = chain.first() else {
            return Err(PemProblem::Certificate("has no certificate in PEM format"));
        };
        let (names, validity) =
            facts(first).ok_or(PemProblem::Certificate("has a certificate that cannot be read"))?;
        if names.is_empty() {
            return Err(PemProblem::Certificate("has a certificate without a host name"));
        }
        let secret = ring::sign::any_supported_type(&secret)
            .map_err(|_| PemProblem::Key("has a key of a kind that cannot be used"))?;
        let certified = CertifiedKey::new(chain, secret);
        match certified.keys_match() {
            // Accepts a key whose public part rustls cannot compute.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => return Err(PemProblem::Mismatch),
        }
        Ok(Self { certified: Arc::new(certified), names, validity })
    }

    /// When it becomes valid, in seconds since 1970.
    pub(crate) fn not_before(&self) -> i64 {
        self.validity.0
    }

    /// The host names that it is for; some may begin with `*.`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// When it expires, in seconds since 1970.
    pub fn not_after(&self) -> i64 {
        self.validity.1
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }
}

/// The names, and from when until when it is valid.
fn facts(certificate: &CertificateDer<'_>) -> Option<(Vec<String>, (i64, i64))> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let names = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
    Some((names, validity(certificate)?))
}

/// The certificates in a file in PEM format, in DER.
pub fn read_roots(path: &Path) -> Result<Vec<Vec<u8>>, CertificateError> {
    let wrong = |what| CertificateError::File { path: path.to_owned(), what };
    let roots: Vec<_> = CertificateDer::pem_slice_iter(&read(path)?)
        .map(|root| root.map(|root| root.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|_| wrong("is not in PEM format"))?;
    match roots.is_empty() {
        true => Err(wrong("has no certificate in PEM format")),
        false => Ok(roots),
    }
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
