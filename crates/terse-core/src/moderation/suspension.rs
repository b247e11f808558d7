//! Suspending the owner of a link.

use super::{Moderation, ModerationError};
use crate::accounts::Accounts;
use crate::link::{Link, LinkKey, OwnerId};
use crate::links::{Caller, LinkError};
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

    /// Whether the owner of a link is suspended.
    pub(super) async fn owner_is_suspended(&self, link: &Link) -> Result<bool, ModerationError> {
        let owner = self.registry.account(link.owner).await?;
        Ok(owner.is_some_and(|owner| owner.suspended.is_some()))
    }

    /// A link as it is stored: `preview` shows those of a suspended owner as blocked. Only for
    /// moderators and admins.
    pub async fn link(
        &self,
        principal: &Principal,
        key: &LinkKey,
    ) -> Result<Option<Link>, ModerationError> {
        principal.require(Role::Moderator)?;
        match self.links.get(Caller::OPERATOR, key).await {
            Err(LinkError::NotFound) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// The owner of a link; `None` for a link without an account. Only for moderators and admins.
    pub async fn owner_of(
        &self,
        principal: &Principal,
        link: &Link,
    ) -> Result<Option<Account>, ModerationError> {
        principal.require(Role::Moderator)?;
        Ok(self.registry.account(link.owner).await?)
    }
}
