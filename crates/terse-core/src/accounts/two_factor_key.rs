//! The secrets of two-factor sign-in (TOTP, RFC 6238), and the ticket between its two pages.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use totp_rs::{Builder, Secret, Totp};

use crate::link::{OwnerId, Revision};
use crate::registry::{Account, TotpSeed};
use crate::time::Timestamp;

/// How long the second page of a sign-in may wait for its code.
const TICKET_TTL: Duration = Duration::from_secs(10 * 60);
/// The octets of a ticket before its signature: owner, revision, end.
const TICKET_LEN: usize = 24;

/// A key of the store. It derives the secret that an authenticator app shares with terse from the
/// seed in the registry, so that the registry alone does not tell it. Webhook secrets work the same
/// way. It also signs tickets: a caller with a ticket has given the right password.
#[derive(Clone)]
pub struct TwoFactorKey([u8; 32]);

impl TwoFactorKey {
    /// Wraps a key that is used for nothing else.
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    fn mac(&self, purpose: &str, message: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(purpose.as_bytes());
        mac.update(message);
        mac
    }

    /// The secret of an account with this seed. The creation time is part of it, because ids
    /// restart when the registry is replaced.
    fn secret(&self, account: &Account, TotpSeed(seed): &TotpSeed) -> Secret {
        let mut message = account.id.0.to_be_bytes().to_vec();
        message.extend(account.created_at.as_ms().to_be_bytes());
        message.extend(seed);
        let hash: [u8; 32] = self.mac("totp\0", &message).finalize().into_bytes().into();
        let mut secret = [0; 20];
        secret.copy_from_slice(&hash[..20]);
        Secret::new_stack(secret)
    }

    /// The secret as a person types it into an authenticator app.
    pub(super) fn shown_secret(&self, account: &Account, seed: &TotpSeed) -> String {
        self.secret(account, seed).to_base32()
    }

    /// The time step of a code that an app shows now, or showed or will show half a minute off.
    pub(super) fn step_of(
        &self,
        account: &Account,
        seed: &TotpSeed,
        code: &str,
        now: Timestamp,
    ) -> Option<u64> {
        // Six digits, steps of 30 seconds, SHA-1, one step off: what all apps know.
        let totp: Totp = Builder::new().with_secret(self.secret(account, seed)).build().ok()?;
        totp.check(code, u64::try_from(now.as_ms() / 1000).ok()?)
    }

    /// Proves that the right password of an account was just given. Any change of the account ends
    /// the ticket.
    pub(super) fn ticket(&self, account: &Account, now: Timestamp) -> String {
        let end = now.checked_add(TICKET_TTL).unwrap_or(Timestamp::MAX);
        let mut ticket = account.id.0.to_be_bytes().to_vec();
        ticket.extend(account.revision.0.to_be_bytes());
        ticket.extend(end.as_ms().to_be_bytes());
        let signature = self.mac("ticket\0", &ticket).finalize().into_bytes();
        ticket.extend(signature);
        URL_SAFE_NO_PAD.encode(ticket)
    }

    /// The account of a ticket, and its revision when the password was given.
    pub(super) fn read_ticket(&self, text: &str, now: Timestamp) -> Option<(OwnerId, Revision)> {
        if text.len() > 128 {
            return None;
        }
        let ticket = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (content, signature) = ticket.split_at_checked(TICKET_LEN)?;
        self.mac("ticket\0", content).verify_slice(signature).ok()?;
        let number =
            |at: usize| Some(u64::from_be_bytes(content.get(at..at + 8)?.try_into().ok()?));
        let end = Timestamp::from_ms(number(16)?.cast_signed());
        // No ticket is valid for longer, even if the clock went back since.
        let in_time = now < end && now.checked_add(TICKET_TTL).is_some_and(|latest| end <= latest);
        Some((OwnerId(number(0)?), Revision(number(8)?))).filter(|_| in_time)
    }
}

impl fmt::Debug for TwoFactorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// The address of a secret that authenticator apps read from a QR code.
pub(super) fn otpauth_url(issuer: &str, name: &str, secret: &str) -> String {
    // A colon separates the issuer from the name.
    let (issuer, name) = (percent(&issuer.replace(':', " ")), percent(name));
    format!("otpauth://totp/{issuer}:{name}?secret={secret}&issuer={issuer}")
}

