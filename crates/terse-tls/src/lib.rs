//! Certificates for encrypted connections: read from files or ordered by ACME, checked, chosen by
//! the name that a client asks for, and replaced while the server runs.

mod acme;
mod certificate;
mod certificates;
mod files;
mod findings;
mod metrics;
mod reload;
mod validity;

pub use rustls::ServerConfig;

pub use acme::{AcmeCertificates, AcmeSettings, CertificateOrders, CertificateSync, ChallengeKind};
pub use certificate::{Certificate, CertificateError, read_roots};
pub use certificates::{CHALLENGE_PROTOCOL, Certificates, server_config};
pub use files::{CertificateFiles, readable_by_others};
pub use findings::findings;
pub use reload::CertificateReload;
