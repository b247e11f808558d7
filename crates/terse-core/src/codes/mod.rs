//! How codes are generated.
//!
//! The default is [`NumberedCodes`]: numbers leased from the store, sent through a keyed bijection
//! ([`Numbering`]). The other generators are optional. All implement [`CodeSource`]. Every insert
//! is conditional, so a code that is generated twice costs one more attempt and never overwrites a
//! link.

mod hashed;
mod lease_marks;
mod numbered;
mod numbering;
mod offensive;
mod random;
mod snowflake;

use async_trait::async_trait;

pub use hashed::HashedCodes;
pub use lease_marks::LeaseMarks;
pub use numbered::NumberedCodes;
pub use numbering::{MAX_CODE_LENGTH, MIN_CODE_LENGTH, Numbering};
pub use random::RandomCodes;
pub use snowflake::SnowflakeCodes;

use crate::code::{Code, is_reserved};
use crate::link::OwnerId;
use crate::store::StoreError;
use crate::target::Target;

/// The characters of generated codes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Alphabet {
    /// `0-9A-Za-z`.
    #[default]
    Base62,
    /// Without `0`, `O`, `I` and `l`, which look alike.
    Base58,
}

impl Alphabet {
    /// The characters in their order.
    pub fn characters(self) -> &'static [u8] {
        match self {
            Self::Base62 => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            Self::Base58 => b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
        }
    }

    /// How many there are.
    pub fn size(self) -> u64 {
        self.characters().len() as u64
    }

    /// The name in settings and stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base62 => "base62",
            Self::Base58 => "base58",
        }
    }

    /// From the name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Base62, Self::Base58].into_iter().find(|alphabet| alphabet.as_str() == name)
    }
}

/// The link that needs a code; most sources ignore it.
#[derive(Clone, Copy, Debug)]
pub struct CodeRequest<'a> {
    /// The owner of the link.
    pub owner: OwnerId,
    /// The target of the link.
    pub target: &'a Target,
    /// 0 at first, then one more each time the code was taken.
    pub attempt: u32,
}

/// Why no code could be generated.
#[derive(Debug, thiserror::Error)]
pub enum CodeSourceError {
    /// Numbers could not be leased.
    #[error("no numbers could be leased")]
    Store(#[from] StoreError),
    /// Every code of every allowed length is in use.
    #[error("all codes of all lengths are used up")]
    Exhausted,
    /// The operating system gave no random numbers.
    #[error("no random numbers")]
    Random(#[source] getrandom::Error),
}

/// Generates codes. The store guarantees uniqueness; a source only has to make conflicts rare.
#[async_trait]
pub trait CodeSource: Send + Sync + 'static {
    /// A code to try next.
    async fn next(&self, wanted: CodeRequest<'_>) -> Result<Code, CodeSourceError>;
}

/// Whether a generated code may be used: neither a reserved word nor offensive.
fn is_presentable(code: &str) -> bool {
    !is_reserved(code) && !offensive::is_offensive(code)
}

/// Writes `n` in an alphabet, padded to `length`.
fn write(alphabet: Alphabet, mut n: u64, length: u8) -> String {
    let characters = alphabet.characters();
    let mut text = vec![characters[0]; usize::from(length)];
    for place in text.iter_mut().rev() {
        *place = characters[(n % alphabet.size()) as usize];
        n /= alphabet.size();
    }
    String::from_utf8(text).expect("alphabets are ASCII")
}
