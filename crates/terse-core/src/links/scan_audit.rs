//! The audit records of automatic decisions: blocks and warnings by lists, flags and reports.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::Links;
use crate::link::{Link, ModerationSource, ModerationStatus};
use crate::registry::{
    Actor, Attribution, AuditAction, AuditEntry, AuditLog, AuditQuery, RegistryError, subject,
};
use crate::screening::{ListMatch, ListStatus, REPORTED, UNREACHABLE};
use crate::store::StoreError;
use crate::target::Target;

/// The shortest time between two records about changes of one link by its owner, who can change the
/// target back and forth any number of times.
const OWNER_INTERVAL: Duration = Duration::from_hours(1);

/// Keeps no records: for programs without a registry.
pub(super) struct NoAudit;

#[async_trait]
impl AuditLog for NoAudit {
    async fn record(
        &self,
        _act: AuditAction,
        _subject: &str,
        _change: (Option<String>, Option<String>),
        _by: Attribution,
    ) -> Result<(), RegistryError> {
        Ok(())
    }

    async fn audit(&self, _query: &AuditQuery) -> Result<Vec<AuditEntry>, RegistryError> {
        Ok(Vec::new())
    }
}

/// The change that a record describes, so that a repeated attempt does not write it twice.
#[derive(Default)]
pub(super) struct RecordedChange(Option<(Value, Value)>);

impl Links {
    /// The same, with a log of automatic decisions.
    pub fn audited_by(self, audit: Arc<dyn AuditLog>) -> Self {
        Self { audit, ..self }
    }

    /// The entry of a list for which the screening blocked a link or put a warning before it, as
    /// far as the current lists tell. For moderators: its name would help to evade a list.
    pub fn list_match(&self, link: &Link) -> Option<ListMatch> {
        if link.moderated_by != ModerationSource::Screen
            || link.moderation == ModerationStatus::Clear
        {
            return None;
        }
        link.targets().find_map(|target| self.screen.list_match(target, link.moderation))
    }

    /// The entry of a list that names a canonical host, for links to it with this status.
    pub(crate) fn host_match(&self, host: &str, status: ModerationStatus) -> Option<ListMatch> {
        let target = Target::parse(&format!("http://{host}/"), &self.rules.targets).ok()?;
        // A list names the block of a link also while a service has no answer about its target.
        if status == ModerationStatus::Blocked && !self.screen.blocks(&target) {
            return None;
        }
        self.screen.list_match(&target, status)
    }

    /// The lists that targets are compared with.
    pub(crate) fn screen_lists(&self) -> Vec<ListStatus> {
        self.screen.lists()
    }

    /// Records an automatic decision before it is written: a crash in between can leave a record
    /// without its decision, but never a decision without its record.
    pub(super) async fn note_scan(
        &self,
        old: &Link,
        new: &Link,
        noted: &mut RecordedChange,
    ) -> Result<(), StoreError> {
        if !is_decision(old, new) {
            return Ok(());
        }
        let change = (moderation_json(old), self.scan_json(new));
        if noted.0.as_ref() == Some(&change) {
            return Ok(());
        }
        let unavailable = |error: RegistryError| StoreError::Unavailable(error.into());
        if !has_new_target(old, new) || !self.was_noted(old, new).await.map_err(unavailable)? {
            let why = match has_new_target(old, new) {
                true if old.moderated_by == ModerationSource::Moderator => {
                    "the owner changed the target, so the moderator's decision no longer applies; "
                }
                true => "the owner changed the target; ",
                false => "",
            };
            let why = format!("{why}{}", reason(new, &change.1));
            let written = self.write_scan(new, Some(&change.0), &change.1, why).await;
            written.map_err(unavailable)?;
        }
        noted.0 = Some(change);
        Ok(())
    }

