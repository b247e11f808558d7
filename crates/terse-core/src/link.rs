//! A link: a code, its target, and the options that its owner set.

use crate::time::Timestamp;

use crate::code::Code;
use crate::domain::Domain;
use crate::password::PasswordHash;
use crate::rules::Rules;
use crate::screening::LinkFlags;
use crate::social_preview::SocialPreview;
use crate::target::Target;
use crate::text::{Notes, Tags, Title};

/// What identifies a link.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkKey {
    /// The domain of the link.
    pub domain: Domain,
    /// Its code on that domain.
    pub code: Code,
}

/// Who owns a link.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OwnerId(pub u64);

impl OwnerId {
    /// No owner: links created without a key.
    pub const ANONYMOUS: Self = Self(0);
    /// The operator.
    pub const ADMIN: Self = Self(1);
}

/// Counts the changes of a link. A store accepts a change only if it is based on the latest
/// revision.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Revision(pub u64);

impl Revision {
    /// In a change: the revision is unknown, and every copy of the link is to be forgotten. No link
    /// has that many revisions, and a double-precision number holds it exactly.
    pub const UNKNOWN: Self = Self(1 << 53);
}

/// The HTTP status of a redirect.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RedirectKind {
    /// 301: browsers may cache it for a long time.
    MovedPermanently,
    /// 302: the default.
    #[default]
    Found,
    /// 307: keeps the method.
    Temporary,
    /// 308: permanent, keeps the method.
    Permanent,
}

impl RedirectKind {
    /// The status code.
    pub fn status(self) -> u16 {
        match self {
            Self::MovedPermanently => 301,
            Self::Found => 302,
            Self::Temporary => 307,
            Self::Permanent => 308,
        }
    }

    /// From a status code.
    pub fn from_status(status: u64) -> Option<Self> {
        [Self::MovedPermanently, Self::Found, Self::Temporary, Self::Permanent]
            .into_iter()
            .find(|kind| u64::from(kind.status()) == status)
    }

    /// Whether caches may keep the answer.
    pub fn is_permanent(self) -> bool {
        matches!(self, Self::MovedPermanently | Self::Permanent)
    }

    /// Whether a client repeats its method and body at the target.
    pub fn keeps_method(self) -> bool {
        matches!(self, Self::Temporary | Self::Permanent)
    }
}

/// The moderation status of a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ModerationStatus {
    /// No warning and no block.
    #[default]
    Clear,
    /// Visitors see a warning page first.
    Suspicious,
    /// Taken down; its code is never issued again.
    Blocked,
}

impl ModerationStatus {
    /// The stable name in the API and in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Suspicious => "suspicious",
            Self::Blocked => "blocked",
        }
    }
}

/// Who set the moderation status of a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ModerationSource {
    /// The screening; a later scan may change the status.
    #[default]
    Screen,
    /// A moderator; scans do not change the status.
    Moderator,
}

impl ModerationSource {
    /// The stable name in the API and in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Screen => "screen",
            Self::Moderator => "moderator",
        }
    }
}

/// A link as a store keeps it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Link {
    /// Its domain and code.
    pub key: LinkKey,
    /// Whether terse generated the code; `false` for a custom alias.
    pub generated: bool,
    /// Its owner.
    pub owner: OwnerId,
    /// Its target.
    pub target: Target,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The time from which it is expired.
    pub expires_at: Option<Timestamp>,
    /// The time before which visitors get 404.
    pub valid_from: Option<Timestamp>,
    /// How many visits it allows.
    pub max_clicks: Option<u64>,
    /// How many of these were used; counted only where `max_clicks` is set.
    pub spent_clicks: u64,
    /// The clicks that another shortener had counted when the link was imported. Never changes.
    pub imported_clicks: u64,
    /// How it redirects.
    pub redirect: RedirectKind,
    /// A title for display.
    pub title: Option<Title>,
    /// Tags to find it by.
    pub tags: Tags,
    /// The owner's private notes.
    pub notes: Option<Notes>,
    /// The hash of the password that visitors must enter.
    pub password: Option<PasswordHash>,
    /// When its owner archived it. It keeps working, but lists leave it out.
    pub archived_at: Option<Timestamp>,
    /// Rules that send some visitors to other targets.
    pub rules: Option<Rules>,
    /// What preview fetchers get instead of the redirect.
    pub preview: Option<SocialPreview>,
    /// Whether a visitor's query is passed on to the target.
    pub forward_query: bool,
    /// Whether search engines may follow it.
    pub crawlable: bool,
    /// Its moderation status.
    pub moderation: ModerationStatus,
    /// Who set that status.
    pub moderated_by: ModerationSource,
    /// Warning flags of its targets.
    pub flags: LinkFlags,
    /// When its owner deleted it; it can be restored until it is reaped.
    pub deleted_at: Option<Timestamp>,
    /// Whether the service returns this link when its owner shortens the same target on the same
    /// domain with the same options again. An alias does not need it: its request names the link.
    pub reusable: bool,
    /// The revision: counts its changes.
    pub revision: Revision,
}

