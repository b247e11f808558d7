//! Certificates that terse orders itself by ACME (RFC 8555).
//!
//! One node of a fleet orders them, under the lease of the jobs ([`CertificateOrders`]). Accounts,
//! certificates, answers to challenges and failures are records of the registry, which every node
//! reads ([`CertificateSync`]): so each node answers the authority and serves the certificates.

mod challenges;
mod client;
mod diagnosis;
mod jobs;
mod node;
mod records;
mod schedule;
#[cfg(test)]
mod tests;

pub use challenges::ChallengeKind;
pub use client::AcmeSettings;
pub use jobs::{CertificateOrders, CertificateSync};
pub use node::AcmeCertificates;
