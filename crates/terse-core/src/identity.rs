//! The secret of a store and the keys derived from it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::codes::Alphabet;

/// Created once with the store and kept in it, so that every node reads the same one.
#[derive(Clone)]
pub struct StoreIdentity {
    secret: [u8; 32],
    /// The alphabet of this store's generated codes. It never changes, because stored codes are
    /// written in it.
    pub alphabet: Alphabet,
    /// How this store derives codes from targets. It never changes, so that the same target gives
    /// the same code.
    pub code_hash: CodeHash,
}

/// The function that derives a code from target and owner, for the `hash` strategy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CodeHash {
    /// SHA-256: anyone can compute the code of a target. Stores from before [`CodeHash::Hmac`]
    /// existed keep it.
    Sha256,
    /// HMAC-SHA-256 with a key derived from the store's secret.
    Hmac,
}

impl CodeHash {
    /// The name in stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Hmac => "hmac-sha256",
        }
    }

    /// From the name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Sha256, Self::Hmac].into_iter().find(|hash| hash.as_str() == name)
    }
}

impl StoreIdentity {
    /// Creates one from the operating system's random numbers.
    pub fn generate(alphabet: Alphabet) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self { secret, alphabet, code_hash: CodeHash::Hmac })
    }

    /// Reads a stored identity.
    pub fn from_stored(secret: [u8; 32], alphabet: Alphabet, code_hash: CodeHash) -> Self {
        Self { secret, alphabet, code_hash }
    }

    /// The secret, for the store.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// Derives a key for one purpose, independent of all other keys.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(purpose.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for StoreIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreIdentity")
            .field("secret", &"[hidden]")
            .field("alphabet", &self.alphabet)
            .field("code_hash", &self.code_hash)
            .finish()
    }
}
