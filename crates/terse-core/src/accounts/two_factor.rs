//! Two-factor sign-in: a code of an authenticator app after the password, or a recovery code.

use std::fmt;
use std::net::IpAddr;

use super::two_factor_key::otpauth_url;
use super::{AccountError, Accounts, BearerSecret, refuse_own_session};
use crate::link::OwnerId;
use crate::principal::Principal;
use crate::registry::{
    Account, AccountChange, RegistryError, Role, SecretHash, TotpSeed, TwoFactor,
};

/// How many recovery codes an account gets.
pub const RECOVERY_CODES: usize = 10;
/// The characters of recovery codes: 32 of them, five bits each, without those that look alike.
const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
/// The characters of a recovery code, which are 80 random bits.
const RECOVERY_LEN: usize = 16;

/// A secret that an account may choose for two-factor sign-in. Nothing is stored yet.
#[derive(Clone)]
pub struct TwoFactorOffer {
    /// Names the offer when it is accepted.
    pub seed: String,
    /// The secret, to type into an authenticator app.
    pub secret: String,
    /// The same as an address, for a QR code.
    pub url: String,
}

/// What follows a right password.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one for each sign-in, for a moment")]
pub enum SignInStep {
    /// The account is signed in.
    Done(Account),
    /// A code is needed; the ticket says for which account.
    Code {
        /// Given back together with the code.
        ticket: String,
    },
}

impl fmt::Debug for SignInStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(account) => f.debug_tuple("Done").field(account).finish(),
            Self::Code { .. } => f.write_str("Code { ticket: [hidden] }"),
        }
    }
}

impl Accounts {
    /// What follows the right password of this account.
    pub(super) fn after_password(&self, account: Account) -> SignInStep {
        match &account.two_factor {
            None => SignInStep::Done(account),
            Some(_) => {
                SignInStep::Code { ticket: self.two_factor.ticket(&account, self.clock.now()) }
            }
        }
    }

    /// The account of a ticket, if the code is that of its app or one of its recovery codes. A code
    /// is accepted once. Attempts count as those with a password, and by account; a successful one
    /// does not. `SignInOver` if the password must be given again.
    pub async fn check_code(
        &self,
        address: IpAddr,
        ticket: &str,
        code: &str,
    ) -> Result<Account, AccountError> {
        let ticket = self.two_factor.read_ticket(ticket, self.clock.now());
        let (id, revision) = ticket.ok_or(AccountError::SignInOver)?;
        let account = self.registry.account(id).await?;
        let account = account.filter(|account| account.revision == revision);
        let account = account.ok_or(AccountError::SignInOver)?;
        let attempt = self.limits.sign_in(address, Some(account.name.as_str())).await?;
        self.limits.try_code(id.0).await?;
        let used =
            self.use_code(&account, code).ok_or(AccountError::WrongCode { field: "code" })?;
        let signed_in = match self.change(&account, used, self.by(id, None)).await {
            Err(AccountError::Registry(RegistryError::Conflict)) => {
                return Err(AccountError::SignInOver);
            }
            signed_in => signed_in?,
        };
        self.limits.succeeded(attempt).await;
        self.limits.right_code(id.0).await;
        Ok(signed_in)
    }

    /// The change that uses a code up; `None` if the code is wrong or was used.
    fn use_code(&self, account: &Account, code: &str) -> Option<AccountChange> {
        let mut two_factor = account.two_factor.clone()?;
        let code: String = code.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        let step = self.two_factor.step_of(account, &two_factor.seed, &code, self.clock.now());
        if let Some(step) = step.filter(|step| *step > two_factor.last_step) {
            two_factor.last_step = step;
        } else {
            let token = BearerSecret::presented(&code.to_ascii_lowercase())?;
            let place = two_factor.recovery.iter().position(|one| *one == token)?;
            two_factor.recovery.remove(place);
        }
        Some(AccountChange { two_factor: Some(Some(two_factor)), ..AccountChange::default() })
    }

    /// A secret for an account: a new one, or that of an earlier offer by its seed. `issuer` is the
    /// name of the server in the app.
    pub fn offer_two_factor(
        &self,
        account: &Account,
        issuer: &str,
        seed: Option<&str>,
    ) -> Result<TwoFactorOffer, AccountError> {
        let seed = match seed.and_then(TotpSeed::parse) {
            Some(seed) => seed,
            None => {
                let mut random = [0; 16];
                getrandom::fill(&mut random)?;
                TotpSeed(random)
            }
        };
        let secret = self.two_factor.shown_secret(account, &seed);
        let url = otpauth_url(issuer, account.name.as_str(), &secret);
        Ok(TwoFactorOffer { seed: seed.to_text(), secret, url })
    }

