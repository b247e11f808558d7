//! What every handler is given.

use std::sync::Arc;

use axum::extract::State;
use terse_core::clicks::{ClickStore, Live};
use terse_core::registry::{Actor, Attribution, Registry};
use terse_core::rules::VisitorClassifier;
use terse_core::{Links, OwnerId};
use tokio::sync::watch;

use crate::accounts::Accounts;
use crate::keys::Keys;
use crate::limits::Limits;
use crate::passwords::Passwords;
use crate::registry_refresh::RegistryRefresh;
use crate::stats::ApiStats;
use crate::used_keys::UsedKeys;
use crate::webhooks::Webhooks;

/// What the web side is made of.
#[derive(Clone)]
pub struct AppState {
    /// The rules and the store behind them.
    pub links: Arc<Links>,
    /// The keys of whoever runs this server.
    pub keys: Keys,
    /// Owners, their keys and sessions.
    pub registry: Arc<dyn Registry>,
    /// To be rung after a change of the registry that visitors should feel: who is suspended, which
    /// domains there are.
    pub registry_refresh: RegistryRefresh,
    /// Hashes and checks passwords.
    pub passwords: Passwords,
    /// How people come to have an account.
    pub accounts: Accounts,
    /// Where it is noted that a key was used.
    pub used_keys: Arc<UsedKeys>,
    /// Looks closer at visitors, where rules are tried on them.
    pub classifier: Arc<dyn VisitorClassifier>,
    /// Seals list cursors. The same on every node of a fleet, so that any of them can go on with a
    /// list.
    pub cursor_key: [u8; 32],
    /// Signs the passes of visitors who knew a link's password. The same on every node of a fleet.
    pub pass_key: [u8; 32],
    /// Tells reporters apart without keeping who they are. The same on every node of a fleet.
    pub reporter_key: [u8; 32],
    /// How often links may be made.
    pub limits: Limits,
    /// Where to count.
    pub stats: Arc<ApiStats>,
    /// Where clicks are counted.
    pub clicks: Arc<dyn ClickStore>,
    /// Where counted clicks are made known.
    pub live: Arc<Live>,
    /// Webhooks; `None` where they are switched off.
    pub webhooks: Option<Webhooks>,
    /// True once the server stops: answers without an end of their own end then.
    pub stop: watch::Receiver<bool>,
}

impl AppState {
    /// Whose act something is, for the audit log: this owner's, now.
    pub(crate) fn by(&self, owner: OwnerId, why: Option<String>) -> Attribution {
        Attribution { actor: Actor::Owner(owner), at: self.links.now(), why }
    }
}

/// What every handler is given.
pub(crate) type Web = State<Arc<AppState>>;
