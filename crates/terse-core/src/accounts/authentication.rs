//! Proving who a caller is: API keys, sessions, passwords.

use std::net::IpAddr;

use super::{AccountError, Accounts, BearerSecret, SignInStep};
use crate::principal::{Credential, Principal};
use crate::registry::{Account, AccountName, Scope, SecretHash};

/// A browser session and its account.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// The hash of the cookie.
    pub token: SecretHash,
    /// The account.
    pub account: Account,
}

impl Accounts {
    /// The principal of an API key, and notes that the key was used.
    pub async fn by_key(&self, key: &str) -> Result<Principal, AccountError> {
        let token = BearerSecret::presented(key).ok_or(AccountError::UnknownKey)?;
        let found = self.registry.key(&token).await?;
        let (key, account) = found.ok_or(AccountError::UnknownKey)?;
        let now = self.clock.now();
        if key.expires_at.is_some_and(|at| at <= now) {
            return Err(AccountError::ExpiredKey);
        }
        if account.suspended.is_some() {
            return Err(AccountError::Suspended);
        }
        self.key_use.note(key.id, now);
        let plan = key.plan.as_deref().and_then(|plan| plan.parse().ok());
        Ok(Principal::of_account(&account, key.scope, Credential::Key { id: key.id, plan }))
    }

    /// The session of a cookie, whether its account is suspended or not. `None` if it has ended.
    pub async fn session(&self, cookie: &str) -> Result<Option<SignedIn>, AccountError> {
        let Some(token) = BearerSecret::presented(cookie) else { return Ok(None) };
        let found = self.registry.session(&token, self.clock.now()).await?;
        Ok(found.map(|(_, account)| SignedIn { token, account }))
    }

    /// The principal of a session.
    pub fn principal(&self, session: &SignedIn) -> Result<Principal, AccountError> {
        let SignedIn { token, account } = session;
        if account.suspended.is_some() {
            return Err(AccountError::Suspended);
        }
        Ok(Principal::of_account(account, Scope::Full, Credential::Session(*token)))
    }

    /// Signs in with a name and a password, or finds that a code is needed too. A wrong name takes
    /// as long as a wrong password and gets the same answer. Attempts count by address and by name,
    /// whether or not an account has it; a successful one does not count.
    pub async fn check_password(
        &self,
        address: IpAddr,
        name: &str,
        password: String,
    ) -> Result<SignInStep, AccountError> {
        let attempt = self.limits.sign_in(address, Some(name)).await?;
        let account = match AccountName::parse(name) {
            Some(name) => self.registry.account_by_name(&name).await?,
            None => None,
        };
        let kept = account.as_ref().and_then(|account| account.password.clone());
        let right = self.passwords.verify(password, kept).await?;
        let account = account.filter(|_| right).ok_or(AccountError::WrongCredentials)?;
        self.limits.succeeded(attempt).await;
        Ok(self.after_password(account))
    }

    /// Checks that the caller of a session or key knows the account's password, so that a session
    /// left open is not enough. Attempts count by account.
    pub(super) async fn prove(
        &self,
        account: &Account,
        password: String,
        field: &'static str,
    ) -> Result<(), AccountError> {
        self.limits.prove(account.id.0).await?;
        match self.passwords.verify(password, account.password.clone()).await? {
            true => Ok(()),
            false => Err(AccountError::WrongPassword { field }),
        }
    }
}