    /// Turns two-factor sign-in on, in the account's own session: with the password, so that a
    /// session left open is not enough, and a code, which shows that the app has the secret.
    /// Returns the recovery codes, shown once.
    pub async fn turn_on_two_factor(
        &self,
        account: &Account,
        seed: &str,
        password: String,
        code: &str,
    ) -> Result<(Account, Vec<String>), AccountError> {
        if account.two_factor.is_some() {
            return Err(AccountError::forbidden("two-factor sign-in is already on"));
        }
        if account.password.is_none() {
            return Err(AccountError::forbidden("an account without a password has no use for it"));
        }
        self.prove(account, password, "password").await?;
        let wrong = || AccountError::WrongCode { field: "code" };
        let seed = TotpSeed::parse(seed).ok_or_else(wrong)?;
        let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
        let step = self.two_factor.step_of(account, &seed, &code, self.clock.now());
        let last_step = step.ok_or_else(wrong)?;
        let codes = (0..RECOVERY_CODES).map(|_| recovery_code()).collect::<Result<Vec<_>, _>>()?;
        let recovery = codes.iter().map(|code| hash(code)).collect();
        let two_factor = Some(Some(TwoFactor { seed, last_step, recovery }));
        let change = AccountChange { two_factor, ..AccountChange::default() };
        let changed = self.change(account, change, self.by(account.id, None)).await?;
        Ok((changed, codes))
    }

    /// Turns two-factor sign-in off, in the account's own session, with the password, a code or a
    /// recovery code. Codes of an app count as at sign-in.
    pub async fn turn_off_two_factor(
        &self,
        account: &Account,
        proof: String,
    ) -> Result<Account, AccountError> {
        if account.two_factor.is_none() {
            return Ok(account.clone());
        }
        self.limits.prove(account.id.0).await?;
        let is_code = is_app_code(&proof);
        if is_code {
            self.limits.try_code(account.id.0).await?;
        }
        let is_right = self.use_code(account, &proof).is_some()
            || self.passwords.verify(proof, account.password.clone()).await?;
        if !is_right {
            let detail = "this is neither your password nor a valid code";
            return Err(AccountError::forbidden(detail).on("proof"));
        }
        if is_code {
            self.limits.right_code(account.id.0).await;
        }
        let change = AccountChange { two_factor: Some(None), ..AccountChange::default() };
        self.change(account, change, self.by(account.id, None)).await
    }

    /// Turns two-factor sign-in of another account off, whose holder lost the device. Only for
    /// admins, and not for the own account in a session. Does nothing if it is off.
    pub async fn remove_two_factor(
        &self,
        principal: &Principal,
        id: OwnerId,
    ) -> Result<Account, AccountError> {
        principal.require(Role::Admin)?;
        refuse_own_session(principal, id)?;
        let account = self.find(id).await?;
        let change = AccountChange { two_factor: Some(None), ..AccountChange::default() };
        self.change(&account, change, self.by(principal.owner(), None)).await
    }
}

/// Whether a text is six digits, as the codes of apps are, however it is spaced.
fn is_app_code(text: &str) -> bool {
    let mut code = text.chars().filter(|c| !c.is_whitespace() && *c != '-');
    code.by_ref().take(6).filter(char::is_ascii_digit).count() == 6 && code.next().is_none()
}

/// A fresh recovery code, in groups of four.
fn recovery_code() -> Result<String, getrandom::Error> {
    let mut random = [0_u8; RECOVERY_LEN];
    getrandom::fill(&mut random)?;
    let letter = |byte: &u8| char::from(ALPHABET[usize::from(byte % 32)]);
    let groups = random.chunks(4).map(|group| group.iter().map(letter).collect::<String>());
    Ok(groups.collect::<Vec<_>>().join("-"))
}

/// The stored hash of a recovery code. A fast hash is enough for 80 random bits.
fn hash(code: &str) -> SecretHash {
    BearerSecret::hash(&code.replace('-', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_codes_are_random_and_plain() {
        let codes: std::collections::HashSet<String> =
            (0..1000).map(|_| recovery_code().unwrap()).collect();
        assert_eq!(codes.len(), 1000);
        for code in &codes {
            assert_eq!(code.split('-').map(str::len).collect::<Vec<_>>(), [4; 4], "{code}");
            assert!(code.bytes().all(|byte| byte == b'-' || ALPHABET.contains(&byte)), "{code}");
        }
        assert_eq!(ALPHABET.iter().collect::<std::collections::HashSet<_>>().len(), 32);
    }
}
