//! Browser sessions.

use std::time::Duration;

use super::{AccountError, Accounts, BearerSecret};
use crate::principal::{Credential, Principal};
use crate::registry::{Account, SecretHash, Session};
use crate::time::Timestamp;

/// The cookie of a new session.
#[derive(Clone)]
pub struct SessionSecret {
    /// The value of the cookie.
    pub secret: String,
    /// How long it is valid.
    pub ttl: Duration,
}

impl Accounts {
    /// Begins a session of an account that has just authenticated, and ends the browser's earlier
    /// one, so that a cookie planted before the sign-in is worthless. `Suspended` if the account is
    /// suspended. `browser` names it in the list of sessions.
    pub async fn begin_session(
        &self,
        account: &Account,
        before: Option<&str>,
        browser: Option<String>,
    ) -> Result<SessionSecret, AccountError> {
        let secret = BearerSecret::session()?;
        let (created_at, ttl) = (self.clock.now(), self.policy.session_ttl);
        let expires_at = created_at.checked_add(ttl).unwrap_or(Timestamp::MAX);
        let (token, owner) = (secret.token(), account.id);
        let session = Session { token, owner, created_at, expires_at, browser };
        match self.registry.add_session(session, account.revision).await {
            Err(crate::registry::RegistryError::Missing) => return Err(AccountError::Suspended),
            begun => begun?,
        }
        if let Some(token) = before.and_then(BearerSecret::presented) {
            self.registry.end_session(&token).await?;
        }
        Ok(SessionSecret { secret: secret.reveal(), ttl })
    }

    /// Ends the session of a cookie. Ending it again changes nothing.
    pub async fn end_session(&self, cookie: &str) -> Result<(), AccountError> {
        match BearerSecret::presented(cookie) {
            Some(token) => Ok(self.registry.end_session(&token).await?),
            None => Ok(()),
        }
    }

    /// The caller's own sessions that have not ended, the oldest first.
    pub async fn sessions(&self, principal: &Principal) -> Result<Vec<Session>, AccountError> {
        let account = self.own_account(principal).await?;
        Ok(self.registry.sessions(account.id, self.clock.now()).await?)
    }

    /// Ends the session of the caller's own account that `is_wanted` selects.
    pub async fn end_session_where(
        &self,
        principal: &Principal,
        is_wanted: impl Fn(&SecretHash) -> bool,
    ) -> Result<(), AccountError> {
        let sessions = self.sessions(principal).await?;
        let wanted = sessions.iter().find(|session| is_wanted(&session.token));
        let wanted = wanted.ok_or(AccountError::NotFound("session"))?;
        Ok(self.registry.end_session(&wanted.token).await?)
    }

    /// Ends all sessions of the caller's own account but the one that the caller uses.
    pub async fn end_other_sessions(&self, principal: &Principal) -> Result<(), AccountError> {
        let account = self.own_account(principal).await?;
        let kept = match &principal.credential {
            Credential::Session(token) => Some(token),
            _ => None,
        };
        Ok(self.registry.end_sessions(account.id, kept).await?)
    }
}
