//! The thread that makes segments before they are needed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use terse_core::Clock;
use terse_core::clicks::SegmentHeader;

use super::pressure::Pressure;
use super::segment::Segment;

/// The number of spare segments per thread, beside the one it writes: its share of
/// [`SHARED_SPARES`], within these bounds. Making a file can wait for the disk, or the allocator
/// for a processor, longer than a busy thread takes to fill several segments. A thread that nearly
/// ran out gets twice as many, until it had enough for a while.
const MIN_SPARES: usize = 4;
const SPARES: usize = 8;
const SHARED_SPARES: usize = 32;
pub(super) const MAX_SPARES: usize = 32;
const SHRINK_AFTER: Duration = Duration::from_mins(1);
/// How often the allocator runs without being woken, and retries.
const INTERVAL: Duration = Duration::from_millis(200);
/// The allocator logs problems at most this often.
const WARN_INTERVAL: Duration = Duration::from_mins(1);
/// The reader keeps the finished segments within the bound. If this many more exist per thread, the
/// reader is not running, and the allocator makes no more.
const LEEWAY: u64 = 2;
/// The suffix of files that the reader set aside as damaged. The reader does not delete them, so
/// they do not count against the bound.
const DAMAGED_SUFFIX: &[u8] = b".damaged";

/// The allocator's end of a thread's queues.
pub(super) struct ThreadQueue {
    pub(super) spares: SyncSender<Segment>,
    pub(super) left: Arc<AtomicUsize>,
    pub(super) spent: Receiver<Segment>,
    /// Clicks that were lost because there was no segment.
    pub(super) lost: Arc<AtomicU64>,
    /// The minimum number of spares.
    min_spares: usize,
    /// The number of spares to keep now, and since when.
    target: usize,
    since: Instant,
    /// Whether the thread has ever had that many.
    filled: bool,
    /// How many segments were made for the thread.
    made: usize,
    /// The lost clicks that were logged.
    reported_lost: u64,
}

impl ThreadQueue {
    pub(super) fn new(
        spares: SyncSender<Segment>,
        left: Arc<AtomicUsize>,
        spent: Receiver<Segment>,
        lost: Arc<AtomicU64>,
        threads: usize,
    ) -> Self {
        let min_spares = (SHARED_SPARES / threads.max(1)).clamp(MIN_SPARES, SPARES);
        Self {
            spares,
            left,
            spent,
            lost,
            min_spares,
            target: min_spares,
            since: Instant::now(),
            filled: false,
            made: 0,
            reported_lost: 0,
        }
    }

    /// Adjusts the number of spares to keep.
    fn adjust(&mut self) {
        let left = self.left.load(Ordering::Relaxed);
        self.filled |= left >= self.target;
        if self.filled && left <= self.target / 4 {
            (self.target, self.since) = ((self.target * 2).min(MAX_SPARES), Instant::now());
        } else if self.since.elapsed() >= SHRINK_AFTER {
            (self.target, self.since) = ((self.target / 2).max(self.min_spares), Instant::now());
        }
    }
}

/// Makes segments, and unmaps full ones.
pub(super) struct SegmentAllocator {
    pub(super) folder: PathBuf,
    pub(super) run: u64,
    pub(super) segment_bytes: usize,
    pub(super) limit_bytes: u64,
    pub(super) queues: Vec<ThreadQueue>,
    pub(super) clock: Clock,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) made: Arc<AtomicU64>,
    pub(super) pressure: Arc<Pressure>,
    /// The bytes in the folder at the last check, plus those of segments made since.
    pub(super) folder_bytes: Option<(Instant, u64)>,
    /// The time of the last segment, by the journal's clock.
    pub(super) last_ms: i64,
    pub(super) warned: Option<Instant>,
}

