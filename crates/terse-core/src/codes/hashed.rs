//! Codes derived by hashing: the same target and owner give the same code, without any state.

use async_trait::async_trait;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::{CodeRequest, CodeSource, CodeSourceError, is_presentable};
use crate::code::Code;
use crate::identity::{CodeHash, StoreIdentity};

/// A hash of target, owner and attempt, cut to the length. Its key comes from the store's secret,
/// so that only this store can compute which code a target has.
#[derive(Debug)]
pub struct HashedCodes {
    identity: StoreIdentity,
    length: u8,
}

impl HashedCodes {
    /// Codes of `length` characters in the alphabet of a store.
    pub fn new(identity: &StoreIdentity, length: u8) -> Self {
        Self { identity: identity.clone(), length }
    }

    fn digest(&self, wanted: &CodeRequest<'_>, skipped: u32) -> [u8; 32] {
        let mut input = Vec::with_capacity(wanted.target.as_str().len() + 17);
        input.extend(wanted.target.as_str().as_bytes());
        input.push(0);
        input.extend(wanted.owner.0.to_be_bytes());
        input.extend(wanted.attempt.to_be_bytes());
        input.extend(skipped.to_be_bytes());
        match self.identity.code_hash {
            CodeHash::Sha256 => Sha256::digest(&input).into(),
            CodeHash::Hmac => {
                let key = self.identity.derive("codes from targets");
                let mut mac =
                    Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
                mac.update(&input);
                mac.finalize().into_bytes().into()
            }
        }
    }
}

#[async_trait]
impl CodeSource for HashedCodes {
    async fn next(&self, wanted: CodeRequest<'_>) -> Result<Code, CodeSourceError> {
        let alphabet = self.identity.alphabet;
        let mut skipped = 0u32;
        loop {
            let digest = self.digest(&wanted, skipped);
            let mut word = [0; 8];
            word.copy_from_slice(&digest[..8]);
            let n = u64::from_be_bytes(word) % alphabet.size().pow(u32::from(self.length));
            let text = super::write(alphabet, n, self.length);
            if is_presentable(&text) {
                return Ok(Code::parse(&text).expect("alphabets consist of code characters"));
            }
            skipped += 1;
        }
    }
}
