//! The end of the journal that a serving thread holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::Thread;

use terse_core::clicks::Record;

use super::segment::Segment;
use super::shared::Ends;

/// Writes down what one thread answers. Nothing here waits: what it needs from the keeper is there
/// already or is done without.
pub(crate) struct Writer {
    current: Option<Segment>,
    /// Made ahead for this thread alone.
    spares: Receiver<Segment>,
    /// How many of them there are.
    left: Arc<AtomicUsize>,
    /// Full ones go back, so that the keeper unmaps them.
    spent: SyncSender<Segment>,
    /// Clicks that found no segment, for the keeper to see.
    lost: Arc<AtomicU64>,
    segment_allocator: Thread,
}

impl Writer {
    pub(super) fn new(ends: Ends, segment_allocator: Thread) -> Self {
        let Ends { spares, left, spent, lost } = ends;
        let mut writer = Self { current: None, spares, left, spent, lost, segment_allocator };
        writer.current = writer.next();
        writer
    }

    /// Writes a record, going on to the next segment where this one is full. Whether it could be
    /// written.
    pub(crate) fn write(&mut self, record: &Record<'_>) -> bool {
        if self.current.as_mut().is_some_and(|segment| segment.write(record)) {
            return true;
        }
        self.write_into_next(record)
    }

    #[cold]
    fn write_into_next(&mut self, record: &Record<'_>) -> bool {
        if let Some(mut full) = self.current.take() {
            full.finish();
            // If the keeper is far behind, it is unmapped here.
            let _ = self.spent.try_send(full);
        }
        self.current = self.next();
        let written = self.current.as_mut().is_some_and(|segment| segment.write(record));
        if !written {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        written
    }

    /// The next segment, if one is there. The keeper is woken for each that is taken; after that it
    /// keeps trying by itself, so a click that finds none costs no wake-up.
    fn next(&mut self) -> Option<Segment> {
        let next = self.spares.try_recv().ok()?;
        self.left.fetch_sub(1, Ordering::Relaxed);
        self.segment_allocator.unpark();
        Some(next)
    }
}

impl Drop for Writer {
    /// Says of what it holds that nothing more will come.
    fn drop(&mut self) {
        for mut segment in self.current.take().into_iter().chain(self.spares.try_iter()) {
            segment.finish();
        }
    }
}
