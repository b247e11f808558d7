//! Writes the visits of one serving thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::Thread;

use terse_core::clicks::JournalRecord;

use super::segment::Segment;
use super::shared::QueueEnds;

/// The journal writer of one serving thread. It never waits: it uses a spare segment that the
/// allocator has made, or counts the click as lost.
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
}

impl Writer {
    pub(super) fn new(ends: QueueEnds, segment_allocator: Thread) -> Self {
        let QueueEnds { spares, left, spent, lost } = ends;
        let mut writer = Self { current: None, spares, left, spent, lost, segment_allocator };
        writer.current = writer.next();
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
        if let Some(mut full) = self.current.take() {
            full.finish();
            // If the queue is full, dropping the segment unmaps it here.
            let _ = self.spent.try_send(full);
        }
        self.current = self.next();
        let written = self.current.as_mut().is_some_and(|segment| segment.write(record));
        if !written {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        written
    }

    /// Takes a spare segment and wakes the allocator. A click that finds no spare wakes nothing:
    /// the allocator keeps trying by itself.
    fn next(&mut self) -> Option<Segment> {
        let next = self.spares.try_recv().ok()?;
        self.left.fetch_sub(1, Ordering::Relaxed);
        self.segment_allocator.unpark();
        Some(next)
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
