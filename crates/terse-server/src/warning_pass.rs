//! Passes for visitors who go on from a warning page. The page links to `/{code}/go` with a pass;
//! without a valid one the warning is shown again, so that a shared link does not skip it.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use terse_core::limits::Network;
use terse_core::{LinkKey, Timestamp};

/// How long a visitor may take to continue.
const LIFE: Duration = Duration::from_hours(1);

/// Signs and verifies passes. The server stores none: a pass contains its expiry and is bound to
/// one link and one network.
pub(crate) struct WarningPass<'a>(pub(crate) &'a [u8; 32]);

impl WarningPass<'_> {
    /// A pass for a visitor of a link.
    pub(crate) fn give(&self, key: &LinkKey, visitor: IpAddr, now: Timestamp) -> Option<String> {
        let until = now.checked_add(LIFE)?;
        let mut pass = until.as_ms().to_be_bytes().to_vec();
        pass.extend(self.sign(key, visitor, until));
        Some(URL_SAFE_NO_PAD.encode(pass))
    }

    /// Whether a pass is valid for this link and visitor.
    pub(crate) fn is_good(
        &self,
        pass: &str,
        key: &LinkKey,
        visitor: IpAddr,
        now: Timestamp,
    ) -> bool {
        if pass.len() > 64 {
            return false;
        }
        let Ok(pass) = URL_SAFE_NO_PAD.decode(pass) else { return false };
        let Some((until, tag)) = pass.split_first_chunk() else { return false };
        let until = Timestamp::from_ms(i64::from_be_bytes(*until));
        // No pass is valid for longer than `LIFE`, even if the clock went back since.
        let in_time = now < until && now.checked_add(LIFE).is_some_and(|latest| until <= latest);
        in_time && bool::from(self.sign(key, visitor, until).ct_eq(tag))
    }

    /// Each text is preceded by its length, so that no two links have the same signed input.
    fn sign(&self, key: &LinkKey, visitor: IpAddr, until: Timestamp) -> [u8; 32] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0).expect("HMAC takes keys of any length");
        for text in ["warning", key.domain.as_str(), key.code.as_str()] {
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        let (network, _) = Network::of(visitor);
        mac.update(&network.prefix().to_be_bytes());
        mac.update(&[network.bits()]);
        mac.update(&until.as_ms().to_be_bytes());
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use terse_testkit::{key, timestamp};

    use super::*;

    #[test]
    fn a_pass_is_good_for_an_hour_for_its_link_and_its_visitor() {
        let (passes, others) = (WarningPass(&[3; 32]), WarningPass(&[4; 32]));
        let visitor: IpAddr = "192.0.2.1".parse().unwrap();
        let pass = passes.give(&key("abc"), visitor, timestamp(0)).unwrap();
        let good = |ms| passes.is_good(&pass, &key("abc"), visitor, timestamp(ms));
        assert_eq!([-1, 0, 3_599_999, 3_600_000].map(good), [false, true, true, false]);
        assert!(!passes.is_good(&pass, &key("abd"), visitor, timestamp(0)));
        assert!(!passes.is_good(&pass, &key("abc"), "192.0.2.2".parse().unwrap(), timestamp(0)));
        assert!(!others.is_good(&pass, &key("abc"), visitor, timestamp(0)));
        for bad in ["", "x", &pass[1..], &format!("{pass}x"), &"A".repeat(1000)] {
            assert!(!passes.is_good(bad, &key("abc"), visitor, timestamp(0)), "{bad}");
        }
    }
}
