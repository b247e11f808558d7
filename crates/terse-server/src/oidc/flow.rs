//! A sign-in that is under way: a signed cookie that the browser keeps while it is at the provider.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use terse_core::Timestamp;

/// How long a sign-in at the provider may take, in seconds.
pub(crate) const TIMEOUT: u64 = 600;

/// One sign-in at the provider, from the request to the callback.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Flow {
    /// Comes back in the query of the callback.
    pub(super) state: String,
    /// Comes back in the ID token.
    pub(super) nonce: String,
    /// The PKCE verifier: only the client that began the flow can exchange the code.
    pub(super) verifier: String,
    /// What the sign-in is for.
    pub(crate) purpose: Purpose,
    /// When the flow ends, in milliseconds.
    pub(super) until: i64,
}

/// What a sign-in at the provider is for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Purpose {
    /// To sign in here and go to `next`.
    SignIn { next: String },
    /// To accept an invitation.
    Join { token: String },
    /// To connect the account that is signed in now.
    Connect { owner: u64 },
}

impl Flow {
    /// The cookie's value: the flow and its signature.
    pub(crate) fn to_cookie(&self, key: &[u8; 32]) -> String {
        let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default());
        let signature = URL_SAFE_NO_PAD.encode(sign(key, &body));
        format!("{body}.{signature}")
    }

    /// The flow in a cookie, if its signature is right, its time has not passed, and it has the
    /// `state` that came back.
    pub(crate) fn from_cookie(
        key: &[u8; 32],
        cookie: &str,
        state: &str,
        now: Timestamp,
    ) -> Option<Self> {
        let (body, signature) = cookie.split_once('.')?;
        let right: bool = URL_SAFE_NO_PAD.decode(signature).ok()?.ct_eq(&sign(key, body)).into();
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
    fn a_cookie_is_accepted_only_as_it_was_signed() {
        let flow = Flow {
            state: "s".into(),
            nonce: "n".into(),
            verifier: "v".into(),
            purpose: Purpose::Connect { owner: 1000 },
            until: 100,
        };
        let (key, at) = ([7; 32], Timestamp::from_ms(99));
        let cookie = flow.to_cookie(&key);
        assert_eq!(
            Flow::from_cookie(&key, &cookie, "s", at).map(|flow| flow.purpose),
            Some(Purpose::Connect { owner: 1000 })
        );
        assert!(Flow::from_cookie(&key, &cookie, "t", at).is_none(), "another state");
        assert!(Flow::from_cookie(&key, &cookie, "", at).is_none(), "no state");
        assert!(
            Flow::from_cookie(&key, &cookie, "s", Timestamp::from_ms(100)).is_none(),
            "too late"
        );
        assert!(Flow::from_cookie(&[8; 32], &cookie, "s", at).is_none(), "another key");
        let other = Flow { purpose: Purpose::Connect { owner: 1001 }, ..flow }.to_cookie(&key);
        let (body, _) = other.split_once('.').unwrap();
        let (_, signature) = cookie.split_once('.').unwrap();
        assert!(
            Flow::from_cookie(&key, &format!("{body}.{signature}"), "s", at).is_none(),
            "another signature"
        );
        for junk in ["", ".", "a.b", body] {
            assert!(Flow::from_cookie(&key, junk, "s", at).is_none(), "{junk}");
        }
    }
}
