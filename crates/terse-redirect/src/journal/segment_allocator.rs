//! The thread that has segments ready before they are needed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use terse_core::Clock;
use terse_core::clicks::SegmentHeader;

use super::segment::Segment;

/// Segments ready for each thread, beside the one it writes: as many as its share of [`TOGETHER`],
/// but at least, and at most, so many. Making a file can wait for the disk, or the keeper for a
/// processor, for longer than a busy thread takes to fill several; whoever came close to having
/// none gets twice as many, until all was calm for a while.
const MIN_SPARES: usize = 4;
const SPARES: usize = 8;
const TOGETHER: usize = 32;
pub(super) const MAX_SPARES: usize = 32;
const CALM: Duration = Duration::from_mins(1);
/// How often the keeper looks by itself, and tries again what failed.
const ROUND: Duration = Duration::from_millis(200);
/// What is wrong is said this often.
const COMPLAINTS: Duration = Duration::from_mins(1);
/// The reader keeps what is finished within the bound; so many finished segments per thread above
/// it, and the reader is not there.
const LEEWAY: u64 = 2;
/// A file that the reader has moved aside. It is not deleted by the reader either, so clicks must
/// not be lost for it.
const DAMAGED: &[u8] = b".damaged";

/// What the keeper holds of each thread's lane.
pub(super) struct ThreadQueue {
    pub(super) spares: SyncSender<Segment>,
    pub(super) left: Arc<AtomicUsize>,
    pub(super) spent: Receiver<Segment>,
    /// Clicks that found no segment.
    pub(super) lost: Arc<AtomicU64>,
    /// How many spares it should have at least.
    least: usize,
    /// How many it should have now, and since when that is enough.
    want: usize,
    since: Instant,
    /// Whether it ever had as many.
    ready: bool,
    told_lost: u64,
}

impl ThreadQueue {
    pub(super) fn new(
        spares: SyncSender<Segment>,
        left: Arc<AtomicUsize>,
        spent: Receiver<Segment>,
        lost: Arc<AtomicU64>,
        threads: usize,
    ) -> Self {
        let least = (TOGETHER / threads.max(1)).clamp(MIN_SPARES, SPARES);
        Self {
            spares,
            left,
            spent,
            lost,
            least,
            want: least,
            since: Instant::now(),
            ready: false,
            told_lost: 0,
        }
    }

    /// Decides anew how many spares it should have.
    fn look(&mut self) {
        let left = self.left.load(Ordering::Relaxed);
        self.ready |= left >= self.want;
        if self.ready && left <= self.want / 4 {
            (self.want, self.since) = ((self.want * 2).min(MAX_SPARES), Instant::now());
        } else if self.since.elapsed() >= CALM {
            (self.want, self.since) = ((self.want / 2).max(self.least), Instant::now());
        }
    }
}

/// Makes segments, and unmaps those that are full.
pub(super) struct SegmentAllocator {
    pub(super) folder: PathBuf,
    pub(super) run: u64,
    pub(super) segment_bytes: usize,
    pub(super) limit_bytes: u64,
    pub(super) lanes: Vec<ThreadQueue>,
    pub(super) clock: Clock,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) made: Arc<AtomicU64>,
    /// Bytes in the folder as of the last look, and what was made since.
    pub(super) held: Option<(Instant, u64)>,
    /// When the last segment was made, on the journal's own clock.
    pub(super) last_ms: i64,
    pub(super) complained: Option<Instant>,
}

