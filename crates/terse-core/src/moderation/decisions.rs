//! Decisions about reported links.

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
    /// Clear the link of all reports.
    Clear,
    /// Suspend the link's owner.
    SuspendOwner,
}

impl Moderation {
    /// Carries out a decision about the link that was created at this time. A later link with the
    /// same code is not the reported one: then nothing changes, and the link is `NotFound`.
    pub async fn decide_report(
        &self,
        principal: &Principal,
        (key, created_at): (&LinkKey, Timestamp),
        decision: ReportDecision,
        why: String,
    ) -> Result<(), ModerationError> {
        principal.require(Role::Moderator)?;
        let link = self.links.preview(key).await?;
        if link.is_none_or(|link| link.created_at != created_at) {
            return Err(LinkError::NotFound.into());
        }
        let status = match decision {
            ReportDecision::Block => ModerationStatus::Blocked,
            ReportDecision::Clear => ModerationStatus::Clear,
            ReportDecision::SuspendOwner => {
                return self.suspend_owner(principal, key, why).await.map(|_| ());
            }
        };
        self.set_status(principal, key, status, Some(why)).await.map(|_| ())
    }
}
