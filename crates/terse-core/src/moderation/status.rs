//! Setting the moderation status of a link.

use serde_json::{Value, json};

use super::{Moderation, ModerationError};
use crate::link::{Link, LinkKey, ModerationStatus};
use crate::links::{Caller, LinkError, moderation_json};
use crate::patch::LinkPatch;
use crate::principal::Principal;
use crate::registry::{AuditAction, ReportState, Role, subject};
use crate::screening::REPORTED;

/// How often the service tries again when concurrent changes win.
const ATTEMPTS: u32 = 8;

impl Moderation {
    /// Writes the decision to the audit log, sets the moderation status of the link and settles its
    /// open reports: as confirmed if it is blocked, as cleared if it is cleared.
    pub async fn set_status(
        &self,
        principal: &Principal,
        key: &LinkKey,
        status: ModerationStatus,
        why: Option<String>,
    ) -> Result<Link, ModerationError> {
        principal.require(Role::Moderator)?;
        let link = self.decide(principal, key, status, why.clone()).await?;
        let settled = match status {
            ModerationStatus::Clear => ReportState::Cleared,
            ModerationStatus::Blocked => ReportState::Confirmed,
            ModerationStatus::Suspicious => return Ok(link),
        };
        let by = self.by(principal.owner(), why);
        self.registry.settle_reports(None, key, link.created_at, settled, by).await?;
        Ok(link)
    }

    async fn decide(
        &self,
        principal: &Principal,
        key: &LinkKey,
        status: ModerationStatus,
        why: Option<String>,
    ) -> Result<Link, ModerationError> {
        let patch = LinkPatch { moderation: Some(status), ..LinkPatch::default() };
        let mut noted = None;
        for _ in 0..ATTEMPTS {
            let link = self.links.get(Caller::OPERATOR, key).await?;
            let (before, after) = (moderation_json(&link), recorded_after(&link, status));
            if before == after {
                return Ok(link);
            }
            // A concurrent change of, say, the title does not need a second record.
            if noted.as_ref() != Some(&before) {
                let change = (Some(before.to_string()), Some(after.to_string()));
                let by = self.by(principal.owner(), why.clone());
                let subject = subject::link(key);
                self.registry.record(AuditAction::LinkModerated, &subject, change, by).await?;
                noted = Some(before);
            }
            match self.links.patch(Caller::OPERATOR, key, &patch, Some(link.revision)).await {
                Err(LinkError::Conflict) => {}
                changed => return Ok(changed?),
            }
        }
        Err(LinkError::Conflict.into())
    }
}

fn recorded_after(link: &Link, status: ModerationStatus) -> Value {
    let stays = |flag: &&str| status != ModerationStatus::Clear || *flag != REPORTED;
    let flags: Vec<&str> = link.flags.iter().filter(stays).collect();
    json!({ "standing": status.as_str(), "judged_by": "moderator", "flags": flags })
}
