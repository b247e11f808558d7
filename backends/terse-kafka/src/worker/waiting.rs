//! Messages that begin past the store's position, and wait for those before them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{ConsumedBatch, KafkaWorker, Stopped, TICK};

/// Messages, and their bytes, that may wait for others. Beyond that the oldest waits no longer.
const MAX_WAITING: usize = 1000;
const MAX_WAITING_OCTETS: usize = 64 << 20;
/// How often a message that waits is tried although nothing seems to have changed: another worker
/// may have counted what is missing.
pub(super) const TRY_WAITING: Duration = Duration::from_secs(5);

/// A message that begins past the store's position.
pub(super) struct WaitingBatch {
    pub(super) consumed: ConsumedBatch,
    pub(super) since: Instant,
    pub(super) next_try: Instant,
}

impl KafkaWorker {
    /// Tries messages that wait: what was missing may have come, or is missing for too long. Ends
    /// after [`TICK`], also if more are due: the worker must poll Kafka to stay in its group.
    pub(super) async fn count_waiting(&mut self) -> Result<(), Stopped> {
        let octets =
            |waiting: &WaitingBatch| waiting.consumed.message.payload.as_ref().map_or(0, Vec::len);
        let until = Instant::now() + TICK;
        loop {
            let now = Instant::now();
            if now >= until {
                break;
            }
            let too_many = self.waiting.len() > MAX_WAITING
                || self.waiting.iter().map(octets).sum::<usize>() > MAX_WAITING_OCTETS;
            let is_due = |(at, waiting): &(usize, &WaitingBatch)| {
                let expired = now.duration_since(waiting.since) >= self.options.gap_timeout;
                (too_many && *at == 0)
                    || expired
                    || waiting.next_try <= now
                    || self.counter.fits(&waiting.consumed.batch)
            };
            let Some((at, _)) = self.waiting.iter().enumerate().find(is_due) else { break };
            let Some(waiting) = self.waiting.remove(at) else { break };
            let since = waiting.since;
            let alone =
                (too_many && at == 0) || now.duration_since(since) >= self.options.gap_timeout;
            self.count(waiting.consumed, alone).await?;
            // If it still waits, it keeps the time since when it has waited.
            if let Some(last) = self.waiting.back_mut().filter(|last| last.since >= now) {
                last.since = since;
                self.waiting.make_contiguous().sort_by_key(|waiting| waiting.since);
            }
        }
        self.note_waiting();
        Ok(())
    }

    pub(super) fn note_waiting(&self) {
        self.counts.waiting.store(self.waiting.len() as u64, Ordering::Relaxed);
    }
}
