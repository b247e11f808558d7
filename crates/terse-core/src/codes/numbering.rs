//! The keyed bijection between numbers and codes.
//!
//! For each length, a Feistel network over the smallest even number of bits that holds all codes of
//! that length, walked until the result is a code again (cycle-walking). The round function is
//! SipHash, a keyed pseudo-random function: without the key neighbouring numbers give unrelated
//! codes, and the count of links stays hidden. The inverse computes the number of a code, so terse
//! knows by arithmetic whether a code was ever issued.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::Alphabet;
use crate::code::Code;
use crate::identity::StoreIdentity;

/// The shortest generated code.
pub const MIN_CODE_LENGTH: u8 = 4;
/// The longest generated code.
pub const MAX_CODE_LENGTH: u8 = 10;

const ROUNDS: u64 = 8;

/// Numbers to codes and back, for one store.
#[derive(Clone)]
pub struct Numbering {
    alphabet: Alphabet,
    key: [u8; 16],
    /// Character to digit; 255 for other characters.
    digits: [u8; 256],
}

impl Numbering {
    /// The numbering of a store.
    pub fn new(identity: &StoreIdentity) -> Self {
        let derived = identity.derive("terse code numbering v1");
        let mut key = [0; 16];
        key.copy_from_slice(&derived[..16]);
        let mut digits = [255; 256];
        for (digit, &character) in identity.alphabet.characters().iter().enumerate() {
            digits[usize::from(character)] = digit as u8;
        }
        Self { alphabet: identity.alphabet, key, digits }
    }

    /// How many codes have this length.
    pub fn capacity(&self, length: u8) -> u64 {
        self.alphabet.size().pow(u32::from(length))
    }

    /// The code with number `n` among those of its length.
    pub fn code(&self, length: u8, n: u64) -> Code {
        assert!(
            (MIN_CODE_LENGTH..=MAX_CODE_LENGTH).contains(&length) && n < self.capacity(length),
            "a number has its length's range"
        );
        let mut mixed = n;
        loop {
            mixed = self.forward(length, mixed);
            if mixed < self.capacity(length) {
                break;
            }
        }
        Code::parse(&super::write(self.alphabet, mixed, length))
            .expect("alphabets consist of code characters")
    }

    /// The length and number of a code; `None` if it cannot be a generated code.
    pub fn number(&self, code: &[u8]) -> Option<(u8, u64)> {
        let length = u8::try_from(code.len())
            .ok()
            .filter(|length| (MIN_CODE_LENGTH..=MAX_CODE_LENGTH).contains(length))?;
        let mut n = 0;
        for &byte in code {
            let digit = self.digits[usize::from(byte)];
            if digit == 255 {
                return None;
            }
            n = n * self.alphabet.size() + u64::from(digit);
        }
        loop {
            n = self.backward(length, n);
            if n < self.capacity(length) {
                return Some((length, n));
            }
        }
    }

    /// One number for all lengths: those of length 4 first, then 5, and so on. Fits easily into a
    /// signed 64-bit integer.
    pub fn id(&self, length: u8, n: u64) -> u64 {
        (MIN_CODE_LENGTH..length).map(|shorter| self.capacity(shorter)).sum::<u64>() + n
    }

    /// The inverse of [`Numbering::id`]; `None` for a number beyond all lengths.
    pub fn from_id(&self, mut id: u64) -> Option<(u8, u64)> {
        for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
            if id < self.capacity(length) {
                return Some((length, id));
            }
            id -= self.capacity(length);
        }
        None
    }

    /// Bits in one half of the Feistel block.
    fn half_bits(&self, length: u8) -> u32 {
        (self.capacity(length) - 1).ilog2() / 2 + 1
    }

    fn forward(&self, length: u8, block: u64) -> u64 {
        let bits = self.half_bits(length);
        let mask = (1 << bits) - 1;
        let (mut left, mut right) = (block >> bits, block & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (self.mix(length, round, right) & mask));
        }
        left << bits | right
    }

    fn backward(&self, length: u8, block: u64) -> u64 {
        let bits = self.half_bits(length);
        let mask = (1 << bits) - 1;
        let (mut left, mut right) = (block >> bits, block & mask);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ (self.mix(length, round, left) & mask), left);
        }
        left << bits | right
    }

    fn mix(&self, length: u8, round: u64, half: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        // One word: halves have at most 30 bits.
        hasher.write_u64(u64::from(length) << 56 | round << 48 | half);
        hasher.finish()
    }
}

