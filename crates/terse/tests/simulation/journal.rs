//! The click journal as one process writes it, on a simulated disk.

use std::sync::Arc;

use terse_core::Clock;
use terse_core::clicks::{HEADER, JournalRecord, JournalWriteResult, SegmentHeader, finish};

use crate::dice::Dice;
use crate::disk::SimDisk;

/// Where a record is.
#[derive(Clone, Debug)]
pub(crate) struct JournalPosition {
    pub(crate) segment: String,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Writes records into segments, as `terse_redirect::Journal` does into files that it has mapped.
/// Small segments, so that a schedule fills several.
#[derive(Debug)]
pub(crate) struct SimJournal {
    disk: Arc<SimDisk>,
    dice: Arc<Dice>,
    clock: Clock,
    run: u64,
    last_ms: i64,
    current: Option<Segment>,
    /// The next one, made ahead as a server does.
    spare: Option<Segment>,
}

#[derive(Debug)]
struct Segment {
    name: String,
    id: u64,
    at: usize,
}

impl SimJournal {
    pub(crate) fn new(disk: Arc<SimDisk>, dice: Arc<Dice>, clock: Clock, run: u64) -> Self {
        Self { disk, dice, clock, run, last_ms: 0, current: None, spare: None }
    }

    /// Writes a record, to the next segment if the current one is full.
    pub(crate) fn write(&mut self, record: &JournalRecord<'_>) -> Option<JournalPosition> {
        if let Some(position) = self.write_into_current(record) {
            return Some(position);
        }
        self.finish_current();
        self.current = Some(self.spare.take().unwrap_or_else(|| self.make()));
        self.spare = Some(self.make());
        self.write_into_current(record)
    }

    fn write_into_current(&mut self, record: &JournalRecord<'_>) -> Option<JournalPosition> {
        let Segment { name, id, at } = self.current.as_mut()?;
        match self.disk.change(name, |bytes| record.write(bytes, *id, *at))? {
            JournalWriteResult::Next(next) => {
                let position = JournalPosition { segment: name.clone(), from: *at, to: next };
                *at = next;
                Some(position)
            }
            JournalWriteResult::Full => None,
        }
    }

    fn make(&mut self) -> Segment {
        let made_ms = self.clock.now().as_ms().max(self.last_ms + 1);
        self.last_ms = made_ms;
        let header = SegmentHeader { id: self.dice.next(), run: self.run, made_ms };
        let name = format!("{made_ms:013}-{:016x}.clicks", header.id);
        let size = 1024 << self.dice.below(4);
        self.disk.create_segment(&name, size, &header.encode());
        Segment { name, id: header.id, at: HEADER }
    }

    /// Writes the end marks of all segments.
    pub(crate) fn finish(&mut self) {
        self.finish_current();
        self.current = self.spare.take();
        self.finish_current();
    }

    fn finish_current(&mut self) {
        if let Some(Segment { name, id, at }) = self.current.take() {
            self.disk.change(&name, |bytes| finish(bytes, id, at));
        }
    }
}
