//! Reset links: an admin makes one for an account whose password is forgotten, or its owner asks
//! for one by mail.

use std::net::IpAddr;
use std::time::Duration;

use super::profile::check_password;
use super::{AccountError, Accounts, BearerSecret, refuse_own_session};
use crate::link::OwnerId;
use crate::principal::Principal;
use crate::registry::{Account, AccountChange, PasswordReset, RegistryError, Role};
use crate::time::Timestamp;

/// How long a reset link is valid.
pub(super) const TTL: Duration = Duration::from_secs(24 * 3600);

/// A fresh token for a reset link, and what is stored of it.
pub(super) fn new_reset(now: Timestamp) -> Result<(String, PasswordReset), getrandom::Error> {
    let secret = BearerSecret::key()?;
    let expires_at = now.checked_add(TTL).unwrap_or(Timestamp::MAX);
    let reset = PasswordReset { token: secret.token(), expires_at };
    Ok((secret.reveal(), reset))
}

impl Accounts {
    /// Makes a reset link for an account and invalidates its earlier one. Returns the token for the
    /// link, shown once, and when it expires. Only for admins, and not for
    /// the own account in a session.
    pub async fn make_reset(
        &self,
        principal: &Principal,
        id: OwnerId,
    ) -> Result<(String, Timestamp), AccountError> {
        principal.require(Role::Admin)?;
        refuse_own_session(principal, id)?;
        let account = self.find(id).await?;
        if account.suspended.is_some() {
            return Err(AccountError::forbidden("this account is suspended; reinstate it first"));
        }
        let by = self.by(principal.owner(), None);
        let (secret, reset) = new_reset(by.at)?;
        let expires_at = reset.expires_at;
        let change = AccountChange { reset: Some(Some(reset)), ..AccountChange::default() };
        self.change(&account, change, by).await?;
        Ok((secret, expires_at))
    }

    /// The account that a reset link is for. `LinkOver` if the link is used, replaced or expired.
    /// Attempts count by address; one with a valid link does not.
    pub async fn reset_account(
        &self,
        address: IpAddr,
        token: &str,
    ) -> Result<Account, AccountError> {
        let attempt = self.limits.sign_in(address, None).await?;
        let account = self.by_reset(token).await?.ok_or(AccountError::LinkOver)?;
        self.limits.succeeded(attempt).await;
        Ok(account)
    }

    /// Sets a new password by a reset link, which ends all sessions of the account. `LinkOver` and
    /// attempts as above.
    pub async fn reset_password(
        &self,
        address: IpAddr,
        token: &str,
        password: String,
    ) -> Result<Account, AccountError> {
        let attempt = self.limits.sign_in(address, None).await?;
        let account = self.by_reset(token).await?.ok_or(AccountError::LinkOver)?;
        check_password(&account.name, &password)?;
        let password = Some(Some(self.hash_new(password).await?));
        let change = AccountChange { password, reset: Some(None), ..AccountChange::default() };
        match self.change(&account, change, self.by(account.id, None)).await {
            Ok(changed) => {
                self.limits.succeeded(attempt).await;
                Ok(changed)
            }
            // Another request may have used or replaced the link.
            Err(AccountError::Registry(RegistryError::Conflict))
                if self.by_reset(token).await?.is_none() =>
            {
                Err(AccountError::LinkOver)
            }
            Err(error) => Err(error),
        }
    }

    async fn by_reset(&self, token: &str) -> Result<Option<Account>, AccountError> {
        let Some(token) = BearerSecret::presented(token) else { return Ok(None) };
        let found = self.registry.account_by_reset(&token).await?;
        let now = self.clock.now();
        Ok(found.filter(|account| {
            account.suspended.is_none()
                && account.reset.as_ref().is_some_and(|reset| reset.expires_at > now)
        }))
    }
}
