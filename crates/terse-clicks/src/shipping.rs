//! From the journal to the store: read, enrich, record, delete.

use std::collections::{HashMap, HashSet, VecDeque};
use std::error::Error as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::clicks::{Batch, ClickStore, HEADER, Live, Position, Recorded};
use terse_core::{BoxError, Clock, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, info, warn};

use crate::bound::Bound;
use crate::counts::ShipperCounts;
use crate::enrich::Enricher;
use crate::folder::Folder;
use crate::segment::{Segment, Until};

/// A failure that goes on is told again after this long.
const TOLD_AGAIN_MS: u64 = 60_000;
/// Room for clicks that is kept from batch to batch; more is given back when a batch was small.
const MIN_CAPACITY: usize = 4096;

/// Positions that are forgotten in one call.
const MAX_FORGOTTEN: usize = 10_000;

/// How fast things go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Between two looks at a journal in which nothing happens.
    pub(crate) idle: Duration,
    /// What a call of the store may take.
    pub(crate) patience: Duration,
    /// Before a call is repeated; doubles up to `longest_wait`.
    pub(crate) first_wait: Duration,
    /// See `first_wait`.
    pub(crate) longest_wait: Duration,
    /// Records of one batch.
    pub(crate) batch: usize,
    /// How long the position of a segment is kept after its file is gone. A try that was given up,
    /// or was made by a process that is gone, may still arrive; it must not find the segment as one
    /// that was never counted.
    pub(crate) linger: Duration,
    /// How long a journal over its bound may take to become smaller while the store counts.
    pub(crate) catch_up: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            idle: Duration::from_millis(250),
            patience: Duration::from_secs(30),
            first_wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(5),
            batch: 50_000,
            linger: Duration::from_secs(300),
            catch_up: Duration::from_millis(2500),
        }
    }
}

/// That the end has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// Until when the thread may go on.
    pub(crate) until: Instant,
    /// Whether nobody writes to the journal any more.
    pub(crate) writers_gone: bool,
}

/// A batch on its way to the store.
#[derive(Default)]
struct Pending {
    batch: Batch,
    unreadable: u64,
}

/// Where the store stands against a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// It has not counted it.
    Before,
    /// It has counted it.
    After,
    /// It has counted a part of it: somebody else reads this journal too, or the store was put back
    /// to an earlier state.
    Elsewhere,
}

/// The loop.
pub(crate) struct Shipping {
    folder: Folder,
    enricher: Enricher,
    store: Arc<dyn ClickStore>,
    live: Arc<Live>,
    counts: Arc<ShipperCounts>,
    clock: Clock,
    bound: Bound,
    pace: Pace,
    orders: watch::Receiver<Option<Order>>,
    /// How far the store has counted each segment, as far as we know.
    counted: HashMap<u64, u64>,
    /// Segments that are gone, and since when: their positions are to be forgotten.
    gone: VecDeque<(Instant, u64)>,
    forget_again: Instant,
    buffer: Vec<u8>,
    spare: Batch,
    told_ms: Option<i64>,
    panic_told_ms: Option<i64>,
}

impl Shipping {
    #[expect(clippy::too_many_arguments, reason = "its only caller takes them out of one struct")]
    pub(crate) fn new(
        folder: Folder,
        enricher: Enricher,
        store: Arc<dyn ClickStore>,
        live: Arc<Live>,
        counts: Arc<ShipperCounts>,
        clock: Clock,
        limit_bytes: u64,
        pace: Pace,
        orders: watch::Receiver<Option<Order>>,
    ) -> Self {
        Self {
            folder,
            enricher,
            store,
            live,
            counts,
            clock,
            bound: Bound::new(limit_bytes, pace.catch_up),
            pace,
            orders,
            counted: HashMap::new(),
            gone: VecDeque::new(),
            forget_again: Instant::now(),
            buffer: Vec::new(),
            spare: Batch::default(),
            told_ms: None,
            panic_told_ms: None,
        }
    }

    /// Goes on until everything is counted after it was told to end. Can be dropped wherever it
    /// waits. If somebody may still write, it ends when what was there is counted; whether that was
    /// everything cannot be known then.
    pub(crate) async fn run(mut self) -> bool {
        self.counted = self.positions().await;
        // Without having seen all segments, the position of one that exists might be forgotten, and
        // it be counted again.
        let mut wait = self.pace.first_wait;
        while !self.look() {
            self.pause(&mut wait).await;
        }
        loop {
            let order = *self.orders.borrow();
            if order.is_some_and(|order| order.writers_gone) {
                self.folder.end();
            }
            self.look();
            self.enricher.refresh(self.clock.now());
            let pending = self.read();
            let full = pending.batch.clicks.len() + pending.unreadable as usize >= self.pace.batch;
            self.note_lag(&pending.batch.moves);
            if pending.batch.moves.is_empty() {
                self.spare = pending.batch;
            } else {
                self.settle(pending).await;
                self.note_lag(&[]);
            }
            self.prune().await;
            // Only now: what the store has taken need not be dropped.
            self.keep_within_bound();
            if full {
                continue;
            }
            match order {
                Some(Order { writers_gone: false, .. }) => return false,
                Some(_) if self.folder.segments().next().is_none() => return true,
                _ => {}
            }
            tokio::select! {
                () = sleep(self.pace.idle) => {}
                Ok(()) = self.orders.changed() => {}
            }
        }
    }

