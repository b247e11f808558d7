//! Events about links.

use async_trait::async_trait;

use crate::link::{Link, ModerationStatus, OwnerId};
use crate::outbox::OutboxEntry;
use crate::registry::EventKind;
use crate::store::BoxError;

/// Receives events about links.
#[async_trait]
pub trait LinkEvents: Send + Sync {
    /// Whether events of this owner's links are written to the outbox. Asked at every change, so it
    /// must be quick.
    fn wants(&self, owner: OwnerId) -> bool;

    /// All owners for whom [`LinkEvents::wants`] says yes.
    fn subscribers(&self) -> Vec<OwnerId>;

    /// A link was created. Called after the write is durable and before it is answered, so it must
    /// not wait. A crash may lose it: what must not be lost goes through the outbox.
    fn created(&self, link: &Link);

    /// Events were written to the outbox by this node.
    fn written(&self);

    /// Stores events durably. After an error or a crash the caller passes all of them again, with
    /// the same ids.
    async fn deliver(&self, entries: &[OutboxEntry]) -> Result<(), BoxError>;
}

/// Ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

#[async_trait]
impl LinkEvents for NoEvents {
    fn wants(&self, _: OwnerId) -> bool {
        false
    }

    fn subscribers(&self) -> Vec<OwnerId> {
        Vec::new()
    }

    fn created(&self, _: &Link) {}

    fn written(&self) {}

    async fn deliver(&self, _: &[OutboxEntry]) -> Result<(), BoxError> {
        Ok(())
    }
}

/// The event of a change: its most important part.
pub(crate) fn kind_of(old: &Link, new: &Link) -> EventKind {
    if old.deleted_at.is_none() && new.deleted_at.is_some() {
        EventKind::LinkDeleted
    } else if old.moderation != new.moderation && new.moderation == ModerationStatus::Blocked {
        EventKind::LinkBlocked
    } else if old.moderation != new.moderation && new.moderation == ModerationStatus::Suspicious {
        EventKind::LinkFlagged
    } else {
        EventKind::LinkChanged
    }
}
