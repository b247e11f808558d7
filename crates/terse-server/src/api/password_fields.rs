//! A password in a request, before it is hashed.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use terse_core::PasswordHasher as _;
use terse_core::{PasswordHash, PatchField};

use crate::http::problem::Problem;
use crate::passwords::Passwords;

/// A password in clear text. It is never logged or stored.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct PasswordFields(String);

impl PasswordFields {
    /// The clear text, for the service that hashes it.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// The hash, which is stored.
    async fn hashed(self, passwords: &Passwords) -> Result<PasswordHash, Problem> {
        let hash =
            passwords.hash(self.0).await.map_err(|error| Problem::from(error).on("password"))?;
        Ok(PasswordHash::from_phc(hash))
    }
}

/// The change of a link's password, hashed.
pub(crate) async fn change(
    passwords: &Passwords,
    given: Option<Option<PasswordFields>>,
) -> Result<PatchField<PasswordHash>, Problem> {
    Ok(match given {
        None => PatchField::Keep,
        Some(None) => PatchField::Clear,
        Some(Some(text)) => PatchField::Set(text.hashed(passwords).await?),
    })
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
