//! Events that a write must not lose.
//!
//! A service puts an [`OutboxEvent`] into the write of a link whose owner has webhooks. The store
//! keeps it in the same transaction, so that a crash behind the commit loses nothing. An
//! [`OutboxDrain`] hands the entries to [`LinkEvents`] and removes them.

use std::sync::Arc;

use async_trait::async_trait;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

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

/// An event that was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutboxEntry {
    /// Its place, which no other entry ever has.
    pub position: u64,
    /// What happened.
    pub event: OutboxEvent,
    /// The link as it was after that.
    pub link: Link,
}

/// A part of the outbox.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutboxPage {
    /// The entries, in the order of the writes. One that cannot be read any more is left out.
    pub entries: Vec<OutboxEntry>,
    /// The position of the last entry that was read or left out; that of the caller if there is
    /// none.
    pub last: u64,
}

/// The events that a store keeps until they are handed over. They are written by
/// [`LinkStore::insert`], [`LinkStore::update`] and [`LinkStore::mark_expired`], each in the
/// transaction of its write; a write that is refused leaves none behind.
#[async_trait]
pub trait Outbox: Send + Sync + 'static {
    /// The entries after a position, at most `limit` of them; all begin after 0.
    async fn outbox(&self, after: u64, limit: usize) -> Result<OutboxPage, StoreError>;

    /// Removes the entries up to a position, that one included.
    async fn outbox_done(&self, up_to: u64) -> Result<(), StoreError>;
}

/// How many entries are handed over before they are removed in one write.
const PAGE: usize = 100;
/// How many pages one poll hands over at most.
const MAX_PAGES: usize = 100;

/// Hands the entries of the outbox to [`LinkEvents`], at least once each. One node of a fleet runs
/// it.
pub struct OutboxDrain {
    store: Arc<dyn LinkStore>,
    events: Arc<dyn LinkEvents>,
    key: [u8; 32],
}

impl OutboxDrain {
    /// From a store to those who want to know.
    pub fn new(store: Arc<dyn LinkStore>, events: Arc<dyn LinkEvents>) -> Self {
        let key = store.identity().derive("terse outbox events v1");
        Self { store, events, key }
    }

    /// Hands over what is there and returns how many entries that were. An entry that could not be
    /// handed over stays, with all behind it, for the next poll.
    pub async fn poll(&self) -> Result<usize, BoxError> {
        let mut handed = 0;
        for _ in 0..MAX_PAGES {
            let page = self.store.outbox(0, PAGE).await?;
            if page.last == 0 {
                break;
            }
            let incarnation = self.store.incarnation().await?;
            for entry in &page.entries {
                let id = self.event_id(incarnation, entry.position);
                if let Err(error) = self.events.deliver(&id, entry).await {
                    // What came before is done; this one comes again.
                    self.store.outbox_done(entry.position - 1).await?;
                    return Err(error);
                }
                handed += 1;
            }
            self.store.outbox_done(page.last).await?;
        }
        Ok(handed)
    }

    /// The same for every time an entry is handed over, and for no other entry of any store.
    fn event_id(&self, incarnation: u64, position: u64) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(&incarnation.to_be_bytes());
        mac.update(&position.to_be_bytes());
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("evt_{hex}")
    }
}
