//! Who calls the service, and what that caller may see.

use crate::link::{Link, OwnerId};

/// Who is asking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Caller {
    /// No key was shown.
    Anonymous,
    /// An owner.
    Owner(OwnerId),
    /// An admin, who sees everything. What they make is theirs.
    Admin(OwnerId),
}

impl Caller {
    /// Whoever runs this server.
    pub const OPERATOR: Self = Self::Admin(OwnerId::ADMIN);

    /// Whether everyone's links are shown, not only the caller's own.
    pub fn sees_all(self) -> bool {
        matches!(self, Self::Admin(_))
    }

    /// Whose links this caller makes.
    pub fn owner(self) -> OwnerId {
        match self {
            Self::Anonymous => OwnerId::ANONYMOUS,
            Self::Owner(owner) | Self::Admin(owner) => owner,
        }
    }

    /// Whether this caller may see and change the link. Nobody owns anonymous links, not even
    /// whoever made them.
    pub(super) fn may_touch(self, link: &Link) -> bool {
        match self {
            Self::Anonymous => false,
            Self::Owner(owner) => link.owner == owner,
            Self::Admin(_) => true,
        }
    }
}
