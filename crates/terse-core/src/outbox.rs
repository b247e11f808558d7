//! Events that a write must not lose.
//!
//! A service puts an [`OutboxEvent`] into the write of a link whose owner has webhooks. The store
//! keeps it in the same transaction, so that a crash after the commit loses nothing. An
//! [`OutboxDrain`] hands the entries to [`LinkEvents`] and removes them.
//!
//! Every entry has an [`EventId`] that is stored with it. The id stays the same however often the
//! entry is handed over, also after a restore, so that the registry takes each event once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::Clock;
use crate::events::LinkEvents;
use crate::link::Link;
use crate::link_codec;
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

/// A row of the outbox as a store keeps it.
#[derive(Clone, Copy, Debug)]
pub struct OutboxRow<'a> {
    /// The place of the entry.
    pub position: u64,
    /// The id of the event; `None` if it cannot be read.
    pub id: Option<EventId>,
    /// The name of the [`EventKind`].
    pub kind: &'a str,
    /// When the event happened.
    pub at: Timestamp,
    /// The link in its binary form ([`link_codec`]).
    pub link: &'a [u8],
}

/// An entry that a later version of terse wrote.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LaterEntry {
    /// The place of the entry.
    pub position: u64,
    /// When the event happened.
    pub at: Timestamp,
}

/// A part of the outbox. Each list is in the order of positions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OutboxPage {
    /// The entries. Those of one link are in the order of its writes.
    pub entries: Vec<OutboxEntry>,
    /// The entries that a later version of terse wrote and can read.
    pub later: Vec<LaterEntry>,
    /// The positions of entries that cannot be read any more.
    pub unreadable: Vec<u64>,
}

impl OutboxPage {
    /// Adds a row to the list where it belongs. Returns `false` for an unreadable one.
    pub fn push(&mut self, row: OutboxRow<'_>) -> bool {
        let OutboxRow { position, id, kind, at, link } = row;
        match (EventKind::parse(kind), link_codec::decode(link), id) {
            (Some(kind), Some(link), Some(id)) => {
                let event = OutboxEvent { kind, at };
                self.entries.push(OutboxEntry { position, id, event, link });
            }
            // A kind that this version does not have, or a link with a field that it does not have.
            (None, Some(_), Some(_)) => self.later.push(LaterEntry { position, at }),
            (_, None, Some(_)) if link_codec::is_of_later_version(link) => {
                self.later.push(LaterEntry { position, at });
            }
            _ => {
                self.unreadable.push(position);
                return false;
            }
        }
        true
    }

    /// How many rows it has.
    fn rows(&self) -> usize {
        self.entries.len() + self.later.len() + self.unreadable.len()
    }

    /// The highest position.
    fn last_position(&self) -> Option<u64> {
        let last = [
            self.entries.last().map(|entry| entry.position),
            self.later.last().map(|entry| entry.position),
            self.unreadable.last().copied(),
        ];
        last.into_iter().flatten().max()
    }
}

/// The events that a store keeps until they are handed over. They are written by
/// [`LinkStore::insert`], [`LinkStore::update`] and [`LinkStore::mark_expired`], each in the
/// transaction of its write; a write that is refused leaves none behind.
#[async_trait]
pub trait Outbox: Send + Sync + 'static {
    /// The first entries that are left, at most `limit` rows of any kind; only those behind
    /// `after`, if it is a position.
    async fn outbox(&self, after: Option<u64>, limit: usize) -> Result<OutboxPage, StoreError>;

    /// Removes the entries at exactly these positions. An entry with a lower position that was
    /// committed meanwhile stays. A position without an entry is ignored.
    async fn outbox_done(&self, positions: &[u64]) -> Result<(), StoreError>;
}

/// What [`OutboxDrain::next_page`] did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DrainedPage {
    /// How many rows it read: fewer than [`OutboxDrain::PAGE`] at the end of the outbox.
    pub rows: usize,
    /// How many of them it left to a later version of terse.
    pub left: usize,
    /// How many of these it removed because no later version has come.
    pub given_up: usize,
}

/// Hands the entries of the outbox to [`LinkEvents`], at least once each. One node of a fleet runs
/// it.
///
/// During an upgrade an older node may hold the lease while newer nodes write entries that it
/// cannot read. It leaves them to the newer node that gets the lease after it.
pub struct OutboxDrain {
    store: Arc<dyn LinkStore>,
    events: Arc<dyn LinkEvents>,
    clock: Clock,
    /// The next page is read behind this position, because entries before it were left.
    after: Mutex<Option<u64>>,
}

impl OutboxDrain {
    /// How many entries are handed over together.
    pub const PAGE: usize = 500;
    /// How old an entry gets that only a later version of terse can read. An upgrade that was
    /// undone must not leave entries forever.
    pub const KEEP_LATER: Duration = Duration::from_hours(7 * 24);

    /// From a store to the listeners.
    pub fn new(store: Arc<dyn LinkStore>, events: Arc<dyn LinkEvents>, clock: Clock) -> Self {
        Self { store, events, clock, after: Mutex::default() }
    }

    /// Hands over the next [`Self::PAGE`] entries together and removes them. After the end of the
    /// outbox it begins at the first entry again. After an error all of them stay and come again.
    pub async fn next_page(&self) -> Result<DrainedPage, BoxError> {
        let after = *self.after.lock().unwrap_or_else(PoisonError::into_inner);
        let page = self.store.outbox(after, Self::PAGE).await?;
        if !page.entries.is_empty() {
            self.events.deliver(&page.entries).await?;
        }
        let oldest = self.clock.now().saturating_sub(Self::KEEP_LATER);
        let given_up = page.later.iter().filter(|entry| entry.at < oldest);
        let mut done: Vec<u64> = given_up.map(|entry| entry.position).collect();
        let given_up = done.len();
        done.extend(page.entries.iter().map(|entry| entry.position));
        done.extend(&page.unreadable);
        if !done.is_empty() {
            self.store.outbox_done(&done).await?;
        }
        let (rows, left) = (page.rows(), page.later.len() - given_up);
        // A lower position may be committed later: the pass after the end finds it.
        let next = match rows < Self::PAGE {
            true => None,
            // Removed rows need not be skipped.
            false => page.last_position().filter(|_| left > 0).or(after),
        };
        *self.after.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(DrainedPage { rows, left, given_up })
    }
}
