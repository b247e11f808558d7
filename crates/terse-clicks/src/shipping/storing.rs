//! Storing batches: each one until the store has counted it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::StoreError;
use terse_core::clicks::{Added, Batch, JournalSpan, UnfinishedBatch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, info, warn};

use super::reading::{Unread, read_record};
use super::{Fenced, ShipperLoop, covered_by, timed_out};
use crate::segment::Segment;

impl ShipperLoop {
    /// Whether the batch that grows is to be stored: it is large or old, a report waits for it, or
    /// the shipper ends.
    pub(super) fn is_due(&self, ending: bool) -> bool {
        let Some(since) = self.since else { return false };
        if ending || since.elapsed() >= self.pace.flush || self.pending.is_asked() {
            return true;
        }
        let covered: u64 = self.spans.values().map(covered_by).sum();
        let state = self.pending.lock();
        covered >= self.flush_bytes
            || state.gathering.len() >= self.pace.batch
            || state.gathering.bytes() >= self.pace.batch_bytes
    }

    /// Stores the batch that grows.
    pub(super) async fn flush(&mut self) -> Result<(), Fenced> {
        let spans = std::mem::take(&mut self.spans).into_values();
        self.store_batch(spans.filter(|span| span.to != span.from).collect()).await
    }

    /// Stores the clicks that were gathered from these spans.
    async fn store_batch(&mut self, spans: Vec<JournalSpan>) -> Result<(), Fenced> {
        self.since = None;
        self.on_the_way.clone_from(&spans);
        let (batch, unreadable) = self.pending.send(spans);
        let stored = self.add_until_counted(&batch, unreadable).await;
        self.on_the_way.clear();
        self.counts.set_in_memory(self.pending.arrived());
        self.note_lag();
        stored
    }

    /// Adds a batch that an earlier process, or the store, did not finish: the same spans in the
    /// same order.
    pub(super) async fn repeat_unfinished(
        &mut self,
        begun: &UnfinishedBatch,
    ) -> Result<(), Fenced> {
        let mut spans = Vec::new();
        let mut panicked = false;
        let mut whole = true;
        for span in &begun.spans {
            let age = self.folder.segments().find(|segment| segment.header.id == span.segment);
            let Some((segment, alive)) =
                age.map(Segment::age).and_then(|age| self.folder.segment_mut(age))
            else {
                whole = false;
                break;
            };
            segment.go_to(span.from);
            let mut state = self.pending.lock();
            let (gathering, enricher) = (&mut state.gathering, &mut self.enricher);
            let read = segment.read(&mut self.buffer, alive, usize::MAX, |record, start| {
                if start >= span.to {
                    return false;
                }
                read_record(gathering, enricher, record, &mut panicked);
                true
            });
            drop(state);
            whole &= segment.read_to() == span.to;
            if let Err(error) = read {
                self.file_failed(&error);
            }
            spans.push(JournalSpan { epoch: self.epoch, ..*span });
        }
        self.pending.lock().gathering.add_in_order(&mut self.enricher);
        if whole {
            return self.store_batch(spans).await;
        }
        error!(
            clicks = self.pending.lock().gathering.len(),
            "a batch of clicks was begun and cannot be finished: its segments are gone or cut off"
        );
        self.read_again();
        Ok(())
    }

    /// Passes the same batch to the store until the store has counted it. Does not read it anew
    /// from the journal: then each click would count as a repeat of itself.
    async fn add_until_counted(
        &mut self,
        batch: &Arc<Batch>,
        unreadable: u64,
    ) -> Result<(), Fenced> {
        let mut wait = self.pace.retry_delay;
        loop {
            match self.add(batch).await {
                // `Already`: the store counted an earlier attempt, and its answer was lost.
                Ok(Added::Done | Added::Already) => {
                    self.done(batch, unreadable);
                    return Ok(());
                }
                Ok(Added::Gap(positions)) => {
                    warn!(
                        "the store has counted this journal to another place than expected; \
                         reading on from there. Was the store restored from a backup?"
                    );
                    self.take_positions(&positions);
                    self.read_again();
                    self.on_the_way.clear();
                    self.pause(&mut wait).await;
                    return Ok(());
                }
                Ok(Added::Fenced) => return Err(Fenced),
                Err(error) => {
                    self.store_failed(&error);
                    self.pause(&mut wait).await;
                }
            }
        }
    }

    /// One attempt. Meanwhile the shipper reads the next batch and keeps the journal within its
    /// bound.
    async fn add(&mut self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        let store = Arc::clone(&self.store);
        let mut adding = pin!(timeout(self.pace.timeout, store.add(batch)));
        let mut bound_checked = Instant::now();
        let mut wait = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                added = &mut adding => {
                    return added.unwrap_or_else(|elapsed| Err(timed_out(elapsed)));
                }
                () = sleep(wait) => {}
            }
            let unread = self.read(false);
            self.set_priority();
            wait = if unread == Unread::Some { Duration::ZERO } else { self.pace.idle };
            if bound_checked.elapsed() >= self.pace.idle * 4 {
                bound_checked = Instant::now();
                self.poll();
                self.keep_within_bound();
            }
        }
    }

    fn done(&mut self, batch: &Batch, unreadable: u64) {
        self.counts.recorded.fetch_add(batch.clicks.len() as u64, Ordering::Relaxed);
        self.counts.unreadable.fetch_add(unreadable, Ordering::Relaxed);
        self.counts.batches.fetch_add(1, Ordering::Relaxed);
        self.counted.extend(batch.spans.iter().map(|span| (span.segment, span.to)));
        self.store_accepted();
        self.bound.store_counts();
        if self.failure_logged_ms.take().is_some() {
            info!("clicks are counted again");
        }
        debug!(clicks = batch.clicks.len(), "counted clicks");
    }
}
