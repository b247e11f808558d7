//! Decisions about reported links, and what takes each back.

use super::{Moderation, ModerationError};
use crate::link::{LinkKey, ModerationStatus};
use crate::links::LinkError;
use crate::principal::Principal;
use crate::registry::Role;
use crate::time::Timestamp;

/// What a moderator decides about a reported link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReportDecision {
    /// Block the link.
    Block,
    /// Show visitors a warning first.
    Warn,
    /// Clear the link of all reports.
    Clear,
    /// Suspend the link's owner.
    SuspendOwner,
    /// Reinstate the link's owner.
    ReinstateOwner,
}

impl ReportDecision {
    /// The decision that leads to this moderation status.
    fn leading_to(status: ModerationStatus) -> Self {
        match status {
            ModerationStatus::Clear => Self::Clear,
            ModerationStatus::Suspicious => Self::Warn,
            ModerationStatus::Blocked => Self::Block,
        }
    }
}

impl Moderation {
    /// Carries out a decision about the link that was created at this time. A later link with the
    /// same code is not the reported one: then nothing changes, and the link is `NotFound`.
    ///
    /// Returns the decision that takes this one back, or `None` if the link and its owner were
    /// already as decided. Reports that a decision settles stay settled.
    pub async fn decide_report(
        &self,
        principal: &Principal,
        (key, created_at): (&LinkKey, Timestamp),
        decision: ReportDecision,
        why: String,
    ) -> Result<Option<ReportDecision>, ModerationError> {
        principal.require(Role::Moderator)?;
        let Some(link) = self.reports.link(key, created_at).await? else {
            return Err(LinkError::NotFound.into());
        };
        let status = match decision {
            ReportDecision::Block => ModerationStatus::Blocked,
            ReportDecision::Warn => ModerationStatus::Suspicious,
            ReportDecision::Clear => ModerationStatus::Clear,
            ReportDecision::SuspendOwner => {
                let was_suspended = self.owner_is_suspended(&link).await?;
                self.suspend_owner(principal, key, why).await?;
                return Ok((!was_suspended).then_some(ReportDecision::ReinstateOwner));
            }
            ReportDecision::ReinstateOwner => {
                let was_suspended = self.owner_is_suspended(&link).await?;
                self.accounts.reinstate(principal, link.owner, Some(why)).await?;
                return Ok(was_suspended.then_some(ReportDecision::SuspendOwner));
            }
        };
        let before = link.moderation;
        self.set_status(principal, key, status, Some(why)).await?;
        Ok((before != status).then(|| ReportDecision::leading_to(before)))
    }
}