impl SegmentAllocator {
    /// Makes the first spares of all threads before visitors arrive. A full disk is logged; any
    /// other error is returned.
    pub(super) fn start(&mut self) -> io::Result<()> {
        remove_temporary(&self.folder)?;
        while let Some(thread_queue) = self.shortest() {
            match self.fill(thread_queue) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if is_full(&error) => {
                    self.warn(&error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Runs until the journal is stopped.
    pub(super) fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            for thread_queue in &mut self.queues {
                thread_queue.spent.try_iter().for_each(drop);
                thread_queue.adjust();
            }
            self.warn_of_lost();
            while let Some(thread_queue) = self.shortest() {
                match self.fill(thread_queue) {
                    Ok(made) => {
                        self.pressure.set_disk_fails(false);
                        if !made {
                            break;
                        }
                    }
                    Err(error) => {
                        self.pressure.set_disk_fails(true);
                        self.warn(&error);
                        break;
                    }
                }
            }
            if self.pressure.is_high() {
                // The reader has perhaps caught up.
                self.note_size();
            }
            std::thread::park_timeout(INTERVAL);
        }
        self.pressure.stop();
    }

    /// The thread with the fewest spares, if a thread has too few.
    fn shortest(&self) -> Option<usize> {
        let left = |thread_queue: &usize| self.queues[*thread_queue].left.load(Ordering::Relaxed);
        (0..self.queues.len())
            .filter(|thread_queue| left(thread_queue) < self.queues[*thread_queue].target)
            .min_by_key(left)
    }

    /// Makes a spare segment for a thread, unless the journal has reached its limit.
    fn fill(&mut self, thread_queue: usize) -> io::Result<bool> {
        let size = self.segment_bytes as u64;
        let max_bytes = self.limit_bytes.saturating_add(self.in_use());
        let (checked, bytes) = self.folder_bytes()?;
        self.pressure.set_size((bytes + size).saturating_sub(self.in_use()), self.limit_bytes);
        if bytes + size > max_bytes {
            self.warn(&io::Error::new(
                io::ErrorKind::StorageFull,
                "the journal has reached its size limit (clicks.journal_size)",
            ));
            return Ok(false);
        }
        // The times are distinct, because the reader orders segments by them.
        let made_ms = self.clock.now().as_ms().max(self.last_ms.saturating_add(1));
        let id = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let header = SegmentHeader { id, run: self.run, made_ms };
        // The first spares, and the one for the segment that the thread takes at its start, are not
        // prefaulted, so that an idle server takes no memory for them. A thread with few spares
        // gets the next one sooner without prefaulting.
        let ThreadQueue { filled, left, min_spares, made, .. } = &self.queues[thread_queue];
        let has_filled_one = *filled && *made > *min_spares;
        let prefault = has_filled_one && left.load(Ordering::Relaxed) > min_spares / 2;
        let segment = Segment::make(&self.folder, header, self.segment_bytes, prefault)?;
        (self.folder_bytes, self.last_ms) = (Some((checked, bytes + size)), made_ms);
        self.made.fetch_add(1, Ordering::Relaxed);
        self.queues[thread_queue].made += 1;
        let thread_queue = &self.queues[thread_queue];
        // Counted before the thread can take it, so that the count never drops below zero.
        thread_queue.left.fetch_add(1, Ordering::Relaxed);
        // The channel is large enough. If the thread has ended, the segment stays empty.
        if let Err(TrySendError::Full(mut back) | TrySendError::Disconnected(mut back)) =
            thread_queue.spares.try_send(segment)
        {
            back.finish();
        }
        Ok(true)
    }

    /// The bytes of the segments that threads hold: the current one and the spares. They do not
    /// count against the bound.
    fn in_use(&self) -> u64 {
        let segments: u64 =
            self.queues.iter().map(|thread_queue| LEEWAY + 1 + thread_queue.target as u64).sum();
        segments * self.segment_bytes as u64
    }

    fn note_size(&mut self) {
        if let Ok((checked, bytes)) = self.folder_bytes() {
            self.folder_bytes = Some((checked, bytes));
            self.pressure.set_size(bytes.saturating_sub(self.in_use()), self.limit_bytes);
        }
    }

    /// The bytes in the folder. The reader deletes files meanwhile, so they are summed up again in
    /// each interval.
    fn folder_bytes(&self) -> io::Result<(Instant, u64)> {
        match self.folder_bytes {
            Some((checked, bytes)) if checked.elapsed() < INTERVAL => Ok((checked, bytes)),
            _ => Ok((Instant::now(), bytes_in(&self.folder)?)),
        }
    }

    fn warn_of_lost(&mut self) {
        let lost: u64 =
            self.queues.iter().map(|thread_queue| thread_queue.lost.load(Ordering::Relaxed)).sum();
        let reported: u64 = self.queues.iter().map(|queue| queue.reported_lost).sum();
        if lost > reported && self.warned.is_none_or(|last| last.elapsed() >= WARN_INTERVAL) {
            self.warned = Some(Instant::now());
            self.queues.iter_mut().for_each(|thread_queue| {
                thread_queue.reported_lost = thread_queue.lost.load(Ordering::Relaxed);
            });
            tracing::warn!(
                lost = lost - reported,
                "visits were answered and not counted: the journal had no segment in time"
            );
        }
    }

    fn warn(&mut self, error: &io::Error) {
        if self.warned.is_none_or(|last| last.elapsed() >= WARN_INTERVAL) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                %error,
                "cannot make a journal segment; when a thread has none left, it answers visits \
                 without counting them"
            );
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
        if entry.file_name().as_encoded_bytes().ends_with(DAMAGED_SUFFIX) {
            continue;
        }
        match entry.metadata() {
            Ok(metadata) if metadata.is_file() => sum += metadata.len(),
            Ok(_) => {}
            // The reader has deleted it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum)
}

/// Removes the temporary files of a process that was killed.
fn remove_temporary(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().ends_with(b".clicks.new") {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
