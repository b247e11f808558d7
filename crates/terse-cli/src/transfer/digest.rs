//! The checksum of a file.

use std::fmt::Write as _;
use std::io::Read;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a whole file, in hexadecimal.
pub(crate) fn digest_of(mut input: impl Read) -> std::io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match input.read(&mut buffer)? {
            0 => break,
            n => digest.update(&buffer[..n]),
        }
    }
    Ok(digest.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
