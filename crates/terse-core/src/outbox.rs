//! Events that a write must not lose.
//!
//! A service puts an [`OutboxEvent`] into the write of a link whose owner has webhooks. The store
//! keeps it in the same transaction, so that a crash after the commit loses nothing. An
//! [`OutboxDrain`] hands the entries to [`LinkEvents`] and removes them.
//!
//! Every entry has an [`EventId`] that is stored with it. The id stays the same however often the
//! entry is handed over, also after a restore, so that the registry takes each event once.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::events::LinkEvents;
use crate::link::Link;
use crate::registry::EventKind;
use crate::store::{BoxError, LinkStore, StoreError};
use crate::time::Timestamp;

/// Something that happens to a link by the write that carries it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutboxEvent {
    /// What happens.
    pub kind: EventKind,
    /// When.
    pub at: Timestamp,
}

/// The id of an event: random, chosen by the write that stores the event.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct EventId(pub [u8; 16]);

impl EventId {
    /// A new id. `Busy` if the system has no random numbers.
    pub fn random() -> Result<Self, StoreError> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|_| StoreError::Busy)?;
        Ok(Self(id))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("evt_")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An event that was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutboxEntry {
    /// Its place, which no other entry ever has. A store may commit a lower place after a higher
    /// one.
    pub position: u64,
    /// The id of the event.
    pub id: EventId,
    /// What happened.
    pub event: OutboxEvent,
    /// The link as it was after that.
    pub link: Link,
}

/// A part of the outbox.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OutboxPage {
    /// The entries, in the order of their positions. The entries of one link are in the order of
    /// its writes.
    pub entries: Vec<OutboxEntry>,
    /// The positions of entries that cannot be read any more.
    pub unreadable: Vec<u64>,
}

/// The events that a store keeps until they are handed over. They are written by
/// [`LinkStore::insert`], [`LinkStore::update`] and [`LinkStore::mark_expired`], each in the
/// transaction of its write; a write that is refused leaves none behind.
#[async_trait]
pub trait Outbox: Send + Sync + 'static {
    /// The first entries that are left, at most `limit` of them, counting unreadable ones.
    async fn outbox(&self, limit: usize) -> Result<OutboxPage, StoreError>;

    /// Removes the entries at exactly these positions. An entry with a lower position that was
    /// committed meanwhile stays. A position without an entry is ignored.
    async fn outbox_done(&self, positions: &[u64]) -> Result<(), StoreError>;
}

/// Hands the entries of the outbox to [`LinkEvents`], at least once each. One node of a fleet runs
/// it.
pub struct OutboxDrain {
    store: Arc<dyn LinkStore>,
    events: Arc<dyn LinkEvents>,
}

impl OutboxDrain {
    /// How many entries are handed over together.
    pub const PAGE: usize = 500;

    /// From a store to the listeners.
    pub fn new(store: Arc<dyn LinkStore>, events: Arc<dyn LinkEvents>) -> Self {
        Self { store, events }
    }

    /// Hands over the first [`Self::PAGE`] entries together, removes them, and returns how many
    /// they were: fewer than a page at the end of the outbox. After an error all of them stay and
    /// come again.
    pub async fn next_page(&self) -> Result<usize, BoxError> {
        let OutboxPage { entries, unreadable } = self.store.outbox(Self::PAGE).await?;
        if !entries.is_empty() {
            self.events.deliver(&entries).await?;
        }
        let mut done: Vec<u64> = entries.iter().map(|entry| entry.position).collect();
        done.extend(unreadable);
        if !done.is_empty() {
            self.store.outbox_done(&done).await?;
        }
        Ok(done.len())
    }
}
