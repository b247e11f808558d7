//! How far the store has counted each segment, and deleting what it has counted.

use std::collections::HashSet;
use std::io;

use terse_core::clicks::{Forgotten, Position};
use tokio::time::{Instant, timeout};
use tracing::error;

use super::{Fenced, ShipperLoop, timed_out};
use crate::segment::{ReadStop, Segment};

/// Positions that are forgotten in one call.
const MAX_FORGOTTEN: usize = 10_000;

impl ShipperLoop {
    /// If positions were forgotten that this folder does not know of, the folder is an old copy.
    /// The store may have counted and forgotten any segment in it that has no position. These are
    /// moved aside: a click that is missing is better than one that is counted twice.
    pub(super) fn set_aside_if_outdated(&mut self, generation: u64) -> io::Result<()> {
        if self.identity.generation() >= generation {
            return Ok(());
        }
        let (segments, to) = self.folder.set_aside_outdated(&self.counted)?;
        if segments > 0 {
            error!(
                segments,
                moved_to = %to.display(),
                "this journal folder is an old copy of one that was counted since: segments that \
                 may have been counted were moved aside. If you know that they were not, stop \
                 terse, move them back into the folder, and start it again"
            );
        }
        self.identity.set_generation(generation)
    }

    /// Sets how far these segments were counted to what the store says.
    pub(super) fn take_positions(&mut self, positions: &[Position]) {
        self.counted.extend(positions.iter().map(|position| (position.segment, position.to)));
    }

    /// Deletes segments that were counted to their end, and forgets the positions of those that
    /// were deleted long ago.
    pub(super) async fn prune(&mut self) -> Result<(), Fenced> {
        let counted = |segment: &&Segment| {
            let to = self.counted.get(&segment.header.id).copied().unwrap_or(0);
            segment.until() == ReadStop::End && segment.read_to() <= to
        };
        let finished: Vec<_> = self.folder.segments().filter(counted).map(Segment::age).collect();
        if let Err(error) = self.folder.delete(&finished) {
            self.file_failed(&error);
        }
        let now = Instant::now();
        if now < self.next_forget {
            return Ok(());
        }
        // Forgets many positions in one call, which costs little.
        self.next_forget = now + self.pace.keep_positions / 10;
        self.record_deleted(now);
        let due = self
            .gone
            .iter()
            .take_while(|(since, _)| now.duration_since(*since) >= self.pace.keep_positions);
        let due: Vec<u64> = due.map(|&(_, id)| id).take(MAX_FORGOTTEN).collect();
        if due.is_empty() {
            return Ok(());
        }
        let generation = self.identity.generation() + 1;
        let noted = self.folder.sync().and_then(|()| self.identity.set_generation(generation));
        if let Err(error) = noted {
            self.file_failed(&error);
            return Ok(());
        }
        let forgotten = self.store.forget(self.identity.journal(), self.epoch, generation, &due);
        match timeout(self.pace.timeout, forgotten)
            .await
            .unwrap_or_else(|error| Err(timed_out(error)))
        {
            Ok(Forgotten::Done) => {
                self.store_accepted();
                self.gone.drain(..due.len());
                for id in &due {
                    self.counted.remove(id);
                }
            }
            Ok(Forgotten::Fenced) => return Err(Fenced),
            // The next round tries again.
            Err(error) => self.store_failed(&error),
        }
        Ok(())
    }

    /// Notes which segments the store has a position of and whose files are gone, whatever deleted
    /// them. No batch is on its way meanwhile.
    fn record_deleted(&mut self, now: Instant) {
        let there: HashSet<u64> = self.folder.segments().map(|segment| segment.header.id).collect();
        let in_memory = self.spans.values().filter(|span| span.to != span.from);
        let there: HashSet<u64> = there.into_iter().chain(in_memory.map(|s| s.segment)).collect();
        self.gone.retain(|(_, id)| !there.contains(id));
        let noted: HashSet<u64> = self.gone.iter().map(|&(_, id)| id).collect();
        let new = self.counted.keys().filter(|id| !there.contains(id) && !noted.contains(id));
        self.gone.extend(new.map(|&id| (now, id)));
    }
}
