//! Codes that encode when and on which node they were generated: time, node and sequence. They sort
//! by creation time.

use std::sync::Mutex;

use async_trait::async_trait;

use super::{Alphabet, CodeRequest, CodeSource, CodeSourceError, MAX_CODE_LENGTH, is_presentable};
use crate::clock::Clock;
use crate::code::Code;

/// 2026-01-01T00:00:00Z in milliseconds.
const EPOCH_MS: i64 = 1_767_225_600_000;
const SEQUENCE_BITS: u32 = 10;
const MACHINE_BITS: u32 = 8;

/// Milliseconds since 2026, 8 bits of node, 10 bits of sequence: ten characters, enough until after
/// the year 2100.
#[derive(Debug)]
pub struct SnowflakeCodes {
    alphabet: Alphabet,
    machine: u8,
    clock: Clock,
    last: Mutex<u64>,
}

impl SnowflakeCodes {
    /// `machine` must differ between the nodes of a fleet.
    pub fn new(alphabet: Alphabet, machine: u8, clock: Clock) -> Self {
        Self { alphabet, machine, clock, last: Mutex::new(0) }
    }
}

#[async_trait]
impl CodeSource for SnowflakeCodes {
    async fn next(&self, _wanted: CodeRequest<'_>) -> Result<Code, CodeSourceError> {
        loop {
            let ms = u64::try_from(self.clock.now().as_ms() - EPOCH_MS).unwrap_or(0);
            // Time and sequence form one counter. It never goes back, even if the clock does, and a
            // full millisecond borrows from the next one instead of waiting.
            let tick = {
                let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                *last = (*last + 1).max(ms << SEQUENCE_BITS);
                *last
            };
            let (ms, sequence) = (tick >> SEQUENCE_BITS, tick & ((1 << SEQUENCE_BITS) - 1));
            let n = ms << (MACHINE_BITS + SEQUENCE_BITS)
                | u64::from(self.machine) << SEQUENCE_BITS
                | sequence;
            if n >= self.alphabet.size().pow(u32::from(MAX_CODE_LENGTH)) {
                return Err(CodeSourceError::Exhausted);
            }
            let text = super::write(self.alphabet, n, MAX_CODE_LENGTH);
            if is_presentable(&text) {
                return Ok(Code::parse(&text).expect("alphabets consist of code characters"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OwnerId, Target};

    #[tokio::test(flavor = "current_thread")]
    async fn codes_rise_and_never_repeat() {
        let source = SnowflakeCodes::new(Alphabet::Base62, 3, Clock::default());
        let target = Target::from_stored("https://example.com/".into());
        let wanted = CodeRequest { owner: OwnerId::ADMIN, target: &target, attempt: 0 };
        let mut last = String::new();
        for _ in 0..20_000 {
            let code = source.next(wanted).await.unwrap().to_string();
            assert!(code > last, "{code} after {last}");
            last = code;
        }
    }
}
