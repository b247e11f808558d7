//! The audit record of each action, the same in every registry.

use serde_json::{Value, json};

use super::account::{Account, AccountName, PasswordReset};
use super::audit::{AuditAction, AuditEntry};
use super::domain_config::{BlockedHost, DomainConfig};
use super::key::{ApiKey, Invitation};
use super::removal_alarm::RemovalAlarm;
use super::report::ReportState;
use super::webhook::Webhook;
use crate::branding::Branding;
use crate::link::{LinkKey, OwnerId};
use crate::target::Target;
use crate::time::Timestamp;

/// Replaces a redacted name.
const ERASED: &str = "[erased]";

/// Names of the objects of actions in the audit log.
pub mod subject {
    use super::{LinkKey, OwnerId};
    use crate::domain::Domain;
    use crate::registry::{KeyId, WebhookId};

    /// An account.
    pub fn account(id: OwnerId) -> String {
        format!("user:{}", id.0)
    }

    /// A key.
    pub fn key(id: KeyId) -> String {
        format!("key:{}", id.0)
    }

    /// A webhook.
    pub fn webhook(id: WebhookId) -> String {
        format!("webhook:{}", id.0)
    }

    /// A short domain.
    pub fn domain(domain: &Domain) -> String {
        format!("domain:{}", domain.as_str())
    }

    /// The look of pages.
    pub const BRANDING: &str = "branding";

    /// A removal that had stopped.
    pub fn removal(round: u64) -> String {
        format!("removal:{round}")
    }

    /// A host that links lead to.
    pub fn host(host: &str) -> String {
        format!("host:{host}")
    }

    /// A link: `link:/code` on the primary domain.
    pub fn link(link: &LinkKey) -> String {
        format!("link:{}/{}", link.domain.as_str(), link.code)
    }
}

/// A record to write, without who, when and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditRecord {
    /// What.
    pub act: AuditAction,
    /// The object of the action.
    pub subject: String,
    /// The account it is about, to find the record when that account is erased.
    pub about: Option<OwnerId>,
    /// The state before, as JSON.
    pub before: Option<String>,
    /// The state after, as JSON.
    pub after: Option<String>,
}

impl AuditRecord {
    /// An account was created, possibly by an invitation.
    pub fn user_added(account: &Account, invited_by: Option<OwnerId>) -> Self {
        let mut after = account_json(account);
        if let Some(OwnerId(by)) = invited_by {
            after["invited_by"] = by.into();
        }
        Self::about(AuditAction::UserAdded, account.id, None, Some(after))
    }

    /// An account was changed.
    pub(crate) fn account_changed(
        act: AuditAction,
        before: &Account,
        after: &Account,
        new_password: bool,
    ) -> Self {
        let mut now = account_json(after);
        if new_password && after.password.is_some() {
            now["password"] = "new".into();
        }
        Self::about(act, after.id, Some(account_json(before)), Some(now))
    }

    /// An account was erased.
    pub fn user_erased(account: &Account) -> Self {
        let mut before = account_json(account);
        let _name = clear(&mut before);
        Self::about(AuditAction::UserErased, account.id, Some(before), None)
    }

    /// A reset link of an account was made.
    pub(crate) fn reset_link_made(account: OwnerId, reset: &PasswordReset) -> Self {
        let after = json!({ "expires_at": reset.expires_at.to_string() });
        Self::about(AuditAction::ResetLinkMade, account, None, Some(after))
    }

    /// Two-factor sign-in of an account was turned on or off, or a recovery code was used.
    pub(crate) fn two_factor_changed(act: AuditAction, before: &Account, after: &Account) -> Self {
        let state = |account: &Account| {
            let left = account.two_factor.as_ref().map(|two_factor| two_factor.recovery.len());
            json!({ "two_factor": left.is_some(), "recovery_codes": left })
        };
        Self::about(act, after.id, Some(state(before)), Some(state(after)))
    }

    /// A key was created.
    pub fn key_added(key: &ApiKey) -> Self {
        let after = key_details(key);
        Self {
            subject: subject::key(key.id),
            ..Self::about(AuditAction::KeyAdded, key.owner, None, Some(after))
        }
    }

    /// A key was revoked.
    pub fn key_revoked(key: &ApiKey) -> Self {
        let before = key_details(key);
        Self {
            subject: subject::key(key.id),
            ..Self::about(AuditAction::KeyRevoked, key.owner, Some(before), None)
        }
    }

    /// A webhook was created.
    pub fn webhook_added(webhook: &Webhook) -> Self {
        Self::of_webhook(AuditAction::WebhookAdded, None, Some(webhook))
    }

    /// A webhook was changed; `None` if nothing but counters changed, which terse updates itself.
    /// Switching it off is an action of its own.
    pub fn webhook_changed(before: &Webhook, after: &Webhook) -> Option<Self> {
        let act = match (&before.disabled, &after.disabled) {
            (None, Some(_)) => AuditAction::WebhookDisabled,
            _ => AuditAction::WebhookChanged,
        };
        let after = Webhook {
            waiting: before.waiting,
            dropped: before.dropped,
            delivered_at: before.delivered_at,
            ..after.clone()
        };
        (*before != after).then(|| Self::of_webhook(act, Some(before), Some(&after)))
    }

