//! From the journal to the store: read, enrich, add, delete.

mod failures;
mod positions;
mod reading;
mod storing;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::clicks::{ClickIngest, HEADER, JournalSpan, LiveFeed, Opened};
use terse_core::{BoxError, Clock, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, warn};

use crate::bound::Bound;
use crate::counts::ShipperCounts;
use crate::enrich::Enricher;
use crate::folder::{JournalFolder, SegmentAge};
use crate::identity::FolderIdentity;
use crate::pace::{Order, Pace};
use crate::pending::PendingBatches;
use crate::priority::Priority;
use crate::sum_adder::ReadyRow;
use reading::{ReadAt, Unread};

/// A batch is stored at the latest when it covers one part in this many of the journal's largest
/// size. The journal can then delete the batch's segments.
const FLUSHED_PART: u64 = 4;

/// The most calls to open the journal that may be late.
const MAX_LATE_OPENS: usize = 8;

/// Another process has opened the journal.
struct Fenced;

/// The loop of the shipper's thread.
pub(crate) struct ShipperLoop {
    folder: JournalFolder,
    identity: FolderIdentity,
    enricher: Enricher,
    store: Arc<dyn ClickIngest>,
    live: Arc<LiveFeed>,
    counts: Arc<ShipperCounts>,
    clock: Clock,
    bound: Bound,
    priority: Priority,
    /// Whether the last clicks that were read had waited for long, and since when that is so.
    behind: bool,
    behind_since: Option<Instant>,
    pace: Pace,
    orders: watch::Receiver<Option<Order>>,
    /// The epoch in which the store knows this process as the journal's holder.
    epoch: u32,
    /// When calls to open the journal got no answer. For a while, each may still reach the store,
    /// also after the one that succeeds.
    lost_opens: VecDeque<Instant>,
    /// When the store last accepted a call of this epoch.
    accepted: Instant,
    /// How far the store has counted each segment, as far as the shipper knows.
    counted: HashMap<u64, u64>,
    /// Segments whose files are gone, and since when: their positions are to be forgotten.
    gone: VecDeque<(Instant, u64)>,
    next_forget: Instant,
    buffer: Vec<u8>,
    pending: Arc<PendingBatches>,
    /// The spans of the batch that grows, also empty ones.
    spans: BTreeMap<SegmentAge, JournalSpan>,
    /// Since when the growing batch has clicks.
    since: Option<Instant>,
    /// What the batch that is being stored covers.
    on_the_way: Vec<JournalSpan>,
    /// How many octets of the journal a batch may cover.
    flush_bytes: u64,
    read_at: Vec<ReadAt>,
    /// Used for the rows that are added to sums.
    row_buffers: Vec<Vec<ReadyRow>>,
    /// How much time a step of reading covers: less, the more clicks there are.
    step_ms: i64,
    failure_logged_ms: Option<i64>,
    panic_logged_ms: Option<i64>,
}

impl ShipperLoop {
    #[expect(clippy::too_many_arguments, reason = "its only caller takes them out of one struct")]
    pub(crate) fn new(
        folder: JournalFolder,
        identity: FolderIdentity,
        enricher: Enricher,
        store: Arc<dyn ClickIngest>,
        live: Arc<LiveFeed>,
        counts: Arc<ShipperCounts>,
        pending: Arc<PendingBatches>,
        clock: Clock,
        limit_bytes: u64,
        pace: Pace,
        priority: Priority,
        orders: watch::Receiver<Option<Order>>,
    ) -> Self {
        Self {
            folder,
            identity,
            enricher,
            store,
            live,
            counts,
            clock,
            bound: Bound::new(limit_bytes, pace.drop_after),
            priority,
            behind: false,
            behind_since: None,
            pace,
            orders,
            epoch: 0,
            lost_opens: VecDeque::new(),
            accepted: Instant::now(),
            counted: HashMap::new(),
            gone: VecDeque::new(),
            next_forget: Instant::now(),
            buffer: Vec::new(),
            pending,
            spans: BTreeMap::new(),
            since: None,
            on_the_way: Vec::new(),
            flush_bytes: limit_bytes / FLUSHED_PART,
            read_at: Vec::new(),
            row_buffers: Vec::new(),
            step_ms: 1,
            failure_logged_ms: None,
            panic_logged_ms: None,
        }
    }

    /// Runs until it gets an order to end and everything is counted. Can be dropped wherever it
    /// waits. If threads may still write, it ends when it has counted what was there, and cannot
    /// know whether that was everything. Returns whether everything was counted.
    pub(crate) async fn run(mut self) -> bool {
        loop {
            match self.ship().await {
                Ok(complete) => return complete,
                Err(Fenced) if self.was_own_call() => {
                    warn!("a late call of this process opened the journal; opening it again");
                    self.on_the_way.clear();
                }
                Err(Fenced) => break,
            }
        }
        self.counts.fenced.store(true, Ordering::Relaxed);
        self.counts.signals.end();
        // The other process counts these.
        self.pending.clear();
        self.counts.set_in_memory((0, 0));
        error!(
            journal = %self.identity.journal(),
            "another process has opened this journal: this one stops counting clicks and leaves \
             the journal's files as they are. No two nodes may use the same data folder or copies \
             of it. Stop one of them, delete the journal folder of the copy, and restart"
        );
        false
    }

