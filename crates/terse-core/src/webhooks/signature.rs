//! Signatures of webhooks.
//!
//! The header is `Terse-Signature: t=<unix seconds>,v1=<hex>`, where `<hex>` is the HMAC-SHA-256 of
//! the seconds, a dot and the body, keyed with the shared secret. The time is signed too, so an old
//! message cannot be replayed.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The header that carries the signature.
pub const SIGNATURE_HEADER: &str = "Terse-Signature";

/// The shared secret. Its debug output is `[hidden]`.
#[derive(Clone)]
pub struct WebhookSecret(Box<[u8]>);

impl WebhookSecret {
    /// Uses the text of the secret as the key, without decoding it.
    pub fn new(secret: &str) -> Self {
        Self(secret.as_bytes().into())
    }

    fn mac(&self, seconds: u64, body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(seconds.to_string().as_bytes());
        mac.update(b".");
        mac.update(body);
        mac
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Why a signature is invalid.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SignatureError {
    /// The header does not have the documented form.
    #[error("the signature header is malformed")]
    Malformed,
    /// The time is outside the tolerance.
    #[error("the signature's time is outside the tolerance")]
    Stale,
    /// The body, time or secret differs.
    #[error("the signature does not match")]
    Mismatch,
}

/// The header value for a body sent at this time.
pub fn sign(secret: &WebhookSecret, seconds: u64, body: &[u8]) -> String {
    let mut value = format!("t={seconds},v1=");
    for byte in secret.mac(seconds, body).finalize().into_bytes() {
        value.push_str(&format!("{byte:02x}"));
    }
    value
}

/// Verifies a signature as a receiver does, in constant time. Any matching `v1` is enough, so that
/// a secret can be changed while messages are in flight.
pub fn verify(
    secret: &WebhookSecret,
    header: &str,
    body: &[u8],
    now: u64,
    tolerance: u64,
) -> Result<(), SignatureError> {
    let mut seconds = None;
    let mut given = Vec::new();
    for part in header.split(',').take(8) {
        match part.trim().split_once('=') {
            Some(("t", value)) => {
                seconds = Some(value.parse::<u64>().map_err(|_| SignatureError::Malformed)?);
            }
            Some(("v1", value)) => given.push(from_hex(value).ok_or(SignatureError::Malformed)?),
            Some(_) => {} // a later scheme
            None => return Err(SignatureError::Malformed),
        }
    }
    let seconds = seconds.filter(|_| !given.is_empty()).ok_or(SignatureError::Malformed)?;
    let matches = |bytes: &Vec<u8>| secret.mac(seconds, body).verify_slice(bytes).is_ok();
    if !given.iter().any(matches) {
        return Err(SignatureError::Mismatch);
    }
    if now.abs_diff(seconds) > tolerance {
        return Err(SignatureError::Stale);
    }
    Ok(())
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    Some(digits.chunks(2).map(|pair| (pair[0] << 4) | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"event":"link.created"}"#;

    #[test]
    fn the_signature_is_what_the_documentation_says() {
        // printf '1700000000.{"event":"link.created"}' | openssl dgst -sha256 -hmac whsec_test
        let want =
            "t=1700000000,v1=157c90f250cb20ef0f8f798ef6b985d7bf78bcf43128ad5325212589883c33e8";
        assert_eq!(sign(&WebhookSecret::new("whsec_test"), 1_700_000_000, BODY), want);
    }

    #[test]
    fn only_the_same_secret_body_and_time_verify() {
        let secret = WebhookSecret::new("s");
        let header = sign(&secret, 1000, BODY);
        let check = |secret: &WebhookSecret, header: &str, body: &[u8], now| {
            verify(secret, header, body, now, 300)
        };
        assert_eq!(check(&secret, &header, BODY, 1300), Ok(()));
        assert_eq!(check(&secret, &header, BODY, 700), Ok(()));
        assert_eq!(check(&secret, &header, BODY, 1301), Err(SignatureError::Stale));
        assert_eq!(check(&secret, &header, b"{}", 1000), Err(SignatureError::Mismatch));
        assert_eq!(
            check(&WebhookSecret::new("t"), &header, BODY, 1000),
            Err(SignatureError::Mismatch)
        );
        assert_eq!(
            check(&secret, &header.replace("t=1000", "t=1001"), BODY, 1000),
            Err(SignatureError::Mismatch)
        );
        let both = format!(
            "{},v1={}, v2=x",
            sign(&WebhookSecret::new("old"), 1000, BODY),
            header.rsplit_once('=').unwrap().1
        );
        assert_eq!(check(&secret, &both, BODY, 1000), Ok(()));
        for header in [
            "",
            "t=1",
            "v1=00",
            "t=x,v1=00",
            "t=1000,v1=",
            "t=1000,v1=zz",
            "t=-1,v1=00",
            "nonsense",
        ] {
            assert_eq!(
                check(&secret, header, BODY, 1000),
                Err(SignatureError::Malformed),
                "{header}"
            );
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        assert_eq!(format!("{:?}", WebhookSecret::new("whsec_test")), "[hidden]");
    }
}
