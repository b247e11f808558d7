//! The secret a store is born with, and what is derived from it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::codes::Alphabet;

/// Made once, when a store is created, and kept in it: every node of a fleet reads the same one.
#[derive(Clone)]
pub struct Identity {
    secret: [u8; 32],
    /// The alphabet that this store's generated codes are written in. Fixed for life, as codes are
    /// filed by it.
    pub alphabet: Alphabet,
}

impl Identity {
    /// A fresh one, from the operating system's random numbers.
    pub fn generate(alphabet: Alphabet) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self { secret, alphabet })
    }

    /// As a store wrote it earlier.
    pub fn from_stored(secret: [u8; 32], alphabet: Alphabet) -> Self {
        Self { secret, alphabet }
    }

    /// For the store that keeps it.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// A key for one purpose, unrelated to the keys for all others.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(purpose.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("secret", &"[hidden]")
            .field("alphabet", &self.alphabet)
            .finish()
    }
}
