//! Password hashes.

use std::fmt;

/// A password hash in PHC format. The core never sees clear text.
#[derive(Clone, Eq, PartialEq)]
pub struct PasswordHash(Box<str>);

impl PasswordHash {
    /// Wraps a hash in PHC format, such as `$argon2id$v=19$…`.
    pub fn from_phc(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The hash, for stores and for verification.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash([hidden])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_not_printed() {
        let hash = PasswordHash::from_phc("$argon2id$v=19$secret");
        assert!(!format!("{hash:?}").contains("secret"));
        assert_eq!(hash.as_str(), "$argon2id$v=19$secret");
    }
}
