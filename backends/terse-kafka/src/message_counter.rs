//! A worker's side of the click store: which messages count.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use terse_core::clicks::{Added, Batch, ClickIngest, Forgotten, JournalId, JournalSpan, Position};
use terse_core::{BoxError, StoreError};
use tokio::time::timeout;

/// What became of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Counted {
    /// The store has counted it.
    Now,
    /// It was counted before.
    Before,
    /// It begins past the store's position: something before it is missing.
    TooEarly,
    /// A part of it was counted before, with other clicks. It can never be counted.
    Overlaps,
    /// Another worker has opened one of the journals since.
    Fenced,
}

/// A journal that this worker has opened at the store.
#[derive(Debug, Default)]
struct Holder {
    epoch: u32,
    /// How far the store has counted each segment, as far as this worker knows.
    positions: HashMap<u64, u64>,
}

/// Adds messages to the store. The worker that consumes a journal's partition holds the journal
/// there: it stamps the spans with its own epoch, so a worker that was paused is fenced.
pub(crate) struct MessageCounter {
    store: Arc<dyn ClickIngest>,
    timeout: Duration,
    journals: HashMap<JournalId, Holder>,
}

impl MessageCounter {
    pub(crate) fn new(store: Arc<dyn ClickIngest>, timeout: Duration) -> Self {
        Self { store, timeout, journals: HashMap::new() }
    }

    /// Forgets what it knows: other workers may count these journals now.
    pub(crate) fn forget_journals(&mut self) {
        self.journals.clear();
    }

    /// Opens the journals of these spans that are not open yet.
    pub(crate) async fn open(&mut self, spans: &[JournalSpan]) -> Result<(), StoreError> {
        for span in spans {
            self.epoch(span.journal).await?;
        }
        Ok(())
    }

    async fn epoch(&mut self, journal: JournalId) -> Result<u32, StoreError> {
        if let Some(holder) = self.journals.get(&journal) {
            return Ok(holder.epoch);
        }
        let opened = self.within(self.store.open(journal)).await?;
        // What was begun and not finished is in a message that was not committed: it comes again.
        let positions = opened.positions.iter().map(|position| (position.segment, position.to));
        let holder = Holder { epoch: opened.epoch, positions: positions.collect() };
        self.journals.insert(journal, holder);
        Ok(opened.epoch)
    }

    async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let answer = timeout(self.timeout, call).await;
        answer.unwrap_or_else(|late| Err(StoreError::Unavailable(BoxError::from(late))))
    }

    /// Where the store is, as far as this worker knows.
    pub(crate) fn position(&self, span: &JournalSpan) -> u64 {
        let holder = self.journals.get(&span.journal);
        holder.and_then(|holder| holder.positions.get(&span.segment)).copied().unwrap_or(0)
    }

    /// Whether a batch begins where the store is, as far as this worker knows.
    pub(crate) fn fits(&self, batch: &Batch) -> bool {
        batch.spans.iter().all(|span| self.position(span) == span.from)
    }

    /// Adds a batch, whose spans get this worker's epochs.
    pub(crate) async fn add(&mut self, batch: &mut Arc<Batch>) -> Result<Counted, StoreError> {
        self.open(&batch.spans).await?;
        let journals = &self.journals;
        let epoch = |journal: &JournalId| journals.get(journal).map_or(0, |holder| holder.epoch);
        if batch.spans.iter().any(|span| span.epoch != epoch(&span.journal)) {
            for span in &mut Arc::make_mut(batch).spans {
                span.epoch = epoch(&span.journal);
            }
        }
        match self.within(self.store.add(batch)).await? {
            Added::Done => {
                self.counted_to_end(batch);
                Ok(Counted::Now)
            }
            Added::Already => {
                // The store may be further than this batch; the next refusal tells.
                Ok(Counted::Before)
            }
            Added::Gap(positions) => {
                self.take_positions(&positions);
                let is_too_early = |span: &JournalSpan| self.position(span) < span.from;
                match batch.spans.iter().any(is_too_early) {
                    true => Ok(Counted::TooEarly),
                    false => Ok(Counted::Overlaps),
                }
            }
            Added::Fenced => {
                batch.spans.iter().for_each(|span| drop(self.journals.remove(&span.journal)));
                Ok(Counted::Fenced)
            }
        }
    }

    fn counted_to_end(&mut self, batch: &Batch) {
        for span in &batch.spans {
            if let Some(holder) = self.journals.get_mut(&span.journal) {
                holder.positions.insert(span.segment, span.to);
            }
        }
    }

    fn take_positions(&mut self, positions: &[Position]) {
        for position in positions {
            if let Some(holder) = self.journals.get_mut(&position.journal) {
                holder.positions.insert(position.segment, position.to);
            }
        }
    }

    /// Moves the positions to where a batch begins, without counting anything: what is missing
    /// will not come.
    pub(crate) async fn skip_to(&mut self, batch: &Batch) -> Result<Counted, StoreError> {
        let missing = batch.spans.iter().filter_map(|span| {
            let from = self.position(span);
            (from < span.from).then_some(JournalSpan { from, to: span.from, ..*span })
        });
        let missing: Vec<JournalSpan> = missing.collect();
        if missing.is_empty() {
            return Ok(Counted::Before);
        }
        self.add(&mut Arc::new(Batch::new(missing, <_>::default(), Vec::new()))).await
    }

    /// Forgets the positions of segments.
    pub(crate) async fn forget(
        &mut self,
        journal: JournalId,
        generation: u64,
        segments: &[u64],
    ) -> Result<Counted, StoreError> {
        let epoch = self.epoch(journal).await?;
        let forgetting = self.store.forget(journal, epoch, generation, segments);
        match self.within(forgetting).await? {
            Forgotten::Done => {
                if let Some(holder) = self.journals.get_mut(&journal) {
                    holder.positions.retain(|segment, _| !segments.contains(segment));
                }
                Ok(Counted::Now)
            }
            Forgotten::Fenced => {
                self.journals.remove(&journal);
                Ok(Counted::Fenced)
            }
        }
    }
}