impl std::fmt::Debug for Numbering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Numbering").field("alphabet", &self.alphabet).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbering(alphabet: Alphabet, seed: u8) -> Numbering {
        Numbering::new(&StoreIdentity::from_stored([seed; 32], alphabet, crate::CodeHash::Hmac))
    }

    /// Every code of a length is hit exactly once: all 58^4 of base58, and all 62^4 of base62.
    #[test]
    fn it_is_a_bijection_on_every_code_of_four_characters() {
        for alphabet in [Alphabet::Base58, Alphabet::Base62] {
            let numbering = numbering(alphabet, 7);
            let mut seen = vec![false; numbering.capacity(4) as usize];
            for n in 0..numbering.capacity(4) {
                let mut mixed = n;
                loop {
                    mixed = numbering.forward(4, mixed);
                    if mixed < numbering.capacity(4) {
                        break;
                    }
                }
                assert!(
                    !std::mem::replace(&mut seen[mixed as usize], true),
                    "{mixed} was hit twice"
                );
            }
            assert!(seen.into_iter().all(|hit| hit));
        }
    }

    #[test]
    fn the_inverse_undoes_it_for_millions_of_numbers_of_every_length() {
        for alphabet in [Alphabet::Base62, Alphabet::Base58] {
            for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
                let numbering = numbering(alphabet, length);
                let capacity = numbering.capacity(length);
                let count = if length == 7 { 1_000_000 } else { 20_000 };
                // From the beginning, to the end, and at every distance between.
                let spread = (0..count)
                    .map(|i| (u128::from(capacity - 1) * i / u128::from(count as u64 - 1)) as u64);
                for n in (0..10_000).chain(spread).chain(capacity - 10_000..capacity) {
                    let code = numbering.code(length, n);
                    assert_eq!(
                        numbering.number(code.as_str().as_bytes()),
                        Some((length, n)),
                        "{code}"
                    );
                }
            }
        }
    }

    #[test]
    fn another_key_gives_other_codes_and_neighbours_look_unrelated() {
        let (one, two) = (numbering(Alphabet::Base62, 1), numbering(Alphabet::Base62, 2));
        let same = (0..1000).filter(|&n| one.code(7, n) == two.code(7, n)).count();
        assert_eq!(same, 0);
        let prefixes: std::collections::HashSet<_> =
            (0..1000).map(|n| one.code(7, n).as_str()[..2].to_owned()).collect();
        assert!(
            prefixes.len() > 700,
            "{} prefixes of two characters among 1,000 codes",
            prefixes.len()
        );
    }

    #[test]
    fn ids_join_all_lengths_without_a_gap() {
        let numbering = numbering(Alphabet::Base62, 1);
        let mut next = 0;
        for length in MIN_CODE_LENGTH..=MAX_CODE_LENGTH {
            assert_eq!(numbering.id(length, 0), next);
            next += numbering.capacity(length);
            for n in [0, 1, numbering.capacity(length) - 1] {
                assert_eq!(numbering.from_id(numbering.id(length, n)), Some((length, n)));
            }
        }
        assert!(next < 1 << 60);
        assert_eq!(numbering.from_id(next), None);
    }

    #[test]
    fn what_is_not_written_like_a_code_has_no_number() {
        let numbering = numbering(Alphabet::Base58, 1);
        for text in ["", "abc", "abcdefghijk", "ab-de", "ab0de", "abOde", "18446744073709551616"] {
            assert_eq!(numbering.number(text.as_bytes()), None, "{text}");
        }
    }
}
