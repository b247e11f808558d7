//! A password in a request, on its short way to being hashed.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use terse_core::PasswordHasher as _;
use terse_core::{PasswordHash, PatchField};

use crate::http::problem::Problem;
use crate::passwords::Passwords;

/// A password as it was typed. It is neither printed nor written anywhere.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct PasswordFields(String);

impl PasswordFields {
    /// The clear text, for the service that hashes it.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// What is kept of it.
    async fn hashed(self, passwords: &Passwords) -> Result<PasswordHash, Problem> {
        let hash =
            passwords.hash(self.0).await.map_err(|error| Problem::from(error).on("password"))?;
        Ok(PasswordHash::from_phc(hash))
    }
}

/// What happens to a link's password.
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

/// Only that there is one: what a request is remembered by is kept for a day, and a password could
/// be guessed from it.
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
