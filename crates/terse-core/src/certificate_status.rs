//! What this server knows of the certificates that it orders itself.

use crate::time::Timestamp;

/// The certificate for a host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CertificateState {
    /// There is one until this time.
    Valid(Timestamp),
    /// There is none yet; it is ordered soon.
    Awaited,
    /// The last order failed.
    Failing {
        /// Until when the present certificate is valid; `None` without one.
        valid_until: Option<Timestamp>,
        /// What is wrong and what to do, in plain words.
        problem: String,
        /// When terse tries again.
        next_try: Timestamp,
    },
}

/// Knows the certificates of the short domains. `terse-tls` implements it.
pub trait CertificateStatus: Send + Sync {
    /// The certificate for a host; `None` if this server does not order one.
    fn certificate_state(&self, host: &str) -> Option<CertificateState>;
}

/// For a server that orders no certificates.
#[derive(Clone, Copy, Debug)]
pub struct NoCertificates;

impl CertificateStatus for NoCertificates {
    fn certificate_state(&self, _: &str) -> Option<CertificateState> {
        None
    }
}
