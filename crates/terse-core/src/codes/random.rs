//! Codes drawn at random: insert, and draw again on a conflict.

use async_trait::async_trait;

use super::{Alphabet, CodeRequest, CodeSource, CodeSourceError, MAX_CODE_LENGTH, is_presentable};
use crate::code::Code;

/// Draws codes. After a few consecutive conflicts it uses the next length, because the current one
/// is getting full.
#[derive(Debug)]
pub struct RandomCodes {
    alphabet: Alphabet,
    length: u8,
}

impl RandomCodes {
    /// Codes of `length` characters.
    pub fn new(alphabet: Alphabet, length: u8) -> Self {
        Self { alphabet, length }
    }
}

#[async_trait]
impl CodeSource for RandomCodes {
    async fn next(&self, wanted: CodeRequest<'_>) -> Result<Code, CodeSourceError> {
        let longer = u8::try_from(wanted.attempt / 4).unwrap_or(MAX_CODE_LENGTH);
        let length = self.length.saturating_add(longer).min(MAX_CODE_LENGTH);
        loop {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(CodeSourceError::Random)?;
            let capacity = self.alphabet.size().pow(u32::from(length));
            let drawn = u64::from_le_bytes(bytes);
            if drawn >= u64::MAX - u64::MAX % capacity {
                continue; // beyond the last whole multiple: taking it would favour the first codes
            }
            let text = super::write(self.alphabet, drawn % capacity, length);
            if is_presentable(&text) {
                return Ok(Code::parse(&text).expect("alphabets consist of code characters"));
            }
        }
    }
}
