//! The password of a link, as far as the core ever sees it: hashed.

use std::fmt;

/// A password's hash in the PHC format. Whoever makes one has hashed; clear text never comes here.
#[derive(Clone, Eq, PartialEq)]
pub struct PasswordHash(Box<str>);

impl PasswordHash {
    /// A hash in the PHC format, such as `$argon2id$v=19$…`, fresh or as a store wrote it earlier.
    pub fn from_phc(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// For a store to keep, and for whoever checks a password against it.
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
