//! The click store as one node reaches it: slow, gone, or losing answers. A call that its caller no
//! longer waits for may still arrive.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::StoreError;
use terse_core::clicks::{Added, Batch, ClickIngest, Forgotten, JournalId, Opened};
use terse_testkit::MemoryClickStore;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::dice::Dice;
use crate::ledger::Ledger;
use crate::network::{Weather, lost};

/// How late a call can arrive. Positions are kept for longer than this.
pub(crate) const MAX_DELAY_MS: u64 = 4_000;

/// The click store behind a simulated network.
pub(crate) struct SimClickStore {
    store: Arc<MemoryClickStore>,
    ledger: Arc<Mutex<Ledger>>,
    dice: Arc<Dice>,
    weather: Arc<AtomicU8>,
    /// Batches may stay unfinished, as in a store without transactions.
    interrupts: bool,
    /// Counts a batch again that it has counted before.
    counts_again: bool,
}

impl SimClickStore {
    pub(crate) fn new(
        store: Arc<MemoryClickStore>,
        ledger: Arc<Mutex<Ledger>>,
        dice: Arc<Dice>,
        interrupts: bool,
        counts_again: bool,
    ) -> Self {
        let weather = Arc::new(AtomicU8::new(Weather::Fine as u8));
        Self { store, ledger, dice, weather, interrupts, counts_again }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.weather.store(weather as u8, Ordering::Relaxed);
    }

    /// Sends a call. It goes on if the caller gives up.
    async fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (dice, weather) = (Arc::clone(&self.dice), Arc::clone(&self.weather));
        let sent = spawn_local(async move {
            let now = || Weather::ALL[usize::from(weather.load(Ordering::Relaxed))];
            // A later call may overtake an earlier one.
            let slow = now() == Weather::Slow && dice.percent(50);
            let wait = if slow { MAX_DELAY_MS } else { 4 };
            sleep(dice.ms(wait)).await;
            match now() {
                // A refused connection, or one whose packets get no answer.
                Weather::Down => {
                    sleep(dice.ms(2) * 5_000).await;
                    return Err(lost());
                }
                Weather::Flaky if dice.percent(20) => return Err(lost()),
                _ => {}
            }
            let answer = call.await;
            sleep(dice.ms(4)).await;
            match now() {
                Weather::Down => Err(lost()),
                Weather::Flaky if dice.percent(20) => Err(lost()),
                _ => answer,
            }
        });
        sent.await.unwrap_or_else(|_| Err(lost()))
    }
}

#[async_trait]
impl ClickIngest for SimClickStore {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        let store = Arc::clone(&self.store);
        self.call(async move { store.open(journal).await }).await
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        let (store, ledger) = (Arc::clone(&self.store), Arc::clone(&self.ledger));
        let (batch, counts_again) = (Arc::clone(batch), self.counts_again);
        let is_flaky = self.weather.load(Ordering::Relaxed) == Weather::Flaky as u8;
        let interrupt = self.interrupts && is_flaky && self.dice.percent(20);
        let call = async move {
            store.interrupt(interrupt);
            let added = store.add(&batch).await;
            store.interrupt(false);
            match added {
                Ok(Added::Done) => ledger.lock().unwrap().count(&batch),
                Ok(Added::Already) if counts_again => ledger.lock().unwrap().count(&batch),
                _ => {}
            }
            added
        };
        self.call(call).await
    }

    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        let (store, segments) = (Arc::clone(&self.store), segments.to_vec());
        self.call(async move { store.forget(journal, epoch, generation, &segments).await }).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// How long a shipper waits for a call.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);
