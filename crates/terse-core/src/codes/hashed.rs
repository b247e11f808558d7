//! Codes derived by hashing: the same target and owner give the same code, without any state.

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use super::{Alphabet, CodeSource, CodeSourceError, Wanted, is_presentable};
use crate::code::Code;

/// SHA-256 of target, owner and attempt, cut to the length.
#[derive(Debug)]
pub struct Hashed {
    alphabet: Alphabet,
    length: u8,
}

impl Hashed {
    /// Codes of `length` characters.
    pub fn new(alphabet: Alphabet, length: u8) -> Self {
        Self { alphabet, length }
    }
}

#[async_trait]
impl CodeSource for Hashed {
    async fn next(&self, wanted: Wanted<'_>) -> Result<Code, CodeSourceError> {
        let mut skipped = 0u32;
        loop {
            let mut hasher = Sha256::new();
            hasher.update(wanted.target.as_str().as_bytes());
            hasher.update([0]);
            hasher.update(wanted.owner.0.to_be_bytes());
            hasher.update(wanted.attempt.to_be_bytes());
            hasher.update(skipped.to_be_bytes());
            let digest = hasher.finalize();
            let mut word = [0; 8];
            word.copy_from_slice(&digest[..8]);
            let n = u64::from_be_bytes(word) % self.alphabet.size().pow(u32::from(self.length));
            let text = super::write(self.alphabet, n, self.length);
            if is_presentable(&text) {
                return Ok(Code::parse(&text).expect("alphabets consist of code characters"));
            }
            skipped += 1;
        }
    }
}
