//! Writes the visits of one serving thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::Thread;
use std::time::{Duration, Instant};

use terse_core::clicks::JournalRecord;

use super::pressure::Pressure;
use super::segment::Segment;
use super::shared::QueueEnds;

/// A segment with records is finished after this time, also on a quiet server: the reader deletes
/// records only with their segment.
const MAX_AGE: Duration = Duration::from_hours(1);
/// How often a waiting thread checks whether a segment can still come.
const WAIT_SLICE: Duration = Duration::from_millis(10);

/// The journal writer of one serving thread. It uses a spare segment that the allocator has made.
/// If there is none, it waits while the click store accepts clicks, and counts the click as lost
/// otherwise.
pub(crate) struct Writer {
    current: Option<Segment>,
    /// Spare segments for this thread.
    spares: Receiver<Segment>,
    /// The number of spares.
    left: Arc<AtomicUsize>,
    /// Full segments, which the allocator unmaps.
    spent: SyncSender<Segment>,
    /// Clicks lost because there was no segment; the allocator logs them.
    lost: Arc<AtomicU64>,
    segment_allocator: Thread,
    pressure: Arc<Pressure>,
    /// How long it has waited for segments since the last call of `take_waited`.
    waited: Duration,
    /// When a sweep first found records in the current segment, and the erasures before that.
    since: Option<Instant>,
    erasures: u64,
}

impl Writer {
    pub(super) fn new(ends: QueueEnds, segment_allocator: Thread, pressure: Arc<Pressure>) -> Self {
        let QueueEnds { spares, left, spent, lost } = ends;
        let mut writer = Self {
            current: None,
            spares,
            left,
            spent,
            lost,
            segment_allocator,
            waited: Duration::ZERO,
            since: None,
            erasures: pressure.erasures(),
            pressure,
        };
        writer.current = writer.spares.try_recv().ok().map(|spare| writer.took(spare));
        writer
    }

    /// Writes a record, to the next segment if the current one is full. Returns `false` if there is
    /// no segment.
    pub(crate) fn write(&mut self, record: &JournalRecord<'_>) -> bool {
        if self.current.as_mut().is_some_and(|segment| segment.write(record)) {
            return true;
        }
        self.write_into_next(record)
    }

    #[cold]
    fn write_into_next(&mut self, record: &JournalRecord<'_>) -> bool {
        self.finish_current();
        self.current = self.next();
        let written = self.current.as_mut().is_some_and(|segment| segment.write(record));
        if !written {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        written
    }

    fn finish_current(&mut self) {
        if let Some(mut full) = self.current.take() {
            full.finish();
            // If the queue is full, dropping the segment unmaps it here.
            let _ = self.spent.try_send(full);
        }
        self.since = None;
    }

    /// Finishes the current segment if clicks were erased since it was begun, or if it has held
    /// records for an hour, so that the reader deletes them. Only if there is a spare one.
    pub(crate) fn finish_if_old(&mut self, now: Instant) {
        let erasures = self.pressure.erasures();
        if !self.current.as_ref().is_some_and(Segment::has_records) {
            (self.since, self.erasures) = (None, erasures);
            return;
        }
        let since = *self.since.get_or_insert(now);
        let is_old = now.saturating_duration_since(since) >= MAX_AGE;
        if (is_old || erasures != self.erasures)
            && let Ok(next) = self.spares.try_recv()
        {
            self.finish_current();
            self.current = Some(self.took(next));
            self.erasures = erasures;
        }
    }

    /// Takes a spare segment. Without one, it waits for the allocator for as long as a segment can
    /// come: the store accepts clicks, and the reader deletes what is counted.
    fn next(&mut self) -> Option<Segment> {
        if let Ok(next) = self.spares.try_recv() {
            return Some(self.took(next));
        }
        let since = Instant::now();
        let mut next = None;
        while next.is_none() && self.pressure.will_pass() {
            next = self.spares.recv_timeout(WAIT_SLICE).ok();
        }
        self.waited += since.elapsed();
        next.map(|next| self.took(next))
    }

    /// Wakes the allocator, which makes another one.
    fn took(&self, spare: Segment) -> Segment {
        self.left.fetch_sub(1, Ordering::Relaxed);
        self.segment_allocator.unpark();
        spare
    }

    /// How long visitors have waited for segments since the last call.
    pub(crate) fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }
}

impl Drop for Writer {
    /// Writes the end mark of all segments that it holds.
    fn drop(&mut self) {
        for mut segment in self.current.take().into_iter().chain(self.spares.try_iter()) {
            segment.finish();
        }
    }
}
