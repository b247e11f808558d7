//! Bearer secrets (API keys, link tokens, session cookies) and their hashes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::registry::SecretHash;

/// The prefix of API keys, so that owners and secret scanners recognise one.
const KEY_PREFIX: &str = "terse_";
/// The longest text that is hashed, in bytes.
const MAX_LEN: usize = 512;
/// How many characters of a key are stored to recognise it: the prefix and six more.
const RECOGNISABLE: usize = 12;

/// A fresh secret of 256 random bits. It is shown once; only its hash is stored. A fast hash is
/// enough, because 256 random bits cannot be guessed.
pub struct BearerSecret {
    text: String,
}

impl BearerSecret {
    /// An API key, or the token of a set-up or invitation link.
    pub fn key() -> Result<Self, getrandom::Error> {
        Ok(Self { text: format!("{KEY_PREFIX}{}", random()?) })
    }

    /// The value of a session cookie.
    pub fn session() -> Result<Self, getrandom::Error> {
        Ok(Self { text: random()? })
    }

    /// The hash to store.
    pub fn token(&self) -> SecretHash {
        Self::hash(&self.text)
    }

    /// How a key begins, for its owner to recognise it.
    pub fn prefix(&self) -> &str {
        &self.text[..RECOGNISABLE]
    }

    /// The secret itself, to show it.
    pub fn reveal(self) -> String {
        self.text
    }

    /// The stored hash of a secret.
    pub fn hash(text: &str) -> SecretHash {
        SecretHash(Sha256::digest(text.as_bytes()).into())
    }

    /// The hash of a presented text; `None` if it cannot be a secret.
    pub fn presented(text: &str) -> Option<SecretHash> {
        (!text.is_empty() && text.len() <= MAX_LEN).then(|| Self::hash(text))
    }
}

fn random() -> Result<String, getrandom::Error> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits)?;
    Ok(URL_SAFE_NO_PAD.encode(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_recognised_by_its_hash() {
        let key = BearerSecret::key().unwrap();
        assert_eq!(key.prefix(), &key.text[..12]);
        let token = key.token();
        let text = key.reveal();
        assert!(text.starts_with("terse_") && text.len() == 6 + 43, "{text}");
        assert_eq!(BearerSecret::presented(&text), Some(token));
        assert_ne!(BearerSecret::presented(&text[1..]), Some(token));
        assert_eq!(BearerSecret::session().unwrap().reveal().len(), 43);
        for text in ["", &"x".repeat(513)] {
            assert!(BearerSecret::presented(text).is_none());
        }
    }
}
