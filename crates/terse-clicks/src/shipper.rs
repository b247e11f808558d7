//! The thread that counts clicks.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use terse_core::Clock;
use terse_core::clicks::{ClickIngest, LiveFeed, PendingClicks};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{error, warn};

use crate::counts::ShipperCounts;
use crate::disk::{FileSystem, JournalDisk};
use crate::enrich::{AddressPrecision, Enricher};
use crate::folder::JournalFolder;
use crate::identity::FolderIdentity;
use crate::pace::{Order, Pace};
use crate::pending::PendingBatches;
use crate::priority::Priority;
use crate::shipping::ShipperLoop;

/// How long the thread may take to react to the order to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// What a shipper needs.
pub struct ShipperParts {
    /// The journal's folder.
    pub folder: PathBuf,
    /// The number of this process, as in the segments that it writes.
    pub run: u64,
    /// Where clicks are counted.
    pub store: Arc<dyn ClickIngest>,
    /// Publishes clicks to live views.
    pub live: Arc<LiveFeed>,
    /// A file in MaxMind's format, used instead of the countries that terse ships with.
    pub places: Option<PathBuf>,
    /// How much of an address is kept.
    pub keep: AddressPrecision,
    /// How much the journal may hold. Past it the oldest clicks are dropped.
    pub limit_bytes: u64,
    /// What a batch may take in memory, about. There are at most two: one that is being stored, and
    /// one that grows.
    pub batch_bytes: usize,
    /// How long clicks may be in memory before they are stored.
    pub flush: Duration,
    /// The time.
    pub clock: Clock,
}

impl fmt::Debug for ShipperParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShipperParts").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Reads the journal and passes its clicks to the store, each exactly once. If it is dropped, it
/// ends at once; the rest is counted at the next start.
#[derive(Debug)]
pub struct Shipper {
    counts: Arc<ShipperCounts>,
    pending: Arc<PendingBatches>,
    /// The thread runs until it gets an order.
    orders: watch::Sender<Option<Order>>,
    /// The thread sends whether everything was counted when it ends.
    ended: Receiver<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Shipper {
    /// Starts the thread and gives the folder its identity. Call it before this process creates
    /// segments.
    pub fn start(parts: ShipperParts) -> io::Result<Self> {
        let (flush, batch_bytes) = (parts.flush, parts.batch_bytes);
        let pace = Pace { flush, batch_bytes, ..Pace::default() };
        Self::start_at(parts, pace)
    }

    pub(crate) fn start_at(parts: ShipperParts, pace: Pace) -> io::Result<Self> {
        std::fs::create_dir_all(&parts.folder)?;
        let disk = Arc::new(FileSystem::new(&parts.folder));
        let (orders, receiver) = watch::channel(None);
        let (complete_sender, ended) = channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let prepared = prepare(parts, disk, pace, Priority::new(), receiver.clone())?;
        let Prepared { shipping, counts, pending } = prepared;
        let watched = Watched {
            counts: Arc::clone(&counts),
            pending: Arc::clone(&pending),
            orders: receiver.clone(),
        };
        let thread = thread::Builder::new().name("clicks".into()).spawn(move || {
            let _watched = watched;
            let complete = runtime.block_on(async {
                tokio::select! {
                    // The shipper can be dropped wherever it waits: what was not committed is read
                    // again.
                    () = deadline(receiver) => false,
                    complete = shipping.run() => complete,
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
            let _not_waited_for = complete_sender.send(complete);
        })?;
        Ok(Self { counts, pending, orders, ended, thread: Some(thread) })
    }

    /// What it has done.
    pub fn counts(&self) -> Arc<ShipperCounts> {
        Arc::clone(&self.counts)
    }

    /// The clicks that are read and not stored yet.
    pub fn pending(&self) -> Arc<dyn PendingClicks> {
        Arc::<PendingBatches>::clone(&self.pending)
    }

    /// Counts everything there is and ends. Whether everything was counted within `timeout`; the
    /// rest is counted at the next start. Unless `writers_gone`, threads may still write to the
    /// segments of this process: these are read as far as they are written, and stay.
    pub fn stop(mut self, timeout: Duration, writers_gone: bool) -> bool {
        self.end(timeout, writers_gone)
    }

    fn end(&mut self, timeout: Duration, writers_gone: bool) -> bool {
        let Some(thread) = self.thread.take() else { return false };
        self.orders.send_replace(Some(Order { until: Instant::now() + timeout, writers_gone }));
        match self.ended.recv_timeout(timeout + END_TIMEOUT) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                warn!("the thread that counts clicks does not end; terse exits without it");
                false
            }
            complete => {
                let joined = thread.join().is_ok();
                joined && complete == Ok(true)
            }
        }
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        self.end(Duration::ZERO, false);
    }
}

/// A shipper that does not run yet.
pub(crate) struct Prepared {
    pub(crate) shipping: ShipperLoop,
    pub(crate) counts: Arc<ShipperCounts>,
    pub(crate) pending: Arc<PendingBatches>,
}

/// Gives the journal on this disk its identity and deletes segments that were never written to.
pub(crate) fn prepare(
    parts: ShipperParts,
    disk: Arc<dyn JournalDisk>,
    pace: Pace,
    priority: Priority,
    orders: watch::Receiver<Option<Order>>,
) -> io::Result<Prepared> {
    let ShipperParts { run, store, live, places, keep, limit_bytes, clock, .. } = parts;
    let now = clock.now();
    let enricher = Enricher::new(places, keep, now)?;
    let identity = FolderIdentity::open(Arc::clone(&disk))?;
    let folder = JournalFolder::on(disk, run, now);
    folder.sweep_unused()?;
    let pending = Arc::<PendingBatches>::default();
    let signals = Arc::clone(&pending.signals);
    let counts = Arc::new(ShipperCounts { signals, ..ShipperCounts::default() });
    let shipping = ShipperLoop::new(
        folder,
        identity,
        enricher,
        store,
        live,
        Arc::clone(&counts),
        Arc::clone(&pending),
        clock,
        limit_bytes,
        pace,
        priority,
        orders,
    );
    Ok(Prepared { shipping, counts, pending })
}

/// Notes that the thread has ended, and logs it if there was no order.
struct Watched {
    counts: Arc<ShipperCounts>,
    pending: Arc<PendingBatches>,
    orders: watch::Receiver<Option<Order>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.pending.end();
        self.counts.signals.end();
        if self.orders.borrow().is_some() {
            return;
        }
        self.counts.alive.store(false, Ordering::Relaxed);
        // A fenced shipper has logged the reason itself.
        if !self.counts.fenced.load(Ordering::Relaxed) {
            error!(
                "the thread that counts clicks has ended unexpectedly; clicks stay in the journal \
                 until the next start"
            );
        }
    }
}

async fn deadline(mut orders: watch::Receiver<Option<Order>>) {
    loop {
        let order = *orders.borrow_and_update();
        match order {
            Some(Order { until, .. }) => tokio::select! {
                () = sleep_until(until) => return,
                Ok(()) = orders.changed() => {}
            },
            None => {
                if orders.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
