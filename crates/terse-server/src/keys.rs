//! The keys that programs show, kept only as hashes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use terse_core::{Caller, OwnerId};

/// What a key begins with, so that people and secret scanners recognise one.
const PREFIX: &str = "terse_";
/// Nobody hashes more than this for a stranger.
const LONGEST: usize = 512;

/// The keys, as SHA-256 hashes. A key holds 256 random bits, so a fast hash is enough and nothing can be guessed.
#[derive(Clone, Default)]
pub struct Keys {
    admins: Vec<[u8; 32]>,
    owners: Vec<([u8; 32], OwnerId)>,
}

impl Keys {
    /// Keys that open everything.
    pub fn new(admins: Vec<[u8; 32]>) -> Self {
        Self { admins, owners: Vec::new() }
    }

    /// One more.
    pub fn add(&mut self, admin: [u8; 32]) {
        self.admins.push(admin);
    }

    /// One that opens what is an owner's.
    pub fn add_owner(&mut self, key: [u8; 32], owner: OwnerId) {
        self.owners.push((key, owner));
    }

    /// Whose key this is. Takes equally long for every wrong key: all hashes are compared, each in constant time.
    pub fn caller(&self, presented: &str) -> Option<Caller> {
        if presented.is_empty() || presented.len() > LONGEST {
            return None;
        }
        let hash = Self::hash(presented);
        let mut known = Choice::from(0);
        for admin in &self.admins {
            known |= admin.ct_eq(&hash);
        }
        let mut owner = None;
        for (key, whose) in &self.owners {
            if bool::from(key.ct_eq(&hash)) {
                owner = Some(Caller::Owner(*whose));
            }
        }
        if bool::from(known) { Some(Caller::Admin) } else { owner }
    }

    /// A fresh key and what to keep of it. The key itself is shown once and never stored.
    pub fn generate() -> Result<(String, [u8; 32]), getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let key = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
        let hash = Self::hash(&key);
        Ok((key, hash))
    }

    /// What is kept of a key.
    pub fn hash(key: &str) -> [u8; 32] {
        Sha256::digest(key.as_bytes()).into()
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({} admins, {} owners)", self.admins.len(), self.owners.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_the_door_that_its_hash_was_given_to() {
        let (key, hash) = Keys::generate().unwrap();
        assert!(key.starts_with("terse_") && key.len() == 6 + 43, "{key}");
        let mut keys = Keys::new(vec![Keys::hash("another")]);
        assert_eq!(keys.caller(&key), None);
        keys.add_owner(Keys::hash("mine"), OwnerId(7));
        assert_eq!(keys.caller("mine"), Some(Caller::Owner(OwnerId(7))));
        keys.add(hash);
        assert_eq!(keys.caller(&key), Some(Caller::Admin));
        for wrong in ["", "terse_", &key[1..], &format!("{key} "), &key.to_uppercase(), &"x".repeat(513)] {
            assert_eq!(keys.caller(wrong), None, "{wrong}");
        }
        assert!(!format!("{keys:?}").contains("terse_"));
    }
}
