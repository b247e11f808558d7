//! The operator's settings for accounts.

use std::sync::Arc;
use std::time::Duration;

use terse_core::accounts::AccountPolicy;

use crate::oidc::OidcProvider;

/// The operator's settings for accounts.
#[derive(Clone, Debug)]
pub struct AccountSettings {
    /// Whether anyone may sign up. Otherwise an invitation is required.
    pub open: bool,
    /// How long a browser stays signed in.
    pub session_ttl: Duration,
    /// The OpenID Connect provider that accounts can sign in with.
    pub oidc: Option<Arc<OidcProvider>>,
}

impl AccountSettings {
    /// Sign-up by invitation only, and sessions of 30 days.
    pub fn closed() -> Self {
        Self { open: false, session_ttl: Duration::from_secs(30 * 86_400), oidc: None }
    }

    pub(crate) fn policy(&self) -> AccountPolicy {
        AccountPolicy { open: self.open, session_ttl: self.session_ttl }
    }
}
