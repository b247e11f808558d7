//! Telling others what happened to links.

use async_trait::async_trait;

use crate::link::{Link, ModerationStatus, OwnerId};
use crate::registry::EventKind;
use crate::time::Timestamp;

/// Whoever wants to know what happens to links. Told after a change is durable and before whoever
/// made it is answered, so it must not take long; nothing it does can undo the change. If the
/// process dies in between, it is never told.
#[async_trait]
pub trait LinkEvents: Send + Sync {
    /// Whether there is anybody to be told anything.
    fn listens(&self) -> bool;
    /// Whether what happens to this owner's links is of interest. Asked at every change, so it is
    /// quick.
    fn wants(&self, owner: OwnerId) -> bool;
    /// Something happened. The link is as it is now.
    async fn happened(&self, kind: EventKind, link: &Link, at: Timestamp);
}

/// Nobody wants to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

#[async_trait]
impl LinkEvents for NoEvents {
    fn listens(&self) -> bool {
        false
    }

    fn wants(&self, _: OwnerId) -> bool {
        false
    }

    async fn happened(&self, _: EventKind, _: &Link, _: Timestamp) {}
}

/// What a change of a link is called: the gravest thing that is new about it.
pub(crate) fn kind_of(old: &Link, new: &Link) -> EventKind {
    if old.deleted_at.is_none() && new.deleted_at.is_some() {
        EventKind::LinkDeleted
    } else if old.standing != new.standing && new.standing == ModerationStatus::Blocked {
        EventKind::LinkBlocked
    } else if old.standing != new.standing && new.standing == ModerationStatus::Suspicious {
        EventKind::LinkFlagged
    } else {
        EventKind::LinkChanged
    }
}
