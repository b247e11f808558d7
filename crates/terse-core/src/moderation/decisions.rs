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
    /// Carries out a decision about the link that was created at this time. If it is gone, another
    /// link with its code stays as it is, and the link is `NotFound`.
    pub async fn decide_report(
        &self,
        principal: &Principal,
        (key, created_at): (&LinkKey, Timestamp),
        decision: ReportDecision,
        why: String,
    ) -> Result<(), ModerationError> {
        principal.require(Role::Moderator)?;
        if self.reports.link(key, created_at).await?.is_none() {
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