    /// A webhook was removed.
    pub fn webhook_removed(webhook: &Webhook) -> Self {
        Self::of_webhook(AuditAction::WebhookRemoved, Some(webhook), None)
    }

    fn of_webhook(act: AuditAction, before: Option<&Webhook>, after: Option<&Webhook>) -> Self {
        let any = after.or(before);
        Self {
            about: any.map(|webhook| webhook.owner),
            ..Self::new(
                act,
                any.map(|webhook| subject::webhook(webhook.id)).unwrap_or_default(),
                before.map(webhook_json),
                after.map(webhook_json),
            )
        }
    }

    /// An invitation was created.
    pub fn invited(invitation: &Invitation) -> Self {
        Self::new(
            AuditAction::Invited,
            subject::account(invitation.by),
            None,
            Some(invitation_details(invitation)),
        )
    }

    /// An invitation was revoked.
    pub fn invitation_revoked(invitation: &Invitation) -> Self {
        Self::new(
            AuditAction::InvitationRevoked,
            subject::account(invitation.by),
            Some(invitation_details(invitation)),
            None,
        )
    }

    /// A short domain was added or changed.
    pub fn domain_changed(before: Option<&DomainConfig>, after: &DomainConfig) -> Self {
        Self::new(
            AuditAction::DomainChanged,
            subject::domain(&after.domain),
            before.map(domain_json),
            Some(domain_json(after)),
        )
    }

    /// A short domain was removed.
    pub fn domain_removed(place: &DomainConfig) -> Self {
        Self::new(
            AuditAction::DomainRemoved,
            subject::domain(&place.domain),
            Some(domain_json(place)),
            None,
        )
    }

    /// A host was blocked.
    pub fn host_blocked(host: &BlockedHost) -> Self {
        Self::new(
            AuditAction::HostBlocked,
            subject::host(&host.host),
            None,
            Some(host_details(host)),
        )
    }

    /// A host is no longer blocked.
    pub fn host_unblocked(host: &BlockedHost) -> Self {
        Self::new(
            AuditAction::HostUnblocked,
            subject::host(&host.host),
            Some(host_details(host)),
            None,
        )
    }

    /// A removal that had stopped was confirmed.
    pub fn removal_confirmed(alarm: &RemovalAlarm) -> Self {
        let told = json!({ "round": alarm.round, "why": alarm.why });
        let subject = subject::removal(alarm.round);
        Self::new(AuditAction::RemovalConfirmed, subject, None, Some(told))
    }

    /// The look of pages was changed.
    pub fn branding_changed(before: &Branding, after: &Branding) -> Self {
        let (before, after) = (before.audited(), after.audited());
        Self::new(AuditAction::BrandingChanged, subject::BRANDING.into(), Some(before), Some(after))
    }

    /// Reports about a link were settled.
    pub fn reports_settled(link: &LinkKey, count: u64, state: ReportState) -> Self {
        let reports = |state: ReportState| json!({ "reports": count, "state": state.as_str() });
        Self::new(
            AuditAction::ReportSettled,
            subject::link(link),
            Some(reports(ReportState::Open)),
            Some(reports(state)),
        )
    }

    /// An action outside the registry.
    pub fn custom(
        act: AuditAction,
        subject: &str,
        (before, after): (Option<String>, Option<String>),
    ) -> Self {
        let about = subject.strip_prefix("user:").and_then(|id| id.parse().ok()).map(OwnerId);
        Self { act, subject: subject.to_owned(), about, before, after }
    }

    fn new(act: AuditAction, subject: String, before: Option<Value>, after: Option<Value>) -> Self {
        let text = |value: Option<Value>| value.map(|value| value.to_string());
        Self { act, subject, about: None, before: text(before), after: text(after) }
    }

    fn about(act: AuditAction, id: OwnerId, before: Option<Value>, after: Option<Value>) -> Self {
        Self { about: Some(id), ..Self::new(act, subject::account(id), before, after) }
    }
}

fn timestamp_text(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}

fn account_json(account: &Account) -> Value {
    let identity = account
        .identity
        .as_ref()
        .map(|identity| json!({ "issuer": identity.issuer, "subject": identity.subject }));
    let suspended = account
        .suspended
        .as_ref()
        .map(|since| json!({ "at": since.at.to_string(), "why": since.why }));
    json!({
        "name": account.name.as_str(),
        "role": account.role.as_str(),
        "password": if account.password.is_some() { "set" } else { "none" },
        "identity": identity,
        "suspended": suspended,
        "plan": account.plan,
    })
}

fn key_details(key: &ApiKey) -> Value {
    json!({
        "owner": key.owner.0,
        "name": key.name,
        "prefix": key.prefix,
        "scope": key.scope.as_str(),
        "expires_at": timestamp_text(key.expires_at),
        "plan": key.plan,
    })
}