    /// Whether the log has a recent record that says the same after a change by the owner.
    async fn was_noted(&self, old: &Link, new: &Link) -> Result<bool, RegistryError> {
        if old.moderated_by != new.moderated_by {
            return Ok(false);
        }
        let (subject, action) = (Some(subject::link(&new.key)), Some(AuditAction::LinkScreened));
        let query = AuditQuery { subject, action, limit: 1, before: None };
        let since = self.clock.now().saturating_sub(OWNER_INTERVAL);
        let last = self.audit.audit(&query).await?.into_iter().next();
        Ok(last.filter(|last| last.at > since).is_some_and(|last| {
            let after = last.after.as_deref().and_then(|text| serde_json::from_str(text).ok());
            after.is_some_and(|after: Value| after["standing"] == new.moderation.as_str())
        }))
    }

    /// Records that a new link begins with a warning. After the link is written: only then does
    /// its code belong to it. The link stays if the registry fails.
    pub(super) async fn note_created(&self, link: &Link) {
        if link.moderation == ModerationStatus::Clear {
            return;
        }
        let after = self.scan_json(link);
        // The log of the program reports a failure.
        let _ = self.write_scan(link, None, &after, reason(link, &after)).await;
    }

    async fn write_scan(
        &self,
        link: &Link,
        before: Option<&Value>,
        after: &Value,
        why: String,
    ) -> Result<(), RegistryError> {
        let change = (before.map(Value::to_string), Some(after.to_string()));
        let by = Attribution { actor: Actor::Terse, at: self.clock.now(), why: Some(why) };
        self.audit.record(AuditAction::LinkScreened, &subject::link(&link.key), change, by).await
    }

    /// The status of a link and the list that decided.
    fn scan_json(&self, link: &Link) -> Value {
        let mut json = moderation_json(link);
        if let Some(ListMatch { list, kind }) = self.list_match(link) {
            json["list"] = list.into();
            json["entry"] = kind.as_str().into();
        }
        json
    }
}

/// A link's status, as the audit log records it.
pub(crate) fn moderation_json(link: &Link) -> Value {
    let flags: Vec<&str> = link.flags.iter().collect();
    json!({
        "standing": link.moderation.as_str(), "judged_by": link.moderated_by.as_str(),
        "flags": flags
    })
}

/// Whether the screening decided something new: another status, or other reasons for a warning. If
/// the owner changed the target, only if the link got a warning or a block, or if a moderator's
/// decision no longer applies.
fn is_decision(old: &Link, new: &Link) -> bool {
    let reasons = |link: &Link| link.flags.without(UNREACHABLE);
    let differs = new.moderation != old.moderation
        || (new.moderation == ModerationStatus::Suspicious && reasons(new) != reasons(old));
    let counts = !has_new_target(old, new) || new.moderation != ModerationStatus::Clear;
    new.moderated_by == ModerationSource::Screen
        && (new.moderated_by != old.moderated_by || (differs && counts))
}

fn has_new_target(old: &Link, new: &Link) -> bool {
    old.target != new.target || old.rules != new.rules
}

/// The reason in a sentence for moderators.
fn reason(link: &Link, recorded: &Value) -> String {
    let mut reasons = Vec::new();
    if let (Some(list), Some(kind)) = (recorded["list"].as_str(), recorded["entry"].as_str()) {
        reasons.push(format!("the target is on the list {list}, by its {kind}"));
    }
    match link.moderation {
        ModerationStatus::Clear => return "nothing is found any more".to_owned(),
        ModerationStatus::Blocked if reasons.is_empty() => {
            reasons.push("the target is blocked".to_owned());
        }
        ModerationStatus::Blocked => {}
        ModerationStatus::Suspicious => {
            if link.flags.contains(REPORTED) {
                reasons.push("several visitors have reported the link".to_owned());
            }
            let flags = link.flags.without(REPORTED).without(UNREACHABLE);
            if !flags.is_empty() {
                reasons.push(format!("flags: {}", flags.iter().collect::<Vec<_>>().join(", ")));
            }
        }
    }
    reasons.join("; ")
}
