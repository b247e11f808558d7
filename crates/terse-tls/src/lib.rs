//! Certificates for encrypted connections: read from files, checked, chosen by the name that a
//! client asks for, and replaced while the server runs.

mod certificate;
mod certificates;
mod files;
mod findings;
mod metrics;
mod reload;
mod validity;

pub use rustls::ServerConfig;

pub use certificate::{Certificate, CertificateError};
pub use certificates::{Certificates, server_config};
pub use files::{CertificateFiles, readable_by_others};
pub use findings::findings;
pub use reload::CertificateReload;