    /// Sees what is new in the folder. Whether all could be seen.
    fn look(&mut self) -> bool {
        let seen = self.folder.look();
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
        let now = Instant::now();
        if let Err(error) =
            self.bound.keep(&mut self.folder, &self.counted, &mut self.buffer, now, dropped)
        {
            self.file_failed(&error);
        }
    }

    /// Reads up to a batch of what is there, the oldest first.
    fn read(&mut self) -> Pending {
        let mut pending = Pending { batch: std::mem::take(&mut self.spare), unreadable: 0 };
        let Pending { batch, unreadable } = &mut pending;
        if batch.clicks.len() < MIN_CAPACITY {
            batch.clicks.clear();
            batch.clicks.shrink_to(MIN_CAPACITY);
        }
        batch.clicks.clear();
        batch.moves.clear();
        let (mut failed, mut panicked) = (None, false);
        for (segment, alive) in self.folder.segments_mut() {
            let room = self.pace.batch.saturating_sub(batch.clicks.len() + *unreadable as usize);
            if room == 0 {
                break;
            }
            let from = segment.read_to();
            let read = segment.read(&mut self.buffer, alive, room, |record| {
                // One record that we cannot cope with must not end the counting of all others,
                // again at every start. What the enricher remembers is at worst not remembered.
                let click = catch_unwind(AssertUnwindSafe(|| self.enricher.enrich(record)));
                panicked |= click.is_err();
                match click.ok().flatten() {
                    Some(click) => batch.clicks.push(click),
                    None => *unreadable += 1,
                }
            });
            if segment.read_to() != from {
                batch.moves.push(Position {
                    segment: segment.header.id,
                    from,
                    to: segment.read_to(),
                });
            }
            if let Err(error) = read {
                failed = Some(error);
            }
        }
        if let Some(error) = failed {
            self.file_failed(&error);
        }
        if panicked && is_time(&mut self.panic_told_ms, self.clock.now().as_ms()) {
            error!("a click could not be made sense of and is not counted; this is a bug");
        }
        pending
    }

