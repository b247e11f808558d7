//! Passwords: their stored form, and the contract of the component that hashes them.

use std::fmt;

use async_trait::async_trait;

/// The longest password, in bytes. It bounds the work that a request can cause.
pub const MAX_PASSWORD_LEN: usize = 1024;

/// Why a password could not be hashed or checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PasswordError {
    /// Too many passwords are being hashed. Try again.
    #[error("too many passwords are being checked")]
    Busy,
    /// It is empty or too long.
    #[error("a password has 1 to 1,024 bytes")]
    Length,
    /// The hash function failed, or the stored hash is not valid.
    #[error("the password could not be hashed")]
    Failed,
}

/// Hashes and checks passwords. Hashing takes memory and time on purpose, so an implementation
/// limits how many calls run and wait at once, and answers `Busy` beyond that.
#[async_trait]
pub trait PasswordHasher: Send + Sync {
    /// The hash to keep, salted, in the PHC format. `Length` for an empty or oversized password.
    async fn hash(&self, password: String) -> Result<String, PasswordError>;

    /// The same with a given salt. The caller makes one that no attacker can predict.
    async fn hash_with_salt(
        &self,
        password: String,
        salt: [u8; 16],
    ) -> Result<String, PasswordError>;

    /// Whether the password matches the stored hash. Without a hash it takes as long and returns
    /// `false`, so that the time does not reveal whether an account exists.
    async fn verify(&self, password: String, kept: Option<String>) -> Result<bool, PasswordError>;
}

/// Hashes nothing: for services whose links get no passwords.
#[derive(Debug)]
pub struct NoPasswords;

#[async_trait]
impl PasswordHasher for NoPasswords {
    async fn hash(&self, _password: String) -> Result<String, PasswordError> {
        Err(PasswordError::Failed)
    }

    async fn hash_with_salt(
        &self,
        _password: String,
        _salt: [u8; 16],
    ) -> Result<String, PasswordError> {
        Err(PasswordError::Failed)
    }

    async fn verify(&self, _text: String, _kept: Option<String>) -> Result<bool, PasswordError> {
        Err(PasswordError::Failed)
    }
}

/// A password's hash in the PHC format, never clear text.
#[derive(Clone, Eq, PartialEq)]
pub struct PasswordHash(Box<str>);

impl PasswordHash {
    /// Wraps a hash in PHC format, such as `$argon2id$v=19$…`.
    pub fn from_phc(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text that stores keep and that [`PasswordHasher::verify`] takes.
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
