//! Two-factor sign-in, as an account has it.

use std::fmt;

use super::key::SecretHash;

/// From this and a key of the store comes the secret that an authenticator app shares with terse.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct TotpSeed(pub [u8; 16]);

impl TotpSeed {
    /// Parses [`TotpSeed::to_text`].
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| plain)?;
        Some(Self(number.to_be_bytes()))
    }

    /// 32 hexadecimal digits.
    pub fn to_text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TotpSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Two-factor sign-in of an account that turned it on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TwoFactor {
    /// The seed of the app's secret.
    pub seed: TotpSeed,
    /// The time step of the last accepted code. Codes of it and of earlier steps are refused.
    pub last_step: u64,
    /// The hashes of the recovery codes that were not used.
    pub recovery: Vec<SecretHash>,
}

impl TwoFactor {
    /// The hashes one after the other, as registries store them.
    pub fn stored_recovery(&self) -> Vec<u8> {
        self.recovery.iter().flat_map(|token| token.0).collect()
    }

    /// From the stored columns; `None` if they are damaged.
    pub fn from_stored(seed: &[u8], last_step: i64, recovery: &[u8]) -> Option<Self> {
        let (hashes, []) = recovery.as_chunks::<32>() else { return None };
        Some(Self {
            seed: TotpSeed(seed.try_into().ok()?),
            last_step: u64::try_from(last_step).ok()?,
            recovery: hashes.iter().map(|hash| SecretHash(*hash)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_back() {
        let recovery = vec![SecretHash([1; 32]), SecretHash([2; 32])];
        let one = TwoFactor { seed: TotpSeed([7; 16]), last_step: 5, recovery };
        let read = |recovery: &[u8]| TwoFactor::from_stored(&[7; 16], 5, recovery);
        assert_eq!(read(&one.stored_recovery()), Some(one.clone()));
        assert_eq!(read(&[]), Some(TwoFactor { recovery: Vec::new(), ..one }));
        assert_eq!(read(&[1; 33]), None);
        assert_eq!(TwoFactor::from_stored(&[7; 15], 5, &[]), None);
        assert_eq!(TwoFactor::from_stored(&[7; 16], -5, &[]), None);
        let seed = TotpSeed([0xab; 16]);
        assert_eq!(TotpSeed::parse(&seed.to_text()), Some(seed));
        for text in ["", "ab", &"g".repeat(32), &format!("+{}", "a".repeat(31))] {
            assert_eq!(TotpSeed::parse(text), None, "{text}");
        }
    }
}
