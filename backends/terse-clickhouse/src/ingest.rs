//! Counts clicks, each exactly once.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use terse_core::StoreError;
use terse_core::clicks::{
    Added, Batch, BeginResult, ClickIngest, FinishResult, Forgotten, JournalId,
    MAX_VALUES_PER_HOUR, Opened, StoredSum, Tombstones,
};
use tokio::time::Instant;

use crate::ClickHouseClicks;
use crate::client::unavailable;
use crate::row_binary::Writer;
use crate::rows::{HOUR, Slot, SubjectKey, write_click};

/// How long a batch that was begun keeps its number, and with it its token. Far less than tables
/// remember tokens for. After that it gets a new number, and rows of the old one never count.
const REPEAT_WITHIN: Duration = Duration::from_secs(3600);

#[async_trait]
impl ClickIngest for ClickHouseClicks {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        self.ledger.open(journal).await
    }

    async fn add(&self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        let (sequence, tombstones) = match self.ledger.begin(batch, REPEAT_WITHIN).await? {
            BeginResult::Refused(refusal) => return Ok(refusal),
            BeginResult::Accepted { sequence, tombstones } => (sequence, tombstones),
        };
        self.insert(batch, sequence, &tombstones).await?;
        match self.ledger.finish(sequence).await? {
            FinishResult::Now => Ok(Added::Done),
            FinishResult::Before => Ok(Added::Already),
            FinishResult::Abandoned => Err(unavailable("the batch was begun again meanwhile")),
        }
    }

    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        self.ledger.forget(journal, epoch, generation, segments).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.ledger.check().await?;
        self.client.execute("SELECT 1").await
    }
}

impl ClickHouseClicks {
    /// Writes the rows of a batch. Repeating it changes nothing.
    async fn insert(
        &self,
        batch: &Arc<Batch>,
        sequence: u64,
        tombstones: &Tombstones,
    ) -> Result<(), StoreError> {
        let erased = tombstones.of_batch(batch);
        let (shared, keep_raw) = (Arc::clone(batch), self.options.keep_raw);
        let encoded = tokio::task::spawn_blocking(move || {
            let batch = &*shared;
            let mut sums = Writer::default();
            let late = erased.late_sums(batch);
            for delta in erased.counted(batch, &late) {
                let Some(subject) = batch.subject(delta.subject) else { continue };
                let mut sum = StoredSum::default();
                sum.add_delta(delta, &batch.clicks);
                sum.tally.trim(MAX_VALUES_PER_HOUR);
                let start = delta.start().as_ms();
                let slot = Slot { subject: SubjectKey::of(&subject), unit: HOUR, start };
                slot.write_sum(&mut sums, sequence, delta.owner, &sum);
            }
            let mut clicks = Writer::default();
            for place in 0..batch.clicks.len() {
                if keep_raw && erased.keeps(batch, &batch.clicks.row(place)) {
                    write_click(&mut clicks, batch, place, sequence)?;
                }
            }
            Ok::<_, StoreError>((clicks.0, sums.0))
        });
        let encoded = encoded.await.map_err(|error| StoreError::Unavailable(error.into()))?;
        let (clicks, sums) = encoded?;
        self.wait_for_turn().await;
        let id = u128::from_be_bytes(batch.id);
        let token = format!("{id:032x}-{sequence}");
        if !clicks.is_empty() {
            self.client.insert("clicks", &token, clicks).await?;
        }
        if !sums.is_empty() {
            self.client.insert("sums", &token, sums).await?;
        }
        Ok(())
    }

    /// Waits until enough time has passed since the last insert.
    async fn wait_for_turn(&self) {
        let turn = {
            let mut next = self.next_insert.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = (*next).max(Instant::now());
            *next = turn + self.options.insert_interval;
            turn
        };
        tokio::time::sleep_until(turn).await;
    }
}
