//! The operator's API keys, stored only as hashes.

use subtle::{Choice, ConstantTimeEq};
use terse_core::accounts::BearerSecret;
use terse_core::registry::SecretHash;

/// The operator's keys as SHA-256 hashes. A key has 256 random bits, so it cannot be guessed and a
/// fast hash is enough.
#[derive(Clone, Default)]
pub struct AdminKeys(Vec<[u8; 32]>);

impl AdminKeys {
    /// From hashes of keys that permit everything.
    pub fn new(operator: Vec<[u8; 32]>) -> Self {
        Self(operator)
    }

    /// Adds the hash of a key.
    pub fn add(&mut self, operator: [u8; 32]) {
        self.0.push(operator);
    }

    /// Whether this is a key of the operator. Compares all hashes, each in constant time, so every
    /// wrong key takes equally long.
    pub(crate) fn is_operator(&self, presented: &str) -> bool {
        let Some(SecretHash(hash)) = BearerSecret::presented(presented) else { return false };
        let known = self.0.iter().fold(Choice::from(0), |known, kept| known | kept.ct_eq(&hash));
        known.into()
    }

    /// A fresh key and its hash. The key itself is shown once and never stored.
    pub fn generate() -> Result<(String, [u8; 32]), getrandom::Error> {
        let secret = BearerSecret::key()?;
        let SecretHash(hash) = secret.token();
        Ok((secret.reveal(), hash))
    }

    /// The hash that is stored for a key.
    pub fn hash(key: &str) -> [u8; 32] {
        BearerSecret::hash(key).0
    }
}

impl std::fmt::Debug for AdminKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({} of the operator)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_accepted_by_its_hash() {
        let (key, hash) = AdminKeys::generate().unwrap();
        assert!(key.starts_with("terse_") && key.len() == 6 + 43, "{key}");
        let mut keys = AdminKeys::new(vec![AdminKeys::hash("another")]);
        assert!(!keys.is_operator(&key) && keys.is_operator("another"));
        keys.add(hash);
        assert!(keys.is_operator(&key));
        for wrong in
            ["", "terse_", &key[1..], &format!("{key} "), &key.to_uppercase(), &"x".repeat(513)]
        {
            assert!(!keys.is_operator(wrong), "{wrong}");
        }
        assert!(!format!("{keys:?}").contains("terse_"));
    }
}
