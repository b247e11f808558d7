//! Access cookies (passes). A visitor who entered a link's password gets one, which opens the link
//! for ten minutes.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use terse_core::{Link, Timestamp};

/// How long a pass is valid.
const LIFE: Duration = Duration::from_secs(600);
const NAME: &str = "terse_pass";
/// A browser sends one pass per link. Passes beyond this number are ignored.
const MAX_COOKIES: usize = 4;

/// Signs and verifies passes. The server stores none: a pass contains its expiry and is bound to
/// one password of one link, so a new password ends all earlier passes.
#[derive(Clone)]
pub(crate) struct AccessCookies<'a>(&'a [u8; 32]);

impl<'a> AccessCookies<'a> {
    pub(crate) fn new(key: &'a [u8; 32]) -> Self {
        Self(key)
    }

    /// Makes a cookie with a pass for this link. `None` for a link without a password.
    pub(crate) fn give(&self, link: &Link, secure: bool, now: Timestamp) -> Option<HeaderValue> {
        let until = now.checked_add(LIFE)?;
        let mut pass = until.as_ms().to_be_bytes().to_vec();
        pass.extend(self.sign(link, until)?);
        let (code, life, pass) = (&link.key.code, LIFE.as_secs(), URL_SAFE_NO_PAD.encode(pass));
        let secure = if secure { "; Secure" } else { "" };
        let cookie =
            format!("{NAME}={pass}; Path=/{code}; Max-Age={life}; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::try_from(cookie).ok()
    }

    /// Whether a request carries a valid pass for this link.
    pub(crate) fn grants(&self, headers: &HeaderMap, link: &Link, now: Timestamp) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut access_cookies =
            pairs.filter(|(name, _)| *name == NAME).map(|(_, pass)| pass).take(MAX_COOKIES);
        access_cookies.any(|pass| self.is_good(pass, link, now))
    }

    fn is_good(&self, pass: &str, link: &Link, now: Timestamp) -> bool {
        if pass.len() > 64 {
            return false;
        }
        let Ok(pass) = URL_SAFE_NO_PAD.decode(pass) else { return false };
        let Some((until, tag)) = pass.split_first_chunk() else { return false };
        let until = Timestamp::from_ms(i64::from_be_bytes(*until));
        // No pass is valid for longer than `LIFE`, even if the clock went back since.
        let in_time = now < until && now.checked_add(LIFE).is_some_and(|latest| until <= latest);
        in_time && self.sign(link, until).is_some_and(|want| bool::from(want.ct_eq(tag)))
    }

    /// Each text is preceded by its length, so that no two links have the same signed input.
    fn sign(&self, link: &Link, until: Timestamp) -> Option<[u8; 32]> {
        let password = link.password.as_ref()?;
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0).expect("HMAC takes keys of any length");
        for text in [link.key.domain.as_str(), link.key.code.as_str(), password.as_str()] {
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        // A later link may get the same code.
        mac.update(&link.created_at.as_ms().to_be_bytes());
        mac.update(&until.as_ms().to_be_bytes());
        Some(mac.finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use terse_core::{Domain, PasswordHash};
    use terse_testkit::{alias, timestamp};

    use super::*;

    const KEY: [u8; 32] = [3; 32];

    fn locked() -> Link {
        Link {
            password: Some(PasswordHash::from_phc("$argon2id$a")),
            ..alias("abc", "https://example.com/")
        }
    }

    fn cookie(pass: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, pass.parse().unwrap())])
    }

    fn pass() -> String {
        let given = AccessCookies(&KEY).give(&locked(), true, timestamp(0)).unwrap();
        given.to_str().unwrap().split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_pass_is_good_for_ten_minutes_and_no_longer() {
        let headers = cookie(&format!("other=1; {}; terse_passport=2", pass()));
        for (ms, good) in [(0, true), (599_999, true), (600_000, false), (-1, false)] {
            assert_eq!(
                AccessCookies(&KEY).grants(&headers, &locked(), timestamp(ms)),
                good,
                "{ms}"
            );
        }
    }

    #[test]
    fn a_pass_fits_one_password_of_one_link() {
        let link = locked();
        let others = [
            Link { password: Some(PasswordHash::from_phc("$argon2id$b")), ..link.clone() },
            Link { password: None, ..link.clone() },
            Link { created_at: timestamp(1), ..link.clone() },
            Link { key: terse_testkit::key("abd"), ..link.clone() },
            Link {
                key: terse_core::LinkKey {
                    domain: Domain::parse("b.example").unwrap(),
                    code: link.key.code.clone(),
                },
                ..link.clone()
            },
        ];
        for other in others {
            assert!(
                !AccessCookies(&KEY).grants(&cookie(&pass()), &other, timestamp(1)),
                "{other:?}"
            );
        }
        assert!(
            !AccessCookies(&[4; 32]).grants(&cookie(&pass()), &link, timestamp(1)),
            "another store's"
        );
        let changed =
            Link { title: None, target: alias("x23", "https://example.org/").target, ..link };
        assert!(
            AccessCookies(&KEY).grants(&cookie(&pass()), &changed, timestamp(1)),
            "the rest of the link may change"
        );
    }

    #[test]
    fn a_forged_pass_is_none() {
        let right = pass();
        let (name, value) = right.split_once('=').unwrap();
        let mut bytes = URL_SAFE_NO_PAD.decode(value).unwrap();
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            let forged = format!("{name}={}", URL_SAFE_NO_PAD.encode(&bytes));
            assert!(
                !AccessCookies(&KEY).grants(&cookie(&forged), &locked(), timestamp(1)),
                "octet {place}"
            );
            bytes[place] ^= 1;
        }
        for forged in [
            "terse_pass=",
            "terse_pass=AAAA",
            "terse_pass",
            &format!("terse_pass={}", "A".repeat(10_000)),
        ] {
            assert!(!AccessCookies(&KEY).grants(&cookie(forged), &locked(), timestamp(1)));
        }
        let buried = format!("{}{right}", "terse_pass=x; ".repeat(MAX_COOKIES));
        assert!(
            !AccessCookies(&KEY).grants(&cookie(&buried), &locked(), timestamp(1)),
            "few are looked at"
        );
    }

    #[test]
    fn the_cookie_goes_to_its_link_alone() {
        let give = |secure| {
            AccessCookies(&KEY)
                .give(&locked(), secure, timestamp(0))
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert!(give(true).ends_with("; Path=/abc; Max-Age=600; HttpOnly; SameSite=Lax; Secure"));
        assert!(give(false).ends_with("; Path=/abc; Max-Age=600; HttpOnly; SameSite=Lax"));
    }
}
