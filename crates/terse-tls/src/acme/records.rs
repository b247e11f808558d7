//! The content of the registry's records.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use terse_core::registry::AcmeRecord;
use terse_core::{BoxError, Secret};

use super::challenges::ChallengeKind;

/// A certificate with the rest of its chain, and its private key, both in PEM format.
#[derive(Deserialize, Serialize)]
pub(crate) struct CertificateRecord {
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// The answer to a challenge that is under way.
#[derive(Deserialize, Serialize)]
pub(crate) struct ChallengeRecord {
    pub(crate) kind: ChallengeKind,
    /// The name of the file that the authority gets.
    pub(crate) token: String,
    /// The content of that file.
    pub(crate) answer: String,
    /// The SHA-256 digest of the answer, for the certificate of TLS-ALPN-01.
    pub(crate) digest: Vec<u8>,
}

/// How the last orders for a host went. There is none after an order that succeeded.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct OrderRecord {
    /// How many failed since the last success.
    pub(crate) failures: u32,
    /// When the last one ended, in milliseconds since 1970.
    #[serde(default)]
    pub(crate) tried_at: i64,
    /// When the next one is due, in milliseconds since 1970.
    pub(crate) next_at: i64,
    /// What is wrong, in plain words.
    pub(crate) problem: String,
}

/// A record's content as it is stored.
pub(crate) fn encode(content: &impl Serialize) -> Result<Secret, BoxError> {
    Ok(Secret::new(&serde_json::to_string(content)?))
}

/// Reads a record; `None`, and a line in the log, if it cannot be read.
pub(crate) fn decode<T: DeserializeOwned>(record: &AcmeRecord) -> Option<T> {
    // The error is not shown: it could contain a part of a key.
    let content = serde_json::from_str(record.value.reveal()).ok();
    if content.is_none() {
        let (kind, name) = (record.kind.as_str(), &record.name);
        tracing::warn!(kind, name, "a record about certificates cannot be read and is not used");
    }
    content
}
