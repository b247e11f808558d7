//! The journal as the rest of the program knows it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};

use terse_core::Clock;
use terse_core::clicks::{HEADER, MAX_FRAME_SIZE, Salt};

use super::segment::Segment;
use super::segment_allocator::{MAX_SPARES, SegmentAllocator, ThreadQueue};
use super::writer::Writer;

/// Full segments on their way back to the keeper.
const RETURNING: usize = 8;
/// A segment holds at least some clicks, whatever their length.
const SMALLEST: usize = HEADER + 8 * MAX_FRAME_SIZE;

/// How much of a visitor's address is written down.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AddressDetail {
    /// The network: /24 of IPv4, /48 of IPv6.
    #[default]
    Cut,
    /// Nothing that lasts. The journal still has the network, which the country is found by; the
    /// reader then drops it.
    Drop,
    /// All of it.
    Full,
}

/// What an operator can decide about the journal.
#[derive(Clone, Debug)]
pub struct JournalSettings {
    /// Where the segments are. Made if it does not exist, for our user only.
    pub folder: PathBuf,
    /// Random: tells the segments of this process from those of others.
    pub run: u64,
    /// The size of a segment.
    pub segment_bytes: usize,
    /// How much may wait in the folder, beside the segments in use. The reader sees to it; two
    /// segments per thread above it, no more are made.
    pub limit_bytes: u64,
    /// How much of an address is written.
    pub address: AddressDetail,
    /// Whether of those who ask not to be tracked only the count is kept.
    pub honour_dnt: bool,
}

/// The journal: made once, shared by all serving threads, each of which takes its own writer from
/// it.
///
/// Nobody may shorten a segment while we run: writing to memory that the file no longer backs ends
/// the process.
pub struct Journal {
    settings: JournalSettings,
    salt: Mutex<Option<Salt>>,
    ends: Mutex<Vec<Option<Ends>>>,
    segment_allocator: Mutex<Option<JoinHandle<()>>>,
    waker: Thread,
    stop: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
}

/// What a thread will hold of its lane.
pub(super) struct Ends {
    pub(super) spares: Receiver<Segment>,
    pub(super) left: Arc<AtomicUsize>,
    pub(super) spent: SyncSender<Segment>,
    pub(super) lost: Arc<AtomicU64>,
}

impl Journal {
    /// Makes the folder, a first segment for each of `threads`, and the keeper, who makes the
    /// others. If only room is missing it starts nevertheless: clicks are lost until there is some.
    pub fn start(settings: JournalSettings, threads: usize, clock: Clock) -> io::Result<Arc<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&settings.folder)?;
        std::fs::set_permissions(&settings.folder, std::fs::Permissions::from_mode(0o700))?;
        let (ends, lanes): (Vec<_>, Vec<_>) = (0..threads).map(|_| thread_queue(threads)).unzip();
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut segment_allocator = SegmentAllocator {
            folder: settings.folder.clone(),
            run: settings.run,
            segment_bytes: settings.segment_bytes.max(SMALLEST),
            limit_bytes: settings.limit_bytes,
            lanes,
            clock,
            stop: Arc::clone(&stop),
            made: Arc::clone(&made),
            held: None,
            last_ms: 0,
            complained: None,
        };
        segment_allocator.begin()?;
        let segment_allocator = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || segment_allocator.run())?;
        Ok(Arc::new(Self {
            settings,
            salt: Mutex::new(None),
            ends: Mutex::new(ends.into_iter().map(Some).collect()),
            waker: segment_allocator.thread().clone(),
            segment_allocator: Mutex::new(Some(segment_allocator)),
            stop,
            made,
        }))
    }

    /// Visitors are told apart by this from now on; the serving threads notice within a second.
    /// Until there is one, nobody is told apart.
    pub fn set_salt(&self, salt: Salt) {
        *lock(&self.salt) = Some(salt);
    }

    /// How many segments were made since the start.
    pub fn segments_made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// No more segments are made. Call it when the serving threads are gone: each of them ends its
    /// segments itself.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.unpark();
        if let Some(segment_allocator) = lock(&self.segment_allocator).take() {
            let _ = segment_allocator.join();
        }
        // Those that no thread ever came for.
        let unclaimed = std::mem::take(&mut *lock(&self.ends));
        unclaimed.into_iter().flatten().for_each(|ends| drop(self.writer_with(ends)));
    }

    pub(crate) fn settings(&self) -> &JournalSettings {
        &self.settings
    }

    pub(crate) fn salt(&self) -> Option<Salt> {
        *lock(&self.salt)
    }

    /// The writer of a thread: once for each.
    pub(crate) fn writer(&self, thread: usize) -> Option<Writer> {
        let ends = lock(&self.ends).get_mut(thread)?.take()?;
        Some(self.writer_with(ends))
    }

    fn writer_with(&self, ends: Ends) -> Writer {
        Writer::new(ends, self.waker.clone())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

fn thread_queue(threads: usize) -> (Ends, ThreadQueue) {
    // One more than are kept ready: a thread takes its first before the keeper has counted it out.
    let (spares, taken) = sync_channel(MAX_SPARES + 1);
    let (spent, returned) = sync_channel(RETURNING);
    let (left, lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let ends = Ends { spares: taken, left: Arc::clone(&left), spent, lost: Arc::clone(&lost) };
    (ends, ThreadQueue::new(spares, left, returned, lost, threads))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
