//! Suspending and reinstating accounts.

use super::{AccountError, Accounts};
use crate::link::OwnerId;
use crate::principal::Principal;
use crate::registry::{Account, AccountChange, Role, Suspension};

impl Accounts {
    /// The one rule: moderators and admins suspend and reinstate accounts, never their own, and
    /// only an admin does so to a moderator or an admin.
    pub fn may_suspend(principal: &Principal, account: &Account) -> Result<(), AccountError> {
        principal.require(Role::Moderator)?;
        if account.id == principal.owner() {
            return Err(AccountError::forbidden("you cannot suspend or reinstate yourself"));
        }
        if account.role > Role::User && principal.role < Role::Admin {
            let detail = "only an admin suspends or reinstates a moderator or an admin";
            return Err(AccountError::forbidden(detail));
        }
        Ok(())
    }

    /// Suspends an account: its links, keys and sessions stop working. If it is suspended already,
    /// it keeps its start time and gets the new reason.
    pub async fn suspend(
        &self,
        principal: &Principal,
        id: OwnerId,
        why: String,
    ) -> Result<Account, AccountError> {
        let account = self.find(id).await?;
        Self::may_suspend(principal, &account)?;
        let suspended = Some(Some(self.suspension(&account, why.clone())));
        let change = AccountChange { suspended, ..AccountChange::default() };
        self.change(&account, change, self.by(principal.owner(), Some(why))).await
    }

    /// Reinstates an account: its links and keys work again.
    pub async fn reinstate(
        &self,
        principal: &Principal,
        id: OwnerId,
        why: Option<String>,
    ) -> Result<Account, AccountError> {
        let account = self.find(id).await?;
        Self::may_suspend(principal, &account)?;
        let change = AccountChange { suspended: Some(None), ..AccountChange::default() };
        self.change(&account, change, self.by(principal.owner(), why)).await
    }

    pub(super) fn suspension(&self, account: &Account, why: String) -> Suspension {
        let since = account.suspended.as_ref().map(|suspension| suspension.at);
        Suspension { at: since.unwrap_or_else(|| self.clock.now()), why }
    }
}
