//! Events about links.

use async_trait::async_trait;

use crate::link::{Link, ModerationStatus, OwnerId};
use crate::registry::EventKind;
use crate::time::Timestamp;

/// Receives events about links. Called after a change is durable and before the response, so it
/// must return quickly; it cannot undo the change. If the process dies in between, the event is
/// lost.
#[async_trait]
pub trait LinkEvents: Send + Sync {
    /// Whether events are wanted at all.
    fn listens(&self) -> bool;
    /// Whether events about this owner's links are wanted. Called for every change, so it must be
    /// fast.
    fn wants(&self, owner: OwnerId) -> bool;
    /// Reports an event. The link is in its new state.
    async fn happened(&self, kind: EventKind, link: &Link, at: Timestamp);
}

/// Ignores all events.
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

/// The event of a change: its most important part.
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