fn invitation_details(invitation: &Invitation) -> Value {
    let Invitation { token: _, role, by, expires_at } = invitation;
    json!({ "role": role.as_str(), "by": by.0, "expires_at": expires_at.to_string() })
}

/// Only the host of the URL, as its path may be a secret. It is in the field `name`, which
/// [`redact_account`] clears.
fn webhook_json(webhook: &Webhook) -> Value {
    json!({
        "owner": webhook.owner.0,
        "name": webhook.url.host(),
        "events": webhook.events.to_string(),
        "generation": webhook.generation,
        "disabled": webhook.disabled.as_ref().map(|disabled| disabled.why.clone()),
    })
}

fn domain_json(place: &DomainConfig) -> Value {
    let target = |target: &Option<Target>| target.as_ref().map(|target| target.as_str().to_owned());
    json!({
        "root": target(&place.root), "not_found": target(&place.not_found),
        "expired": target(&place.expired)
    })
}

fn host_details(host: &BlockedHost) -> Value {
    json!({ "at": host.at.to_string(), "why": host.why })
}

/// Redacts the records about an erased account: every name of it and of its keys, and its OpenID
/// Connect identity. The action, the time and the actor's id stay.
pub fn redact_account(lines: &mut [AuditEntry], name: &AccountName) {
    let mut names = vec![name.folded()];
    for line in lines.iter_mut() {
        for text in [&mut line.before, &mut line.after].into_iter().flatten() {
            // A text that is not JSON cannot be redacted, so it is removed.
            let mut value = serde_json::from_str(text).unwrap_or(Value::Null);
            let name = clear(&mut value).filter(|_| line.subject.starts_with("user:"));
            names.extend(name.and_then(|name| AccountName::parse(&name)).map(|name| name.folded()));
            *text = value.to_string();
        }
    }
    // Longer names first: they may contain shorter ones.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for line in lines {
        line.why.iter_mut().for_each(|why| names.iter().for_each(|name| redact(why, name)));
        for text in [&mut line.before, &mut line.after].into_iter().flatten() {
            let mut value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
            if let Some(Value::String(why)) = value.pointer_mut("/suspended/why") {
                names.iter().for_each(|name| redact(why, name));
                *text = value.to_string();
            }
        }
    }
}

/// Removes the name of an account and returns it.
fn clear(value: &mut Value) -> Option<String> {
    let fields = value.as_object_mut()?;
    fields.get_mut("identity").map(Value::take);
    match fields.get_mut("name").map(Value::take) {
        Some(Value::String(name)) => Some(name),
        _ => None,
    }
}

/// Redacts a name in a text, in any case, where it is a whole word.
fn redact(text: &mut String, name: &str) {
    let mut from = 0;
    while let Some(at) = text[from..].to_ascii_lowercase().find(name).map(|at| from + at) {
        let end = at + name.len();
        let is_inside = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
        if is_inside(text[..at].chars().next_back()) || is_inside(text[end..].chars().next()) {
            from = end;
        } else {
            text.replace_range(at..end, ERASED);
            from = at + ERASED.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Actor;

    #[test]
    fn a_person_is_taken_out_of_lines_under_every_name() {
        let line = |why: &str, before: &str, after: &str| AuditEntry {
            number: 1,
            at: Timestamp::from_ms(1),
            actor: Actor::Owner(OwnerId(1)),
            act: AuditAction::UserChanged,
            unknown_act: None,
            subject: subject::account(OwnerId(1000)),
            why: Some(why.into()),
            before: Some(before.into()),
            after: Some(after.into()),
        };
        let mut lines = [
            line(
                "Ann, known as ann.old@x, cannot stay (ANN)",
                r#"{"name":"Ann.old@x","role":"user"}"#,
                r#"{"name":"Ann"}"#,
            ),
            line(
                "é",
                r#"{"identity":{"subject":"ann"},"suspended":{"why":"ann spams"}}"#,
                "no JSON with ann",
            ),
        ];
        redact_account(&mut lines, &AccountName::parse("Ann").unwrap());
        assert_eq!(
            lines[0].why.as_deref(),
            Some("[erased], known as [erased], cannot stay ([erased])")
        );
        assert_eq!(lines[0].before.as_deref(), Some(r#"{"name":null,"role":"user"}"#));
        assert_eq!(lines[0].after.as_deref(), Some(r#"{"name":null}"#));
        assert_eq!(
            lines[1].before.as_deref(),
            Some(r#"{"identity":null,"suspended":{"why":"[erased] spams"}}"#)
        );
        assert_eq!(lines[1].after.as_deref(), Some("null"));
        let text = format!("{lines:?}").to_lowercase();
        assert!(!text.replace("cannot", "").contains("ann"), "{text}");
    }

    #[test]
    fn a_name_is_taken_out_where_it_is_a_word() {
        for (text, want) in [
            ("cicada and CI", "cicada and [erased]"),
            ("ci", "[erased]"),
            ("éci ci é", "éci [erased] é"),
            ("", ""),
        ] {
            let mut text = text.to_owned();
            redact(&mut text, "ci");
            assert_eq!(text, want);
        }
    }
}
