//! Who did what, when and why.

use crate::link::OwnerId;
use crate::time::Timestamp;

/// Who did something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Actor {
    /// Somebody with an account, or the operator.
    Owner(OwnerId),
    /// terse itself: a chore, a list.
    Terse,
}

/// On whose behalf a change is made, when, and why. Written to the audit log in the same step as
/// the change.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// Who.
    pub actor: Actor,
    /// When.
    pub at: Timestamp,
    /// Why, if they said so.
    pub why: Option<String>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AuditAction {
    /// An account was made.
    UserAdded,
    /// An account was changed.
    UserChanged,
    /// An account was suspended.
    UserSuspended,
    /// An account is no longer suspended.
    UserReinstated,
    /// An account was erased.
    UserErased,
    /// A key was made.
    KeyAdded,
    /// A key was revoked.
    KeyRevoked,
    /// An invitation was written.
    Invited,
    /// An invitation was taken back.
    InvitationRevoked,
    /// A short domain was added or changed.
    DomainChanged,
    /// A short domain was removed.
    DomainRemoved,
    /// A host was blocked.
    HostBlocked,
    /// A host is no longer blocked.
    HostUnblocked,
    /// A link was judged.
    LinkJudged,
    /// A report was settled.
    ReportSettled,
    /// A webhook was made.
    WebhookAdded,
    /// A webhook was changed.
    WebhookChanged,
    /// A webhook was switched off.
    WebhookDisabled,
    /// A webhook was removed.
    WebhookRemoved,
}

impl AuditAction {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::UserAdded,
        Self::UserChanged,
        Self::UserSuspended,
        Self::UserReinstated,
        Self::UserErased,
        Self::KeyAdded,
        Self::KeyRevoked,
        Self::Invited,
        Self::InvitationRevoked,
        Self::DomainChanged,
        Self::DomainRemoved,
        Self::HostBlocked,
        Self::HostUnblocked,
        Self::LinkJudged,
        Self::ReportSettled,
        Self::WebhookAdded,
        Self::WebhookChanged,
        Self::WebhookDisabled,
        Self::WebhookRemoved,
    ];

    /// The word that is kept and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserAdded => "user_added",
            Self::UserChanged => "user_changed",
            Self::UserSuspended => "user_suspended",
            Self::UserReinstated => "user_reinstated",
            Self::UserErased => "user_erased",
            Self::KeyAdded => "key_added",
            Self::KeyRevoked => "key_revoked",
            Self::Invited => "invited",
            Self::InvitationRevoked => "invitation_revoked",
            Self::DomainChanged => "domain_changed",
            Self::DomainRemoved => "domain_removed",
            Self::HostBlocked => "host_blocked",
            Self::HostUnblocked => "host_unblocked",
            Self::LinkJudged => "link_judged",
            Self::ReportSettled => "report_settled",
            Self::WebhookAdded => "webhook_added",
            Self::WebhookChanged => "webhook_changed",
            Self::WebhookDisabled => "webhook_disabled",
            Self::WebhookRemoved => "webhook_removed",
        }
    }

    /// From the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.as_str() == word)
    }
}

/// A line of the audit log. Never deleted but with age, and never changed but to forget a person
/// who is gone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditEntry {
    /// Its place in the log.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: AuditAction,
    /// To whom or what, as [`subject`](super::subject) writes it.
    pub subject: String,
    /// Why.
    pub why: Option<String>,
    /// How it was before, as JSON. Never a secret, nor the hash of one.
    pub before: Option<String>,
    /// How it is now, as JSON.
    pub after: Option<String>,
}
