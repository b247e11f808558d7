//! What a browser holds between leaving for the provider and coming back, signed so that nobody
//! else can write it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use terse_core::Timestamp;

/// How long somebody may take at the provider, in seconds.
pub(crate) const TIMEOUT: u64 = 600;

/// One way there and back.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Flow {
    /// Comes back in the address.
    pub(super) state: String,
    /// Comes back in the token.
    pub(super) nonce: String,
    /// Shows that whoever brings the code is who asked for it.
    pub(super) verifier: String,
    /// What for.
    pub(crate) purpose: Purpose,
    /// Until when, in milliseconds.
    pub(super) until: i64,
}

/// What somebody wants to show who they are for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Purpose {
    /// To sign in, and go on there.
    SignIn { next: String },
    /// To take an invitation.
    Join { token: String },
    /// To sign in this way later: an account that is signed in now.
    Connect { owner: u64 },
}

impl Flow {
    /// For a cookie.
    pub(crate) fn seal(&self, key: &[u8; 32]) -> String {
        let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default());
        let seal = URL_SAFE_NO_PAD.encode(sign(key, &body));
        format!("{body}.{seal}")
    }

    /// From a cookie, if we wrote it, not too long ago, for the state that came back.
    pub(crate) fn open(key: &[u8; 32], cookie: &str, state: &str, now: Timestamp) -> Option<Self> {
        let (body, seal) = cookie.split_once('.')?;
        let right: bool = URL_SAFE_NO_PAD.decode(seal).ok()?.ct_eq(&sign(key, body)).into();
        let flow: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        let same: bool = flow.state.as_bytes().ct_eq(state.as_bytes()).into();
        (right && same && now.as_ms() < flow.until).then_some(flow)
    }
}

fn sign(key: &[u8; 32], body: &str) -> [u8; 32] {
    let mut mac =
        <Hmac<Sha256>>::new_from_slice(key).unwrap_or_else(|_| unreachable!("any length is a key"));
    mac.update(b"terse oidc flow v1\0");
    mac.update(body.as_bytes());
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_opened_only_as_it_was_sealed() {
        let flow = Flow {
            state: "s".into(),
            nonce: "n".into(),
            verifier: "v".into(),
            purpose: Purpose::Connect { owner: 1000 },
            until: 100,
        };
        let (key, at) = ([7; 32], Timestamp::from_ms(99));
        let cookie = flow.seal(&key);
        assert_eq!(
            Flow::open(&key, &cookie, "s", at).map(|flow| flow.purpose),
            Some(Purpose::Connect { owner: 1000 })
        );
        assert!(Flow::open(&key, &cookie, "t", at).is_none(), "another state");
        assert!(Flow::open(&key, &cookie, "", at).is_none(), "no state");
        assert!(Flow::open(&key, &cookie, "s", Timestamp::from_ms(100)).is_none(), "too late");
        assert!(Flow::open(&[8; 32], &cookie, "s", at).is_none(), "another key");
        let other = Flow { purpose: Purpose::Connect { owner: 1001 }, ..flow }.seal(&key);
        let (body, _) = other.split_once('.').unwrap();
        let (_, seal) = cookie.split_once('.').unwrap();
        assert!(Flow::open(&key, &format!("{body}.{seal}"), "s", at).is_none(), "another seal");
        for junk in ["", ".", "a.b", body] {
            assert!(Flow::open(&key, junk, "s", at).is_none(), "{junk}");
        }
    }
}
