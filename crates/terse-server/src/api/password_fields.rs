//! A password in a request. The service hashes it.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A password in clear text. It is never logged or stored.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct PasswordFields(String);

impl PasswordFields {
    /// The clear text, for the service that hashes it.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl fmt::Debug for PasswordFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Serialises only the presence of a password: the fingerprint of a request is stored for a day,
/// and an attacker could guess the password from it.
impl Serialize for PasswordFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_leaves_no_trace() {
        let text: PasswordFields = serde_json::from_str("\"open sesame\"").unwrap();
        assert!(!format!("{text:?}{}", serde_json::to_string(&text).unwrap()).contains("sesame"));
    }
}