/// The status of a link at a given time, for owners and programs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkStatus {
    /// Redirects.
    Active,
    /// `valid_from` lies ahead.
    Scheduled,
    /// `expires_at` has passed.
    Expired,
    /// All `max_clicks` were spent.
    UsedUp,
    /// Visitors see a warning page first.
    Suspicious,
    /// Taken down.
    Blocked,
    /// Deleted by its owner.
    Deleted,
}

impl LinkStatus {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Active,
        Self::Scheduled,
        Self::Expired,
        Self::UsedUp,
        Self::Suspicious,
        Self::Blocked,
        Self::Deleted,
    ];

    /// The stable name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Scheduled => "scheduled",
            Self::Expired => "expired",
            Self::UsedUp => "used_up",
            Self::Suspicious => "suspicious",
            Self::Blocked => "blocked",
            Self::Deleted => "deleted",
        }
    }

    /// Parses the stable name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl Link {
    /// The first reason, in this order, why the link does not simply redirect.
    pub fn status(&self, now: Timestamp) -> LinkStatus {
        if self.deleted_at.is_some() {
            LinkStatus::Deleted
        } else if self.moderation == ModerationStatus::Blocked {
            LinkStatus::Blocked
        } else if self.expires_at.is_some_and(|at| at <= now) {
            LinkStatus::Expired
        } else if self.max_clicks.is_some_and(|max| self.spent_clicks >= max) {
            LinkStatus::UsedUp
        } else if self.valid_from.is_some_and(|at| at > now) {
            LinkStatus::Scheduled
        } else if self.moderation == ModerationStatus::Suspicious {
            LinkStatus::Suspicious
        } else {
            LinkStatus::Active
        }
    }

    /// All targets of the link: its own first, then those of its rules.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        std::iter::once(&self.target).chain(self.rules.iter().flat_map(Rules::targets))
    }

    /// Whether its code, its title or one of its targets contains this text. The text has no ASCII
    /// capitals; the case of ASCII letters in the link is ignored.
    pub fn contains(&self, lowercase: &str) -> bool {
        let contains = |text: &str| text.to_ascii_lowercase().contains(lowercase);
        contains(self.key.code.as_str())
            || self.targets().any(|target| contains(target.as_str()))
            || self.title.as_ref().is_some_and(|title| contains(title.as_str()))
    }

    /// The link that a store writes when this one is updated to `new`: with its own identity and
    /// counters, which an update never changes.
    pub fn updated_to(&self, new: &Self) -> Self {
        Self {
            key: self.key.clone(),
            owner: self.owner,
            generated: self.generated,
            created_at: self.created_at,
            spent_clicks: self.spent_clicks,
            imported_clicks: self.imported_clicks,
            ..new.clone()
        }
    }

    /// Whether an owner would see no difference: the moderation status, spent clicks and the
    /// deletion do not count.
    pub fn owner_visible_eq(&self, other: &Self) -> bool {
        let like_other = Self {
            spent_clicks: other.spent_clicks,
            moderation: other.moderation,
            moderated_by: other.moderated_by,
            flags: other.flags.clone(),
            deleted_at: other.deleted_at,
            reusable: other.reusable,
            updated_at: other.updated_at,
            revision: other.revision,
            ..self.clone()
        };
        like_other == *other
    }
}