impl SegmentAllocator {
    /// All segments that every thread should have: visitors may come at once, and many. An error if
    /// that is not a matter of room.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        remove_begun(&self.folder)?;
        while let Some(thread_queue) = self.neediest() {
            match self.fill(thread_queue) {
                Ok(()) => {}
                Err(error) if is_full(&error) => {
                    self.complain(&error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Until told to stop.
    pub(super) fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            for thread_queue in &mut self.lanes {
                thread_queue.spent.try_iter().for_each(drop);
                thread_queue.look();
            }
            self.tell_lost();
            while let Some(thread_queue) = self.neediest() {
                if let Err(error) = self.fill(thread_queue) {
                    self.complain(&error);
                    break;
                }
            }
            std::thread::park_timeout(ROUND);
        }
    }

    /// The thread with the fewest spares, if any has too few.
    fn neediest(&self) -> Option<usize> {
        let left = |thread_queue: &usize| self.lanes[*thread_queue].left.load(Ordering::Relaxed);
        (0..self.lanes.len())
            .filter(|thread_queue| left(thread_queue) < self.lanes[*thread_queue].want)
            .min_by_key(left)
    }

    fn fill(&mut self, thread_queue: usize) -> io::Result<()> {
        let size = self.segment_bytes as u64;
        // What each thread holds stands beside the bound: the segment it writes, and its spares.
        let in_use: u64 =
            self.lanes.iter().map(|thread_queue| LEEWAY + 1 + thread_queue.want as u64).sum();
        let most = self.limit_bytes.saturating_add(in_use * size);
        let (looked, held) = self.held()?;
        if held + size > most {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the journal holds as much as it may",
            ));
        }
        // Never the same moment twice: by it the reader puts segments in order.
        let made_ms = self.clock.now().as_ms().max(self.last_ms.saturating_add(1));
        let id = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let header = SegmentHeader { id, run: self.run, made_ms };
        // An idle server does without the memory, and whoever has few spares is better helped soon
        // than well.
        let ThreadQueue { ready, left, least, .. } = &self.lanes[thread_queue];
        let prefault = *ready && left.load(Ordering::Relaxed) > least / 2;
        let segment = Segment::make(&self.folder, header, self.segment_bytes, prefault)?;
        (self.held, self.last_ms) = (Some((looked, held + size)), made_ms);
        self.made.fetch_add(1, Ordering::Relaxed);
        let thread_queue = &self.lanes[thread_queue];
        // Before it can be taken, so that the count never passes below nought.
        thread_queue.left.fetch_add(1, Ordering::Relaxed);
        // There are never more than fit. If the thread is gone, nothing will be written into it.
        if let Err(TrySendError::Full(mut back) | TrySendError::Disconnected(mut back)) =
            thread_queue.spares.try_send(segment)
        {
            back.finish();
        }
        Ok(())
    }

    /// How much the folder holds. The reader deletes meanwhile, so it is looked at again every
    /// round.
    fn held(&self) -> io::Result<(Instant, u64)> {
        match self.held {
            Some((looked, held)) if looked.elapsed() < ROUND => Ok((looked, held)),
            _ => Ok((Instant::now(), bytes_in(&self.folder)?)),
        }
    }

    fn tell_lost(&mut self) {
        let lost: u64 =
            self.lanes.iter().map(|thread_queue| thread_queue.lost.load(Ordering::Relaxed)).sum();
        let told: u64 = self.lanes.iter().map(|thread_queue| thread_queue.told_lost).sum();
        if lost > told && self.complained.is_none_or(|last| last.elapsed() >= COMPLAINTS) {
            self.complained = Some(Instant::now());
            self.lanes.iter_mut().for_each(|thread_queue| {
                thread_queue.told_lost = thread_queue.lost.load(Ordering::Relaxed);
            });
            tracing::warn!(
                lost = lost - told,
                "visits were answered uncounted: no segment of the journal was there in time"
            );
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if self.complained.is_none_or(|last| last.elapsed() >= COMPLAINTS) {
            self.complained = Some(Instant::now());
            tracing::warn!(%error, "no room for clicks could be made; redirects go on, and once a \
                thread has none left, uncounted");
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn bytes_in(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().ends_with(DAMAGED) {
            continue;
        }
        match entry.metadata() {
            Ok(metadata) if metadata.is_file() => sum += metadata.len(),
            Ok(_) => {}
            // The reader was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum)
}

/// Files that an earlier process had begun when it was killed.
fn remove_begun(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().ends_with(b".clicks.new") {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
