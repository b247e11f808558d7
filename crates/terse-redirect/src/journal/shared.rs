//! The journal: its settings, its salt, and the writers of the serving threads.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use terse_core::Clock;
use terse_core::clicks::{HEADER, JournalSignals, MAX_FRAME_SIZE, Salt};

use super::pressure::Pressure;
use super::segment::Segment;
use super::segment_allocator::{MAX_SPARES, SegmentAllocator, ThreadQueue};
use super::writer::Writer;

/// Full segments in the queue back to the allocator.
const RETURN_QUEUE: usize = 8;
/// The minimum size of a segment: a few clicks of any length.
const MIN_SEGMENT_BYTES: usize = HEADER + 8 * MAX_FRAME_SIZE;

/// How much of a visitor's address the journal records.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AddressDetail {
    /// The network: /24 of IPv4, /48 of IPv6.
    #[default]
    Cut,
    /// The network as well, which the click pipeline needs for the country. The pipeline drops it
    /// then.
    Drop,
    /// The whole address.
    Full,
}

/// The settings of the journal.
#[derive(Clone, Debug)]
pub struct JournalSettings {
    /// The folder of the segments. It is created if it does not exist, for our user only.
    pub folder: PathBuf,
    /// A random number that identifies this process in its segments.
    pub run: u64,
    /// The size of a segment.
    pub segment_bytes: usize,
    /// The size limit of the folder, without the segments in use. The reader drops the oldest
    /// segments past it. When the folder exceeds it by two segments per thread, the allocator makes
    /// no more.
    pub limit_bytes: u64,
    /// How much of an address is recorded.
    pub address: AddressDetail,
    /// Whether visitors with `DNT` or `Sec-GPC` are only counted.
    pub honour_dnt: bool,
    /// What the reader tells: whether the click store accepts clicks, and when some were erased.
    /// While the store accepts clicks and the folder is more than half full, serving threads pause,
    /// so that the reader catches up before there is no segment left.
    pub signals: Arc<JournalSignals>,
}

/// The journal, shared by all serving threads. Each thread takes its writer from it.
///
/// No process may truncate a segment while this one runs: a write to a page that the file no longer
/// backs ends the process.
pub struct Journal {
    settings: JournalSettings,
    salt: Mutex<Option<Salt>>,
    ends: Mutex<Vec<Option<QueueEnds>>>,
    segment_allocator: Mutex<Option<JoinHandle<()>>>,
    waker: Thread,
    stop: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    pressure: Arc<Pressure>,
}

/// A serving thread's end of its queues.
pub(super) struct QueueEnds {
    pub(super) spares: Receiver<Segment>,
    pub(super) left: Arc<AtomicUsize>,
    pub(super) spent: SyncSender<Segment>,
    pub(super) lost: Arc<AtomicU64>,
}

impl Journal {
    /// Creates the folder and the first segments of each thread, and starts the allocator. On a
    /// full disk it starts as well; clicks are lost until there is space.
    pub fn start(settings: JournalSettings, threads: usize, clock: Clock) -> io::Result<Arc<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&settings.folder)?;
        std::fs::set_permissions(&settings.folder, std::fs::Permissions::from_mode(0o700))?;
        let (ends, queues): (Vec<_>, Vec<_>) = (0..threads).map(|_| thread_queue(threads)).unzip();
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let pressure = Arc::new(Pressure::new(Arc::clone(&settings.signals)));
        let mut segment_allocator = SegmentAllocator {
            folder: settings.folder.clone(),
            run: settings.run,
            segment_bytes: settings.segment_bytes.max(MIN_SEGMENT_BYTES),
            limit_bytes: settings.limit_bytes,
            queues,
            clock,
            stop: Arc::clone(&stop),
            made: Arc::clone(&made),
            pressure: Arc::clone(&pressure),
            folder_bytes: None,
            last_ms: 0,
            warned: None,
        };
        segment_allocator.start()?;
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
            pressure,
        }))
    }

    /// Sets the salt of the visitor hashes. The serving threads use it within a second. Without a
    /// salt, visits have no visitor hash.
    pub fn set_salt(&self, salt: impl Into<Option<Salt>>) {
        *lock(&self.salt) = salt.into();
    }

    /// The number of segments made since the start.
    pub fn segments_made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Stops the allocator. Call it after the serving threads have ended; each of them finishes its
    /// own segments.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.unpark();
        if let Some(segment_allocator) = lock(&self.segment_allocator).take() {
            let _ = segment_allocator.join();
        }
        // Finish the segments of threads that never started.
        let unclaimed = std::mem::take(&mut *lock(&self.ends));
        unclaimed.into_iter().flatten().for_each(|ends| drop(self.writer_with(ends)));
    }

    /// How long a serving thread is to pause now.
    pub(crate) fn pause(&self) -> Duration {
        self.pressure.pause()
    }

    pub(crate) fn settings(&self) -> &JournalSettings {
        &self.settings
    }

    pub(crate) fn salt(&self) -> Option<Salt> {
        *lock(&self.salt)
    }

    /// The writer of a thread. `None` if it was taken before.
    pub(crate) fn writer(&self, thread: usize) -> Option<Writer> {
        let ends = lock(&self.ends).get_mut(thread)?.take()?;
        Some(self.writer_with(ends))
    }

    fn writer_with(&self, ends: QueueEnds) -> Writer {
        Writer::new(ends, self.waker.clone(), Arc::clone(&self.pressure))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

fn thread_queue(threads: usize) -> (QueueEnds, ThreadQueue) {
    // One more than the maximum of spares: a thread takes a segment before the allocator counts
    // it.
    let (spares, taken) = sync_channel(MAX_SPARES + 1);
    let (spent, returned) = sync_channel(RETURN_QUEUE);
    let (left, lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let ends = QueueEnds { spares: taken, left: Arc::clone(&left), spent, lost: Arc::clone(&lost) };
    (ends, ThreadQueue::new(spares, left, returned, lost, threads))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
