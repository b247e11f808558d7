//! Credentials: the set-up link, API keys, sessions and invitations.

use async_trait::async_trait;

use super::account::{Account, NewAccount};
use super::audit::Attribution;
use super::key::{ApiKey, Invitation, KeyId, KeyUsage, NewKey, SecretHash, Session};
use super::store::RegistryError;
use crate::link::{OwnerId, Revision};
use crate::time::Timestamp;

/// How many keys an owner may have.
pub const MAX_KEYS_PER_OWNER: usize = 100;
/// How many sessions an owner may have.
pub const MAX_SESSIONS_PER_OWNER: usize = 50;

/// Credentials of owners and programs. Only hashes of secrets are stored.
#[async_trait]
pub trait CredentialStore: Send + Sync + 'static {
    /// Stores the token of the one-time set-up link in place of an earlier one. Does nothing and
    /// returns `false` if there has ever been an admin.
    async fn offer_setup(&self, token: SecretHash) -> Result<bool, RegistryError>;

    /// Adds the first admin, if the token is the one that was offered. After that, or once an admin
    /// was added in another way, the token is `Missing`. The audit record names the new account as
    /// its actor.
    async fn take_setup(
        &self,
        token: &SecretHash,
        account: NewAccount,
    ) -> Result<Account, RegistryError>;

    /// Whether there is an unused set-up link.
    async fn awaits_setup(&self) -> Result<bool, RegistryError>;

    /// Whether the set-up link with this token is unused.
    async fn awaits_setup_by(&self, token: &SecretHash) -> Result<bool, RegistryError>;

    /// Adds a key. `TooMany` above [`MAX_KEYS_PER_OWNER`] per owner. `Missing` if there is no such
    /// owner.
    async fn add_key(&self, key: NewKey, by: Attribution) -> Result<ApiKey, RegistryError>;

    /// The key with this token and its owner. Returns expired keys and suspended owners too: the
    /// caller decides what the key may do.
    async fn key(&self, token: &SecretHash) -> Result<Option<(ApiKey, Account)>, RegistryError>;

    /// An owner's keys, the oldest first.
    async fn keys(&self, owner: OwnerId) -> Result<Vec<ApiKey>, RegistryError>;

    /// Revokes a key of an owner; `Missing` if the owner has no such key.
    async fn revoke_key(
        &self,
        owner: OwnerId,
        id: KeyId,
        by: Attribution,
    ) -> Result<(), RegistryError>;

    /// Adds requests to the counts of keys, and keeps the latest time of use. A key that is gone is
    /// skipped. Never changes the version.
    async fn add_key_usage(&self, used: &[KeyUsage]) -> Result<(), RegistryError>;

    /// Begins a session, if the account is still at the revision whose password or identity was
    /// checked: else `Conflict`, so that no sign-in outlives a new password. `Missing` if there is
    /// no such account or it is suspended. At most [`MAX_SESSIONS_PER_OWNER`] per owner: the oldest
    /// is ended.
    async fn add_session(&self, session: Session, seen: Revision) -> Result<(), RegistryError>;

    /// The session with this token and its account, if it has not ended by `now`.
    async fn session(
        &self,
        token: &SecretHash,
        now: Timestamp,
    ) -> Result<Option<(Session, Account)>, RegistryError>;

    /// An owner's sessions that have not ended by `now`, the oldest first.
    async fn sessions(&self, owner: OwnerId, now: Timestamp)
    -> Result<Vec<Session>, RegistryError>;

    /// Ends a session. Ending it again does nothing.
    async fn end_session(&self, token: &SecretHash) -> Result<(), RegistryError>;

    /// Ends all sessions of an owner but one.
    async fn end_sessions(
        &self,
        owner: OwnerId,
        but: Option<&SecretHash>,
    ) -> Result<(), RegistryError>;

    /// Adds an invitation. `Missing` if its author is neither the operator nor has an account.
    async fn invite(&self, invitation: Invitation, by: Attribution) -> Result<(), RegistryError>;

    /// Up to `limit` invitations that are neither used nor expired by `now`, the first to expire
    /// first.
    async fn invitations(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Invitation>, RegistryError>;

    /// Revokes an invitation; `Missing` if there is none.
    async fn revoke_invitation(
        &self,
        token: &SecretHash,
        by: Attribution,
    ) -> Result<(), RegistryError>;

    /// Adds an account by an invitation, which also sets its role, and uses the invitation up.
    /// `Missing` if the invitation is used up or expired by `account.created_at`, or while its
    /// author is suspended or has a lesser role. The audit record names the new account as its
    /// actor.
    async fn accept(
        &self,
        token: &SecretHash,
        account: NewAccount,
    ) -> Result<Account, RegistryError>;
}
