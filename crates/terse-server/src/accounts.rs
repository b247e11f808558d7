//! How people come to have an account, and how long their browsers stay signed in.

use std::sync::Arc;
use std::time::Duration;

use crate::oidc::Oidc;

/// What the operator has decided about accounts.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// Whether anybody may make one. Otherwise it takes an invitation.
    pub open: bool,
    /// How long a browser stays signed in.
    pub session_ttl: Duration,
    /// Who else vouches for people.
    pub oidc: Option<Arc<Oidc>>,
}

impl Accounts {
    /// What people call the provider they can sign in with.
    pub(crate) fn provider(&self) -> Option<String> {
        self.oidc.as_ref().map(|oidc| oidc.settings().name.clone())
    }

    /// A month, and nobody comes uninvited.
    pub fn closed() -> Self {
        Self { open: false, session_ttl: Duration::from_secs(30 * 86_400), oidc: None }
    }
}