    /// Has the batch counted, once. The same batch is offered until it is known to be counted: to
    /// read it anew would make each visitor a repeat of their own.
    async fn settle(&mut self, pending: Pending) {
        let mut wait = self.pace.first_wait;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.record(&pending.batch).await {
                Ok(Recorded::Done) => return self.done(pending),
                // An earlier try may have been counted after all, though we never heard of it.
                Ok(Recorded::OutOfStep) if tries < 3 => {}
                Ok(Recorded::OutOfStep) => self.pause(&mut wait).await,
                Err(error) => {
                    self.store_failed(&error);
                    self.pause(&mut wait).await;
                }
            }
            let positions = self.positions().await;
            match step_of(&pending.batch.moves, &positions) {
                Step::Before => {}
                Step::After => return self.done(pending),
                Step::Elsewhere => {
                    warn!(
                        "the journal was counted by somebody else; reading on from where they are"
                    );
                    self.counted = positions;
                    self.take_up_positions();
                    self.enricher.forget_visitors();
                    self.spare = pending.batch;
                    return;
                }
            }
        }
    }

    /// One try. The journal is kept within its bound meanwhile.
    async fn record(&mut self, batch: &Batch) -> Result<Recorded, StoreError> {
        let store = Arc::clone(&self.store);
        let mut recording = pin!(timeout(self.pace.patience, store.record(batch)));
        loop {
            tokio::select! {
                recorded = &mut recording => return recorded.unwrap_or_else(|elapsed| Err(late(elapsed))),
                () = sleep(self.pace.idle * 4) => {
                    self.look();
                    self.keep_within_bound();
                }
            }
        }
    }

    fn done(&mut self, pending: Pending) {
        let Pending { batch, unreadable } = pending;
        self.counts.recorded.fetch_add(batch.clicks.len() as u64, Ordering::Relaxed);
        self.counts.unreadable.fetch_add(unreadable, Ordering::Relaxed);
        self.counts.batches.fetch_add(1, Ordering::Relaxed);
        self.counted.extend(batch.moves.iter().map(|moved| (moved.segment, moved.to)));
        self.live.publish(&batch.clicks, self.clock.now());
        self.bound.store_counts();
        if self.told_ms.take().is_some() {
            info!("clicks are counted again");
        }
        debug!(clicks = batch.clicks.len(), "counted clicks");
        self.spare = batch;
    }

    /// Deletes what was counted to its end, and forgets how far was counted what went long ago.
    async fn prune(&mut self) {
        let counted = |segment: &&Segment| {
            let to = self.counted.get(&segment.header.id).copied().unwrap_or(0);
            segment.until() == Until::End && segment.read_to() <= to
        };
        let finished: Vec<_> = self.folder.segments().filter(counted).map(Segment::age).collect();
        if let Err(error) = self.folder.delete(&finished) {
            self.file_failed(&error);
        }
        let now = Instant::now();
        if now < self.forget_again {
            return;
        }
        // Many at once, so that it costs little.
        self.forget_again = now + self.pace.linger / 10;
        self.note_gone(now);
        let due = self
            .gone
            .iter()
            .take_while(|(since, _)| now.duration_since(*since) >= self.pace.linger);
        let due: Vec<u64> = due.map(|&(_, id)| id).take(MAX_FORGOTTEN).collect();
        if due.is_empty() {
            return;
        }
        if let Err(error) = self.folder.sync() {
            return self.file_failed(&error);
        }
        match timeout(self.pace.patience, self.store.forget_segments(&due))
            .await
            .unwrap_or_else(|error| Err(late(error)))
        {
            Ok(()) => {
                self.gone.drain(..due.len());
                for id in &due {
                    self.counted.remove(id);
                }
            }
            // Tried again the next time.
            Err(error) => self.store_failed(&error),
        }
    }

    /// Notes which segments are gone that the store has a position of, whoever deleted them. No
    /// batch is on its way meanwhile.
    fn note_gone(&mut self, now: Instant) {
        let there: HashSet<u64> = self.folder.segments().map(|segment| segment.header.id).collect();
        self.gone.retain(|(_, id)| !there.contains(id));
        let noted: HashSet<u64> = self.gone.iter().map(|&(_, id)| id).collect();
        let new = self.counted.keys().filter(|id| !there.contains(id) && !noted.contains(id));
        self.gone.extend(new.map(|&id| (now, id)));
    }

    /// How far the store is; asked until it answers.
    async fn positions(&mut self) -> HashMap<u64, u64> {
        let mut wait = self.pace.first_wait;
        loop {
            match timeout(self.pace.patience, self.store.positions())
                .await
                .unwrap_or_else(|error| Err(late(error)))
            {
                Ok(positions) => return positions.into_iter().collect(),
                Err(error) => self.store_failed(&error),
            }
            self.pause(&mut wait).await;
        }
    }

    /// Goes on reading where the store is.
    fn take_up_positions(&mut self) {
        for (segment, _) in self.folder.segments_mut() {
            segment.go_to(self.counted.get(&segment.header.id).copied().unwrap_or(0));
        }
    }

    async fn pause(&mut self, wait: &mut Duration) {
        self.look();
        self.keep_within_bound();
        // Not all at once after a failure that all have seen.
        let jitter = self.clock.now_micros().unsigned_abs() % 512;
        sleep(*wait * (768 + jitter as u32) / 1024).await;
        *wait = (*wait * 2).min(self.pace.longest_wait);
    }

    fn note_lag(&self, moves: &[Position]) {
        let on_the_way: u64 =
            moves.iter().map(|moved| moved.to - moved.from.max(HEADER as u64)).sum();
        let unread: u64 = self.folder.segments().map(Segment::unread).sum();
        let behind = |segment: &&Segment| {
            segment.unread() > 0 || moves.iter().any(|moved| moved.segment == segment.header.id)
        };
        self.counts.lag_bytes.store(on_the_way + unread, Ordering::Relaxed);
        self.counts
            .lag_segments
            .store(self.folder.segments().filter(behind).count() as u64, Ordering::Relaxed);
    }

    fn store_failed(&mut self, error: &StoreError) {
        self.counts.store_failures.fetch_add(1, Ordering::Relaxed);
        self.bound.store_fails();
        if self.is_news() {
            warn!(%error, cause = error.source(), "clicks cannot be counted right now; they stay \
                in the journal");
        }
    }

    fn file_failed(&mut self, error: &io::Error) {
        self.counts.file_failures.fetch_add(1, Ordering::Relaxed);
        if self.is_news() {
            warn!(%error, "the journal's files cannot be read or deleted");
        }
    }

    /// Notes that something failed, and tells whether it is time to say so.
    fn is_news(&mut self) -> bool {
        let now = self.clock.now().as_ms();
        self.counts.last_error_ms.store(now, Ordering::Relaxed);
        is_time(&mut self.told_ms, now)
    }
}

/// Whether something that was last told then is to be told again now.
fn is_time(told_ms: &mut Option<i64>, now: i64) -> bool {
    let is_time = told_ms.is_none_or(|told| told.abs_diff(now) >= TOLD_AGAIN_MS);
    if is_time {
        *told_ms = Some(now);
    }
    is_time
}

fn late(elapsed: tokio::time::error::Elapsed) -> StoreError {
    StoreError::Unavailable(BoxError::from(elapsed))
}

fn step_of(moves: &[Position], positions: &HashMap<u64, u64>) -> Step {
    let at = |moved: &Position| positions.get(&moved.segment).copied().unwrap_or(0);
    if moves.iter().all(|moved| at(moved) == moved.from) {
        Step::Before
    } else if moves.iter().all(|moved| at(moved) == moved.to) {
        Step::After
    } else {
        Step::Elsewhere
    }
}
