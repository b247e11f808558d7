//! The audit log: who did what, when and why.

use crate::link::OwnerId;
use crate::time::Timestamp;

/// Who did something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Actor {
    /// An account, or the operator.
    Owner(OwnerId),
    /// terse itself: a background job or a blocklist.
    Terse,
}

/// The actor, time and reason of a change. The store writes it to the audit log in the same step as
/// the change.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// Who.
    pub actor: Actor,
    /// When.
    pub at: Timestamp,
    /// The reason, if one was given.
    pub why: Option<String>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AuditAction {
    /// An account was created.
    UserAdded,
    /// An account was changed.
    UserChanged,
    /// An account was suspended.
    UserSuspended,
    /// An account is no longer suspended.
    UserReinstated,
    /// An account was erased.
    UserErased,
    /// A reset link of an account was made.
    ResetLinkMade,
    /// An account got a new password by its reset link.
    ResetLinkUsed,
    /// An account turned two-factor sign-in on.
    TwoFactorOn,
    /// Two-factor sign-in of an account was turned off.
    TwoFactorOff,
    /// An account signed in with a recovery code.
    RecoveryCodeUsed,
    /// A key was created.
    KeyAdded,
    /// A key was revoked.
    KeyRevoked,
    /// An invitation was created.
    Invited,
    /// An invitation was revoked.
    InvitationRevoked,
    /// A short domain was added or changed.
    DomainChanged,
    /// A short domain was removed.
    DomainRemoved,
    /// A host was blocked.
    HostBlocked,
    /// A host is no longer blocked.
    HostUnblocked,
    /// A moderator set the status of a link.
    LinkModerated,
    /// The screening blocked a link, put a warning before it, or cleared it.
    LinkScreened,
    /// A report was settled.
    ReportSettled,
    /// A webhook was created.
    WebhookAdded,
    /// A webhook was changed.
    WebhookChanged,
    /// A webhook was switched off.
    WebhookDisabled,
    /// A webhook was removed.
    WebhookRemoved,
    /// A removal that had stopped was confirmed.
    RemovalConfirmed,
    /// The look of pages was changed.
    BrandingChanged,
    /// Something that a later version of terse recorded; [`AuditEntry::unknown_act`] names it.
    Unknown,
}

impl AuditAction {
    /// All that this version records.
    pub const ALL: [Self; 27] = [
        Self::UserAdded,
        Self::UserChanged,
        Self::UserSuspended,
        Self::UserReinstated,
        Self::UserErased,
        Self::ResetLinkMade,
        Self::ResetLinkUsed,
        Self::TwoFactorOn,
        Self::TwoFactorOff,
        Self::RecoveryCodeUsed,
        Self::KeyAdded,
        Self::KeyRevoked,
        Self::Invited,
        Self::InvitationRevoked,
        Self::DomainChanged,
        Self::DomainRemoved,
        Self::HostBlocked,
        Self::HostUnblocked,
        Self::LinkModerated,
        Self::LinkScreened,
        Self::ReportSettled,
        Self::WebhookAdded,
        Self::WebhookChanged,
        Self::WebhookDisabled,
        Self::WebhookRemoved,
        Self::RemovalConfirmed,
        Self::BrandingChanged,
    ];

    /// The stable name, stored and displayed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserAdded => "user_added",
            Self::UserChanged => "user_changed",
            Self::UserSuspended => "user_suspended",
            Self::UserReinstated => "user_reinstated",
            Self::UserErased => "user_erased",
            Self::ResetLinkMade => "reset_link_made",
            Self::ResetLinkUsed => "reset_link_used",
            Self::TwoFactorOn => "two_factor_on",
            Self::TwoFactorOff => "two_factor_off",
            Self::RecoveryCodeUsed => "recovery_code_used",
            Self::KeyAdded => "key_added",
            Self::KeyRevoked => "key_revoked",
            Self::Invited => "invited",
            Self::InvitationRevoked => "invitation_revoked",
            Self::DomainChanged => "domain_changed",
            Self::DomainRemoved => "domain_removed",
            Self::HostBlocked => "host_blocked",
            Self::HostUnblocked => "host_unblocked",
            Self::LinkModerated => "link_judged",
            Self::LinkScreened => "link_screened",
            Self::ReportSettled => "report_settled",
            Self::WebhookAdded => "webhook_added",
            Self::WebhookChanged => "webhook_changed",
            Self::WebhookDisabled => "webhook_disabled",
            Self::WebhookRemoved => "webhook_removed",
            Self::RemovalConfirmed => "removal_confirmed",
            Self::BrandingChanged => "branding_changed",
            Self::Unknown => "unknown",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.as_str() == word)
    }
}

/// A record of the audit log. It is deleted only by age, and changed only to redact an erased
/// account.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditEntry {
    /// Its number in the log.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: AuditAction,
    /// The stored name of an action that this version of terse does not know.
    pub unknown_act: Option<String>,
    /// The object of the action, in the form of [`subject`](super::subject).
    pub subject: String,
    /// Why.
    pub why: Option<String>,
    /// The state before, as JSON. Never contains a secret or its hash.
    pub before: Option<String>,
    /// The state after, as JSON.
    pub after: Option<String>,
}

impl AuditEntry {
    /// The action of a stored name, and the name if this version does not know it. Nodes of a later
    /// version may share the registry.
    pub fn stored_act(name: &str) -> (AuditAction, Option<String>) {
        match AuditAction::parse(name) {
            Some(act) => (act, None),
            None => (AuditAction::Unknown, Some(name.to_owned())),
        }
    }

    /// The name of the action, as it is stored.
    pub fn act_name(&self) -> &str {
        self.unknown_act.as_deref().unwrap_or(self.act.as_str())
    }
}