fn percent(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let byte = |byte: u8| match plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{AccountName, NewAccount, Role};

    fn account(id: u64) -> Account {
        let name = AccountName::parse("ann").unwrap();
        let created_at = Timestamp::from_ms(5);
        let password = Some("$argon2id$x".to_owned());
        NewAccount { name, role: Role::User, password, identity: None, created_at }
            .into_account(OwnerId(id))
    }

    fn code(key: &TwoFactorKey, account: &Account, seed: &TotpSeed, seconds: u64) -> String {
        let totp = Builder::new().with_secret(key.secret(account, seed)).build().unwrap();
        totp.generate(seconds).to_string()
    }

    #[test]
    fn secrets_differ_by_account_seed_and_key() {
        let (key, other) = (TwoFactorKey::new([1; 32]), TwoFactorKey::new([2; 32]));
        let all = [
            key.shown_secret(&account(1000), &TotpSeed([1; 16])),
            key.shown_secret(&account(1001), &TotpSeed([1; 16])),
            key.shown_secret(&account(1000), &TotpSeed([2; 16])),
            other.shown_secret(&account(1000), &TotpSeed([1; 16])),
        ];
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), all.len());
        assert!(all.iter().all(|secret| secret.len() == 32), "{all:?}");
        assert_eq!(format!("{key:?} {:?}", TotpSeed([1; 16])), "[hidden] [hidden]");
    }

    #[test]
    fn the_codes_are_those_of_the_standard() {
        // RFC 6238, appendix B, with the last six digits.
        for (seconds, expected) in
            [(59, "287082"), (1_111_111_109, "081804"), (20_000_000_000, "353130")]
        {
            let secret = Secret::new_stack(*b"12345678901234567890");
            let totp = Builder::new().with_secret(secret).build().unwrap();
            assert_eq!(totp.generate(seconds).to_string(), expected);
        }
    }

    #[test]
    fn a_code_is_valid_half_a_minute_before_and_after() {
        let (key, ann, seed) = (TwoFactorKey::new([1; 32]), account(1000), TotpSeed([7; 16]));
        let now = 1_800_000_000_u64;
        let code = code(&key, &ann, &seed, now);
        let step = |seconds: i64| {
            let at = Timestamp::from_ms((now.cast_signed() + seconds) * 1000);
            key.step_of(&ann, &seed, &code, at)
        };
        for seconds in [-30, 0, 29, 59] {
            assert_eq!(step(seconds), Some(now / 30), "{seconds}");
        }
        for seconds in [-31, 60, 3600] {
            assert_eq!(step(seconds), None, "{seconds}");
        }
        let at = Timestamp::from_ms(now.cast_signed() * 1000);
        for wrong in ["", "12345", "+12345", "1234567", "abcdef", "１２３４５６"] {
            assert_eq!(key.step_of(&ann, &seed, wrong, at), None, "{wrong}");
        }
    }

    #[test]
    fn a_ticket_is_for_one_account_and_ten_minutes() {
        let (key, other) = (TwoFactorKey::new([1; 32]), TwoFactorKey::new([2; 32]));
        let (ann, now) = (account(1000), Timestamp::from_ms(1_000_000));
        let ticket = key.ticket(&ann, now);
        assert_eq!(key.read_ticket(&ticket, now), Some((ann.id, ann.revision)));
        let after = |seconds| now.checked_add(Duration::from_secs(seconds)).unwrap();
        assert!(key.read_ticket(&ticket, after(599)).is_some());
        assert!(key.read_ticket(&ticket, after(600)).is_none());
        assert!(key.read_ticket(&ticket, now.saturating_sub(Duration::from_secs(1))).is_none());
        assert!(other.read_ticket(&ticket, now).is_none());
        let mut forged = URL_SAFE_NO_PAD.decode(&ticket).unwrap();
        forged[7] ^= 1;
        assert!(key.read_ticket(&URL_SAFE_NO_PAD.encode(forged), now).is_none());
        for text in ["", "x", &ticket[..40], &"A".repeat(200)] {
            assert!(key.read_ticket(text, now).is_none(), "{text}");
        }
    }

    #[test]
    fn the_address_is_escaped() {
        assert_eq!(
            otpauth_url("My: links", "a+b@x", "ABC"),
            "otpauth://totp/My%20%20links:a%2Bb%40x?secret=ABC&issuer=My%20%20links"
        );
    }
}
