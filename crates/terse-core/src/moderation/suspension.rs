//! Suspending the owner of a link.

use super::{Moderation, ModerationError};
use crate::accounts::Accounts;
use crate::link::{LinkKey, OwnerId};
use crate::links::Caller;
use crate::principal::Principal;
use crate::registry::{Account, Role};

impl Moderation {
    /// Suspends the owner of a link, by the rule of [`Accounts::may_suspend`]. An owner who is
    /// suspended already keeps the suspension and its reason.
    pub async fn suspend_owner(
        &self,
        principal: &Principal,
        key: &LinkKey,
        why: String,
    ) -> Result<Account, ModerationError> {
        principal.require(Role::Moderator)?;
        let link = self.links.get(Caller::OPERATOR, key).await?;
        if link.owner == OwnerId::ADMIN {
            return Err(ModerationError::OperatorsLink);
        }
        let owner = self.registry.account(link.owner).await?.ok_or(ModerationError::NoOwner)?;
        Accounts::may_suspend(principal, &owner)?;
        if owner.suspended.is_some() {
            return Ok(owner);
        }
        Ok(self.accounts.suspend(principal, owner.id, why).await?)
    }
}
