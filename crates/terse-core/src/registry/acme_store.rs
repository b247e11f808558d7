//! What ordering certificates (ACME) leaves in the registry, so that all nodes of a fleet share it.

use async_trait::async_trait;

use super::lease::FencingToken;
use super::store::RegistryError;
use crate::secret::Secret;

/// The longest value of a record, in bytes.
pub const MAX_ACME_RECORD_BYTES: usize = 256 * 1024;

/// Checks the size of a record, the same in every registry.
pub fn check_acme_record_size(value: Option<&Secret>) -> Result<(), RegistryError> {
    match value {
        Some(value) if value.reveal().len() > MAX_ACME_RECORD_BYTES => Err(RegistryError::TooMany),
        _ => Ok(()),
    }
}

/// What a record holds.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum AcmeRecordKind {
    /// The account at a certificate authority, by the URL of its directory.
    Account,
    /// A certificate with its private key, by host.
    Certificate,
    /// What this server answers while the authority checks that a host is ours, by host.
    Challenge,
    /// How the last orders for a host went, by host.
    Order,
}

impl AcmeRecordKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Account, Self::Certificate, Self::Challenge, Self::Order];

    /// The stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Certificate => "certificate",
            Self::Challenge => "challenge",
            Self::Order => "order",
        }
    }

    /// Reads the stored name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One record. Its value may contain a private key, so its debug output hides it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AcmeRecord {
    /// What it holds.
    pub kind: AcmeRecordKind,
    /// What it is about: a host, or the URL of a directory.
    pub name: String,
    /// The content, in the format of `terse-tls`.
    pub value: Secret,
}

/// All records at one moment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AcmeRecords {
    /// [`AcmeStore::acme_revision`] of that moment.
    pub revision: u64,
    /// The records, by kind and name.
    pub records: Vec<AcmeRecord>,
}

/// The store of accounts, certificates, challenges and orders.
#[async_trait]
pub trait AcmeStore: Send + Sync + 'static {
    /// A number that every write raises; 0 before the first. A node that compares it with the one
    /// that it read last misses no change.
    async fn acme_revision(&self) -> Result<u64, RegistryError>;

    /// All records, and the revision that they have.
    async fn acme_records(&self) -> Result<AcmeRecords, RegistryError>;

    /// Replaces a record, or removes it with `None`. `Fenced`, and nothing is written, if the token
    /// is not current. `TooMany` above [`MAX_ACME_RECORD_BYTES`].
    async fn put_acme_record(
        &self,
        token: FencingToken,
        kind: AcmeRecordKind,
        name: &str,
        value: Option<&Secret>,
    ) -> Result<(), RegistryError>;
}
