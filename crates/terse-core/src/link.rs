//! A link: a code joined to a target, and what its owner wished for it.

use crate::time::Timestamp;

use crate::code::Code;
use crate::domain::Domain;
use crate::password::PasswordHash;
use crate::rules::Rules;
use crate::screening::Flags;
use crate::target::Target;
use crate::text::{Notes, Tags, Title};

/// What identifies a link.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkKey {
    /// The domain it lives under.
    pub domain: Domain,
    /// Its code on that domain.
    pub code: Code,
}

/// Who owns a link.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OwnerId(pub u64);

impl OwnerId {
    /// Nobody: links made without a key.
    pub const ANONYMOUS: Self = Self(0);
    /// The operator.
    pub const ADMIN: Self = Self(1);
}

/// Counts the changes of a link; a change is accepted only by whoever saw the latest one.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Revision(pub u64);

/// The status a redirect is answered with.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RedirectKind {
    /// 301: browsers may remember it for long.
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
}

/// What moderation thinks of a link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ModerationStatus {
    /// Nothing is known against it.
    #[default]
    Clear,
    /// A warning page stands before it.
    Suspicious,
    /// Taken down; its code is never given out again.
    Blocked,
}

impl ModerationStatus {
    /// The word on the wire and in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Suspicious => "suspicious",
            Self::Blocked => "blocked",
        }
    }
}

/// Whose word a link's standing is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ModerationSource {
    /// The screen's, which may think otherwise tomorrow.
    #[default]
    Screen,
    /// A moderator's, which stays.
    Moderator,
}

impl ModerationSource {
    /// The word on the wire and in the audit log.
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
    /// Its name.
    pub key: LinkKey,
    /// Whether the code was made by us rather than chosen by a person.
    pub generated: bool,
    /// Its owner.
    pub owner: OwnerId,
    /// Where it leads.
    pub target: Target,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// From this moment on it is gone.
    pub expires_at: Option<Timestamp>,
    /// Before this moment it does not exist for visitors.
    pub valid_from: Option<Timestamp>,
    /// How many visits it is good for.
    pub max_clicks: Option<u64>,
    /// How many of these were used; counted only where `max_clicks` is set.
    pub spent_clicks: u64,
    /// How it redirects.
    pub redirect: RedirectKind,
    /// A name for people.
    pub title: Option<Title>,
    /// Words to find it by.
    pub tags: Tags,
    /// What the owner wants to remember about it; nobody else sees it.
    pub notes: Option<Notes>,
    /// What a visitor must know to follow it.
    pub password: Option<PasswordHash>,
    /// When its owner put it away. It goes on working, and is left out of lists.
    pub archived_at: Option<Timestamp>,
    /// Which visitors go elsewhere than to the target.
    pub rules: Option<Rules>,
    /// Whether a visitor's query is passed on to the target.
    pub forward_query: bool,
    /// Whether search engines may follow it.
    pub crawlable: bool,
    /// What moderation thinks of it.
    pub standing: ModerationStatus,
    /// Whose word that is.
    pub judged: ModerationSource,
    /// What is odd about its targets.
    pub flags: Flags,
    /// When its owner deleted it; it can be restored until it is reaped.
    pub deleted_at: Option<Timestamp>,
    /// Whether this very link is given back when its owner shortens the same target on the same
    /// domain again.
    pub reusable: bool,
    /// Which change of it this is.
    pub revision: Revision,
}

/// What a link is at a given moment, for owners and programs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// Redirects.
    Active,
    /// `valid_from` lies ahead.
    Scheduled,
    /// `expires_at` has passed.
    Expired,
    /// `max_clicks` were made.
    UsedUp,
    /// A warning page stands before it.
    Suspicious,
    /// Taken down.
    Blocked,
    /// Deleted by its owner.
    Deleted,
}

impl Status {
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

    /// The word on the wire.
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

    /// From the word on the wire.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl Link {
    /// The first reason, in this order, why the link does not simply redirect.
    pub fn status(&self, now: Timestamp) -> Status {
        if self.deleted_at.is_some() {
            Status::Deleted
        } else if self.standing == ModerationStatus::Blocked {
            Status::Blocked
        } else if self.expires_at.is_some_and(|at| at <= now) {
            Status::Expired
        } else if self.max_clicks.is_some_and(|max| self.spent_clicks >= max) {
            Status::UsedUp
        } else if self.valid_from.is_some_and(|at| at > now) {
            Status::Scheduled
        } else if self.standing == ModerationStatus::Suspicious {
            Status::Suspicious
        } else {
            Status::Active
        }
    }

    /// Every place that it may lead to: its target first, then those of its rules.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        std::iter::once(&self.target).chain(self.rules.iter().flat_map(Rules::targets))
    }

    /// Whether nothing but the target was wished for, so that the link may serve its owner again
    /// for the same target.
    pub fn is_plain(&self) -> bool {
        self.generated
            && self.expires_at.is_none()
            && self.valid_from.is_none()
            && self.max_clicks.is_none()
            && self.redirect == RedirectKind::default()
            && !self.forward_query
            && !self.crawlable
            && self.rules.is_none()
            && self.password.is_none()
            && self.notes.is_none()
            && self.archived_at.is_none()
    }

    /// Whether an owner would see no difference: what moderation thinks, what was spent, and
    /// whether it is deleted do not count.
    pub fn owner_visible_eq(&self, other: &Self) -> bool {
        let like_other = Self {
            spent_clicks: other.spent_clicks,
            standing: other.standing,
            judged: other.judged,
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
