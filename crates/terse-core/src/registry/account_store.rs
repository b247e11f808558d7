//! Accounts.

use async_trait::async_trait;

use super::account::{Account, AccountChange, AccountName, NewAccount, OidcIdentity};
use super::audit::Attribution;
use super::key::SecretHash;
use super::store::RegistryError;
use crate::link::{OwnerId, Revision};

/// The id of the first account. Ids below it belong to anonymous links, to the operator, and to
/// future uses.
pub const FIRST_ACCOUNT: OwnerId = OwnerId(1000);

/// A change of an account, and the state it applies to.
#[derive(Clone)]
pub struct ConditionalAccountChange {
    /// The account.
    pub id: OwnerId,
    /// What changes.
    pub change: AccountChange,
    /// Only at this revision, if given.
    pub expected: Option<Revision>,
}

/// Accounts of owners.
#[async_trait]
pub trait AccountStore: Send + Sync + 'static {
    /// Adds an account with an id that no account ever had, from [`FIRST_ACCOUNT`] upwards.
    /// `NameTaken` also if the name differs only by case, or if another account has the identity.
    async fn add_account(
        &self,
        account: NewAccount,
        by: Attribution,
    ) -> Result<Account, RegistryError>;

    /// An account by its id.
    async fn account(&self, id: OwnerId) -> Result<Option<Account>, RegistryError>;

    /// An account by its name, in any case.
    async fn account_by_name(&self, name: &AccountName) -> Result<Option<Account>, RegistryError>;

    /// An account by its identity at another provider.
    async fn account_by_identity(
        &self,
        identity: &OidcIdentity,
    ) -> Result<Option<Account>, RegistryError>;

    /// The account whose reset link has this token, expired or not.
    async fn account_by_reset(&self, token: &SecretHash) -> Result<Option<Account>, RegistryError>;

    /// Up to `limit` accounts after `after`, the oldest first.
    async fn accounts(
        &self,
        after: Option<OwnerId>,
        limit: usize,
    ) -> Result<Vec<Account>, RegistryError>;

    /// Changes an account and returns it as it is now. Refuses to remove the last admin who is not
    /// suspended (`LastAdmin`). A new password, a lesser role and a suspension end all its sessions
    /// and its reset link in the same step. Suspending and reinstating have audit records of their
    /// own and change the version. The use of a code of an authenticator app has none.
    async fn change_account(
        &self,
        change: ConditionalAccountChange,
        by: Attribution,
    ) -> Result<Account, RegistryError>;

    /// Erases an account with its keys, sessions, invitations and webhooks; `LastAdmin` as above.
    /// Its id and its audit records stay; its name is free again and is removed from the records
    /// about it. Its reports stay too, without their text and its id. Changes the version if the
    /// account was suspended.
    async fn erase_account(&self, id: OwnerId, by: Attribution) -> Result<(), RegistryError>;

    /// All suspended accounts.
    async fn suspended(&self) -> Result<Vec<OwnerId>, RegistryError>;
}
