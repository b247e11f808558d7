//! Who calls the service, and what that caller may see.

use crate::link::{Link, OwnerId};

/// Whose links a caller sees and creates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Caller {
    /// A caller without a credential.
    Anonymous,
    /// An owner.
    Owner(OwnerId),
    /// An admin, who sees all links. Links that they create are their own.
    Admin(OwnerId),
}

impl Caller {
    /// The operator.
    pub const OPERATOR: Self = Self::Admin(OwnerId::ADMIN);

    /// Whether the caller sees all links.
    pub fn sees_all(self) -> bool {
        matches!(self, Self::Admin(_))
    }

    /// The owner of links that this caller creates.
    pub fn owner(self) -> OwnerId {
        match self {
            Self::Anonymous => OwnerId::ANONYMOUS,
            Self::Owner(owner) | Self::Admin(owner) => owner,
        }
    }

    /// Whether this caller may see and change the link. Anonymous links have no owner, so their
    /// creators may not.
    pub(super) fn may_touch(self, link: &Link) -> bool {
        match self {
            Self::Anonymous => false,
            Self::Owner(owner) => link.owner == owner,
            Self::Admin(_) => true,
        }
    }
}
