//! How a certificate authority checks that a host is ours.

use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

/// A kind of challenge.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ChallengeKind {
    /// The authority gets a file from port 80.
    #[serde(rename = "http-01")]
    Http01,
    /// The authority makes a TLS handshake at port 443.
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl ChallengeKind {
    /// The port that the authority connects to.
    pub(crate) fn port(self) -> u16 {
        match self {
            Self::Http01 => 80,
            Self::TlsAlpn01 => 443,
        }
    }

    /// The kind of the next order, if the operator chose none: the other one after each failure,
    /// because a firewall may close either port.
    pub(crate) fn alternate(failures: u32) -> Self {
        match failures.is_multiple_of(2) {
            true => Self::TlsAlpn01,
            false => Self::Http01,
        }
    }
}

impl From<ChallengeKind> for instant_acme::ChallengeType {
    fn from(kind: ChallengeKind) -> Self {
        match kind {
            ChallengeKind::Http01 => Self::Http01,
            ChallengeKind::TlsAlpn01 => Self::TlsAlpn01,
        }
    }
}

/// The certificate that answers a challenge of the kind TLS-ALPN-01 (RFC 8737): for this host, with
/// the digest of the key authorization in an extension. Each node makes a key of its own for it.
pub(crate) fn challenge_certificate(host: &str, digest: &[u8]) -> Option<Arc<CertifiedKey>> {
    let mut params = CertificateParams::new(vec![host.to_owned()]).ok()?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate().ok()?;
    let certificate = params.self_signed(&key).ok()?;
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let secret = ring::sign::any_supported_type(&secret).ok()?;
    Some(Arc::new(CertifiedKey::new(vec![certificate.der().clone()], secret)))
}