    /// Whether a call of this process, whose answer was lost, may have opened the journal after the
    /// store last accepted a call of this epoch. Each such call counts once: another process may do
    /// the same.
    fn was_own_call(&mut self) -> bool {
        let (accepted, late) = (self.accepted, self.pace.late_open);
        self.lost_opens.retain(|lost| accepted.saturating_duration_since(*lost) < late);
        self.lost_opens.pop_front().is_some()
    }

    async fn ship(&mut self) -> Result<bool, Fenced> {
        self.priority.share(&self.pending.boost);
        let opened = self.open().await;
        // If the journal was open before: the store's positions are known only now.
        self.read_again();
        // All segments must be known first: otherwise the store could forget the position of one
        // that exists, and the segment would be counted again.
        let mut wait = self.pace.retry_delay;
        while !self.poll() {
            self.pause(&mut wait).await;
        }
        while let Err(error) = self.set_aside_if_outdated(opened.generation) {
            self.file_failed(&error);
            self.pause(&mut wait).await;
        }
        for begun in &opened.unfinished {
            self.repeat_unfinished(begun).await?;
        }
        loop {
            let order = *self.orders.borrow();
            if order.is_some_and(|order| order.writers_gone) {
                self.folder.end();
            }
            let seen = self.poll();
            self.enricher.refresh(self.clock.now());
            let unread = self.read(order.is_some());
            // A shipper that ends stores full batches too, and then the rest.
            if self.is_due(order.is_some() && unread == Unread::Nothing) {
                self.flush().await?;
            }
            self.set_priority();
            self.prune().await?;
            // After storing, because clicks that the store has counted need not be dropped.
            self.keep_within_bound();
            if unread != Unread::Nothing {
                continue;
            }
            match order {
                Some(Order { writers_gone: false, .. }) => return Ok(false),
                // What was read while the last batch was being stored is stored, too.
                Some(_) if self.since.is_some() => continue,
                // A folder that cannot be read may hold segments that were never seen.
                Some(_) if seen && self.folder.segments().next().is_none() => return Ok(true),
                _ => {}
            }
            tokio::select! {
                () = sleep(self.pace.idle) => {}
                () = self.pending.wake.notified() => {}
                Ok(()) = self.orders.changed() => {}
            }
        }
    }

    fn store_accepted(&mut self) {
        self.accepted = Instant::now();
        self.counts.signals.store_accepts();
    }

    /// Opens the journal at the store, retrying until the store answers.
    async fn open(&mut self) -> Opened {
        let mut wait = self.pace.retry_delay;
        loop {
            match timeout(self.pace.timeout, self.store.open(self.identity.journal()))
                .await
                .unwrap_or_else(|error| Err(timed_out(error)))
            {
                Ok(opened) => {
                    self.epoch = opened.epoch;
                    self.store_accepted();
                    self.pending.lock().journal = Some(self.identity.journal());
                    self.take_positions(&opened.positions);
                    return opened;
                }
                Err(error) => {
                    // A server that cannot be reached and a lost answer are the same error.
                    if matches!(error, StoreError::Unavailable(_)) {
                        self.lost_opens.truncate(MAX_LATE_OPENS - 1);
                        self.lost_opens.push_front(Instant::now());
                    }
                    self.store_failed(&error);
                }
            }
            self.pause(&mut wait).await;
        }
    }

    /// Looks for new segments. Whether all of the folder could be read.
    fn poll(&mut self) -> bool {
        let seen = self.folder.rescan();
        // A segment that is new to us begins where an earlier process has left it.
        for (segment, _) in self.folder.segments_mut().filter(|(segment, _)| segment.read_to() == 0)
        {
            segment.go_to(self.counted.get(&segment.header.id).copied().unwrap_or(0));
        }
        seen.inspect_err(|error| self.file_failed(error)).is_ok()
    }

    fn keep_within_bound(&mut self) {
        let dropped = |visits| {
            self.counts.dropped.fetch_add(visits, Ordering::Relaxed);
            warn!(clicks = visits, "the journal is over its bound: its oldest clicks were dropped");
        };
        if let Err(error) = self.bound.keep(&mut self.folder, &mut self.buffer, dropped) {
            self.file_failed(&error);
        }
    }

    /// Low while the thread keeps up.
    fn set_priority(&mut self) {
        // The lists of user agents are compiled at normal priority: that takes a while.
        let ready = self.enricher.is_ready();
        let ending = self.orders.borrow().is_some();
        self.priority.note_boost(&self.pending.boost);
        self.priority.set(!ending && !self.behind && ready);
    }

    async fn pause(&mut self, wait: &mut Duration) {
        self.poll();
        self.keep_within_bound();
        // Reads on while the store accepts nothing, so that new clicks show in reports.
        if self.epoch != 0 && !self.on_the_way.is_empty() {
            while self.read(false) == Unread::Some {}
        }
        // Jitter: nodes that saw the same failure do not retry at the same time.
        let jitter = self.clock.now_micros().unsigned_abs() % 512;
        sleep(*wait * (768 + jitter as u32) / 1024).await;
        *wait = (*wait * 2).min(self.pace.max_retry_delay);
    }
}

impl Drop for ShipperLoop {
    fn drop(&mut self) {
        self.pending.boost.end();
    }
}

/// The octets of records in a span.
fn covered_by(span: &JournalSpan) -> u64 {
    span.to.max(HEADER as u64) - span.from.max(HEADER as u64)
}

fn timed_out(elapsed: tokio::time::error::Elapsed) -> StoreError {
    StoreError::Unavailable(BoxError::from(elapsed))
}
