//! From the journal to the store: read, enrich, add, delete.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::error::Error as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terse_core::clicks::{
    Added, Batch, BatchStart, ClickIngest, Forgotten, HEADER, JournalSpan, Live, Opened, Position,
    Record, UnfinishedBatch,
};
use terse_core::{BoxError, Clock, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, info, warn};

use crate::bound::Bound;
use crate::counts::ShipperCounts;
use crate::enrich::Enricher;
use crate::folder::{Age, Folder};
use crate::gathering::Gathering;
use crate::identity::FolderIdentity;
use crate::pace::{Order, Pace};
use crate::pending::Pending;
use crate::priority::Priority;
use crate::segment::{Segment, Until};

/// A failure that goes on is logged again after this long.
const LOG_INTERVAL_MS: u64 = 60_000;

/// If a click waits longer than this, the thread has fallen behind.
const BEHIND_MS: i64 = 1000;

/// Positions that are forgotten in one call.
const MAX_FORGOTTEN: usize = 10_000;

/// Serving threads journal a click when they have taken its time; one that is interrupted in
/// between is a little late. Clicks younger than this wait, so that clicks of several threads are
/// counted in the order of time.
const SETTLE_MS: i64 = 50;
/// All segments are read up to the same time before any is read further. This is the longest step.
const MAX_STEP_MS: i64 = 250;

/// Records that are read while reports wait.
const ROUND: usize = 4096;
/// A batch is stored when it covers this part of what the journal may hold: the journal can delete
/// its segments then.
const FLUSHED_PART: u64 = 4;

/// Why reading ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Unread {
    /// There is nothing more to read now.
    Nothing,
    /// There may be more.
    Some,
    /// There may be more, but the batch has no room for it.
    NoRoom,
}

/// Where a row was read: the segment, and where the record begins.
struct ReadAt {
    age: Age,
    start: u64,
    at_ms: i64,
    /// Whether it became a row.
    readable: bool,
}

/// Another process has opened the journal.
struct Fenced;

/// The loop of the shipper's thread.
pub(crate) struct Shipping {
    folder: Folder,
    identity: FolderIdentity,
    enricher: Enricher,
    store: Arc<dyn ClickIngest>,
    live: Arc<Live>,
    counts: Arc<ShipperCounts>,
    clock: Clock,
    bound: Bound,
    priority: Priority,
    /// Whether the last clicks that were read had waited for long.
    behind: bool,
    pace: Pace,
    orders: watch::Receiver<Option<Order>>,
    /// The epoch in which the store knows this process as the journal's holder.
    epoch: u32,
    /// How far the store has counted each segment, as far as the shipper knows.
    counted: HashMap<u64, u64>,
    /// Segments whose files are gone, and since when: their positions are to be forgotten.
    gone: VecDeque<(Instant, u64)>,
    next_forget: Instant,
    buffer: Vec<u8>,
    pending: Arc<Pending>,
    /// The spans of the batch that grows, also empty ones.
    spans: BTreeMap<Age, JournalSpan>,
    /// Since when it has clicks.
    since: Option<Instant>,
    /// What the batch that is being stored covers.
    on_the_way: Vec<JournalSpan>,
    /// How many octets of the journal a batch may cover.
    flush_bytes: u64,
    read_at: Vec<ReadAt>,
    /// How much time a step of reading covers: less, the more clicks there are.
    step_ms: i64,
    failure_logged_ms: Option<i64>,
    panic_logged_ms: Option<i64>,
}

impl Shipping {
    #[expect(clippy::too_many_arguments, reason = "its only caller takes them out of one struct")]
    pub(crate) fn new(
        folder: Folder,
        identity: FolderIdentity,
        enricher: Enricher,
        store: Arc<dyn ClickIngest>,
        live: Arc<Live>,
        counts: Arc<ShipperCounts>,
        pending: Arc<Pending>,
        clock: Clock,
        limit_bytes: u64,
        pace: Pace,
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
            priority: Priority::new(),
            behind: false,
            pace,
            orders,
            epoch: 0,
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
            step_ms: 1,
            failure_logged_ms: None,
            panic_logged_ms: None,
        }
    }

    /// Runs until it gets an order to end and everything is counted. Can be dropped wherever it
    /// waits. If threads may still write, it ends when what was there is counted, and cannot know
    /// whether that was everything. Returns whether everything was counted.
    pub(crate) async fn run(mut self) -> bool {
        match self.ship().await {
            Ok(complete) => complete,
            Err(Fenced) => {
                self.counts.fenced.store(true, Ordering::Relaxed);
                // The other process counts these.
                self.pending.clear();
                error!(
                    journal = %self.identity.journal(),
                    "another process has opened this journal: this one stops counting clicks and \
                     leaves the journal's files as they are. No two nodes may use the same data \
                     folder or copies of it. Stop one of them, delete the journal folder of the \
                     copy, and restart"
                );
                false
            }
        }
    }

    async fn ship(&mut self) -> Result<bool, Fenced> {
        self.priority.share(&self.pending.boost);
        let opened = self.open().await;
        // Without having seen all segments, the position of one that exists might be forgotten, and
        // the segment be counted again.
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
            self.poll();
            self.enricher.refresh(self.clock.now());
            let unread = self.read(order.is_some());
            // A shipper that ends stores full batches too, and then the rest.
            if self.is_due(order.is_some() && unread == Unread::Nothing) {
                self.flush().await?;
            }
            self.set_priority();
            self.prune().await?;
            // Only now: what the store has counted need not be dropped.
            self.keep_within_bound();
            if unread != Unread::Nothing {
                continue;
            }
            match order {
                Some(Order { writers_gone: false, .. }) => return Ok(false),
                // What was read while the last batch was being stored is stored, too.
                Some(_) if self.since.is_some() => continue,
                Some(_) if self.folder.segments().next().is_none() => return Ok(true),
                _ => {}
            }
            tokio::select! {
                () = sleep(self.pace.idle) => {}
                () = self.pending.wake.notified() => {}
                Ok(()) = self.orders.changed() => {}
            }
        }
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
                    self.pending.lock().journal = Some(self.identity.journal());
                    self.take_positions(&opened.positions);
                    return opened;
                }
                Err(error) => self.store_failed(&error),
            }
            self.pause(&mut wait).await;
        }
    }

    /// If positions were forgotten that this folder does not know of, the folder is an old copy.
    /// The store may have counted and forgotten any segment in it that has no position. These are
    /// moved aside: a click that is missing is better than one that is counted twice.
    fn set_aside_if_outdated(&mut self, generation: u64) -> io::Result<()> {
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

    /// Looks for new segments. Whether all of the folder could be read.
    fn poll(&mut self) -> bool {
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
        if let Err(error) = self.bound.keep(&mut self.folder, &mut self.buffer, dropped) {
            self.file_failed(&error);
        }
    }

    /// Reads some of what is there into the batch that grows, the earliest first. `ending`: also
    /// the latest clicks.
    fn read(&mut self, ending: bool) -> Unread {
        let now = self.clock.now().as_ms();
        let (mut failed, mut panicked) = (None, false);
        for segment in self.folder.segments() {
            self.spans.entry(segment.age()).or_insert(JournalSpan {
                journal: self.identity.journal(),
                epoch: self.epoch,
                segment: segment.header.id,
                from: segment.read_to(),
                to: segment.read_to(),
            });
        }
        let covered: u64 = self.spans.values().map(covered_by).sum();
        let pending = Arc::clone(&self.pending);
        let mut state = pending.lock();
        if state.gathering.len() >= self.pace.batch
            || state.gathering.bytes() >= self.pace.batch_bytes
            || covered >= self.flush_bytes
        {
            // What waits behind a full batch may be late.
            self.behind = true;
            return Unread::NoRoom;
        }
        self.behind = false;
        let first = state.gathering.columns().len();
        let most = self.pace.batch.min(state.gathering.len() + ROUND);
        let mut broken: HashSet<Age> = HashSet::new();
        let mut waiting: Vec<(i64, Age)> = Vec::new();
        let mut step_ms = self.step_ms;
        // A click of the future was made before the clock was set back: it need not wait.
        let too_young =
            |at_ms: i64, alive: bool| alive && !ending && at_ms > now - SETTLE_MS && at_ms <= now;
        let unread = loop {
            let room = most.saturating_sub(state.gathering.len());
            if room == 0 {
                break Unread::Some;
            }
            // Segments with clicks that may be read, and when the next of each was.
            waiting.clear();
            for (segment, alive) in self.folder.segments_mut() {
                let age = segment.age();
                if broken.contains(&age) {
                    continue;
                }
                match segment.next_ms(&mut self.buffer, alive) {
                    Ok(Some(at)) if !too_young(at, alive) => waiting.push((at, age)),
                    Ok(Some(_)) => segment.wait(),
                    Ok(None) => {}
                    Err(error) => {
                        broken.insert(age);
                        failed = Some(error);
                    }
                }
            }
            let Some(earliest) = waiting.iter().map(|(at, _)| *at).min() else {
                break Unread::Nothing;
            };
            self.behind |= earliest < now - BEHIND_MS;
            let until = earliest.saturating_add(step_ms);
            let before = state.gathering.len();
            for &(_, age) in waiting.iter().filter(|(at, _)| *at <= until) {
                let Some((segment, alive)) = self.folder.segment_mut(age) else { continue };
                let room = most.saturating_sub(state.gathering.len());
                let (gathering, enricher) = (&mut state.gathering, &mut self.enricher);
                let read_at = &mut self.read_at;
                let read = segment.read(&mut self.buffer, alive, room, |record, start| {
                    let at_ms = record.at_ms;
                    if at_ms > until || too_young(at_ms, alive) {
                        return false;
                    }
                    let readable = read_record(gathering, enricher, record, &mut panicked);
                    read_at.push(ReadAt { age, start, at_ms, readable });
                    true
                });
                if let Err(error) = read {
                    broken.insert(age);
                    failed = Some(error);
                }
            }
            let read = state.gathering.len() - before;
            if read > ROUND / 2 {
                self.step_ms = (self.step_ms / 2).max(1);
            } else if read < ROUND / 8 {
                self.step_ms = (self.step_ms * 2).min(MAX_STEP_MS);
            }
            step_ms = self.step_ms;
            // A step that has no room would be read in part, and most of that be given back.
            let room = most.saturating_sub(state.gathering.len());
            if read > room {
                if most < self.pace.batch {
                    break Unread::Some;
                }
                // The batch is filled up.
                step_ms = (step_ms * room as i64 / read as i64).max(1);
            }
        };
        self.give_back(&mut state.gathering);
        state.gathering.add_in_order(&mut self.enricher);
        for segment in self.folder.segments() {
            if let Some(span) = self.spans.get_mut(&segment.age()) {
                span.to = segment.read_to();
            }
        }
        let begins = self.spans.values().find(|span| span.to != span.from);
        state.start = begins.map(|span| BatchStart { segment: span.segment, from: span.from });
        if begins.is_some() {
            self.since.get_or_insert_with(Instant::now);
        }
        self.live.publish_from(state.gathering.columns(), first, self.clock.now());
        self.counts.in_memory.store(state.clicks(), Ordering::Relaxed);
        drop(state);
        if let Some(error) = failed {
            self.file_failed(&error);
        }
        if panicked && is_due(&mut self.panic_logged_ms, self.clock.now().as_ms()) {
            error!("the enricher panicked on a click, which is not counted; this is a bug");
        }
        self.note_lag();
        unread
    }

    /// Whether the batch that grows is to be stored: it is large or old, a report waits for it, or
    /// the shipper ends.
    fn is_due(&self, ending: bool) -> bool {
        let Some(since) = self.since else { return false };
        if ending || since.elapsed() >= self.pace.flush || self.pending.is_asked() {
            return true;
        }
        let covered: u64 = self.spans.values().map(covered_by).sum();
        let state = self.pending.lock();
        covered >= self.flush_bytes
            || state.gathering.len() >= self.pace.batch
            || state.gathering.bytes() >= self.pace.batch_bytes
    }

    /// Stores the batch that grows.
    async fn flush(&mut self) -> Result<(), Fenced> {
        let spans = std::mem::take(&mut self.spans).into_values();
        self.store_batch(spans.filter(|span| span.to != span.from).collect()).await
    }

    /// Stores the clicks that were gathered from these spans.
    async fn store_batch(&mut self, spans: Vec<JournalSpan>) -> Result<(), Fenced> {
        self.since = None;
        self.on_the_way.clone_from(&spans);
        let (batch, unreadable) = self.pending.send(spans);
        let settled = self.settle(&batch, unreadable).await;
        self.on_the_way.clear();
        self.counts.in_memory.store(self.pending.arrived(), Ordering::Relaxed);
        self.note_lag();
        settled
    }

    /// Un-reads what is later than the next unread click of any segment: it belongs into the next
    /// batch, behind that click.
    fn give_back(&mut self, gathering: &mut Gathering) {
        let mut next = i64::MAX;
        for (segment, alive) in self.folder.segments_mut() {
            if let Ok(Some(at_ms)) = segment.next_ms(&mut self.buffer, alive) {
                next = next.min(at_ms);
            }
        }
        // The first record of each segment that is given back; all behind it are too.
        let mut from: HashMap<Age, u64> = HashMap::new();
        for at in self.read_at.iter().filter(|at| at.at_ms > next) {
            from.entry(at.age)
                .and_modify(|start| *start = at.start.min(*start))
                .or_insert(at.start);
        }
        let stays = |at: &ReadAt| from.get(&at.age).is_none_or(|start| at.start < *start);
        // Where clocks were set back, no record may be early enough: then the order is as read.
        if from.is_empty() || !self.read_at.iter().any(stays) {
            self.read_at.clear();
            return;
        }
        let given_back = self.read_at.iter().filter(|at| !stays(at)).count();
        self.counts.given_back.fetch_add(given_back as u64, Ordering::Relaxed);
        let mut kept = self.read_at.iter().filter(|at| at.readable).map(stays);
        gathering.waiting().retain(|_| kept.next().unwrap_or(true));
        let unreadable = self.read_at.iter().filter(|at| !at.readable && !stays(at)).count();
        gathering.forget_unreadable(unreadable as u64);
        for (age, start) in &from {
            if let Some((segment, _)) = self.folder.segment_mut(*age) {
                // The first record begins behind the header, the position before it is 0.
                segment.go_to(if *start == HEADER as u64 { 0 } else { *start });
            }
        }
        self.read_at.clear();
    }

    /// Adds a batch that an earlier process, or the store, did not finish: the same spans in the
    /// same order.
    async fn repeat_unfinished(&mut self, begun: &UnfinishedBatch) -> Result<(), Fenced> {
        let mut spans = Vec::new();
        let mut panicked = false;
        let mut whole = true;
        for span in &begun.spans {
            let age = self.folder.segments().find(|segment| segment.header.id == span.segment);
            let Some((segment, alive)) =
                age.map(Segment::age).and_then(|age| self.folder.segment_mut(age))
            else {
                whole = false;
                break;
            };
            segment.go_to(span.from);
            let mut state = self.pending.lock();
            let (gathering, enricher) = (&mut state.gathering, &mut self.enricher);
            let read = segment.read(&mut self.buffer, alive, usize::MAX, |record, start| {
                if start >= span.to {
                    return false;
                }
                read_record(gathering, enricher, record, &mut panicked);
                true
            });
            drop(state);
            whole &= segment.read_to() == span.to;
            if let Err(error) = read {
                self.file_failed(&error);
            }
            spans.push(JournalSpan { epoch: self.epoch, ..*span });
        }
        self.pending.lock().gathering.add_in_order(&mut self.enricher);
        if whole {
            return self.store_batch(spans).await;
        }
        error!(
            clicks = self.pending.lock().gathering.len(),
            "a batch of clicks was begun and cannot be finished: its segments are gone or cut off"
        );
        self.read_again();
        Ok(())
    }

    /// Has the batch counted, once. Offers the same batch until the store has counted it: reading
    /// it anew would make each visitor a repeat of themselves.
    async fn settle(&mut self, batch: &Arc<Batch>, unreadable: u64) -> Result<(), Fenced> {
        let mut wait = self.pace.retry_delay;
        loop {
            match self.add(batch).await {
                // `Already`: an earlier try was counted, and its answer was lost.
                Ok(Added::Done | Added::Already) => {
                    self.done(batch, unreadable);
                    return Ok(());
                }
                Ok(Added::Gap(positions)) => {
                    warn!(
                        "the store has counted this journal to another place than expected; \
                         reading on from there. Was the store restored from a backup?"
                    );
                    self.take_positions(&positions);
                    self.read_again();
                    self.on_the_way.clear();
                    self.pause(&mut wait).await;
                    return Ok(());
                }
                Ok(Added::Fenced) => return Err(Fenced),
                Err(error) => {
                    self.store_failed(&error);
                    self.pause(&mut wait).await;
                }
            }
        }
    }

    /// One try. Meanwhile the next batch grows, and the journal is kept within its bound.
    async fn add(&mut self, batch: &Arc<Batch>) -> Result<Added, StoreError> {
        let store = Arc::clone(&self.store);
        let mut adding = pin!(timeout(self.pace.timeout, store.add(batch)));
        let mut bound_checked = Instant::now();
        let mut wait = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                added = &mut adding => {
                    return added.unwrap_or_else(|elapsed| Err(timed_out(elapsed)));
                }
                () = sleep(wait) => {}
            }
            let unread = self.read(false);
            self.set_priority();
            wait = if unread == Unread::Some { Duration::ZERO } else { self.pace.idle };
            if bound_checked.elapsed() >= self.pace.idle * 4 {
                bound_checked = Instant::now();
                self.poll();
                self.keep_within_bound();
            }
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

    fn done(&mut self, batch: &Batch, unreadable: u64) {
        self.counts.recorded.fetch_add(batch.clicks.len() as u64, Ordering::Relaxed);
        self.counts.unreadable.fetch_add(unreadable, Ordering::Relaxed);
        self.counts.batches.fetch_add(1, Ordering::Relaxed);
        self.counted.extend(batch.spans.iter().map(|span| (span.segment, span.to)));
        self.bound.store_counts();
        if self.failure_logged_ms.take().is_some() {
            info!("clicks are counted again");
        }
        debug!(clicks = batch.clicks.len(), "counted clicks");
    }

    /// Deletes segments that were counted to their end, and forgets the positions of those that
    /// were deleted long ago.
    async fn prune(&mut self) -> Result<(), Fenced> {
        let counted = |segment: &&Segment| {
            let to = self.counted.get(&segment.header.id).copied().unwrap_or(0);
            segment.until() == Until::End && segment.read_to() <= to
        };
        let finished: Vec<_> = self.folder.segments().filter(counted).map(Segment::age).collect();
        if let Err(error) = self.folder.delete(&finished) {
            self.file_failed(&error);
        }
        let now = Instant::now();
        if now < self.next_forget {
            return Ok(());
        }
        // Many at once, so that it costs little.
        self.next_forget = now + self.pace.keep_positions / 10;
        self.note_gone(now);
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
    fn note_gone(&mut self, now: Instant) {
        let there: HashSet<u64> = self.folder.segments().map(|segment| segment.header.id).collect();
        let in_memory = self.spans.values().filter(|span| span.to != span.from);
        let there: HashSet<u64> = there.into_iter().chain(in_memory.map(|s| s.segment)).collect();
        self.gone.retain(|(_, id)| !there.contains(id));
        let noted: HashSet<u64> = self.gone.iter().map(|&(_, id)| id).collect();
        let new = self.counted.keys().filter(|id| !there.contains(id) && !noted.contains(id));
        self.gone.extend(new.map(|&id| (now, id)));
    }

    /// Takes the store's word for how far these segments were counted.
    fn take_positions(&mut self, positions: &[Position]) {
        self.counted.extend(positions.iter().map(|position| (position.segment, position.to)));
    }

    /// Drops what is in memory, and goes on reading where the store is.
    fn read_again(&mut self) {
        self.pending.clear();
        self.spans.clear();
        self.since = None;
        self.enricher.forget_visitors();
        for (segment, _) in self.folder.segments_mut() {
            segment.go_to(self.counted.get(&segment.header.id).copied().unwrap_or(0));
        }
    }

    async fn pause(&mut self, wait: &mut Duration) {
        self.poll();
        self.keep_within_bound();
        // What was read shows in reports, also while the store accepts nothing.
        if self.epoch != 0 && !self.on_the_way.is_empty() {
            while self.read(false) == Unread::Some {}
        }
        // Jitter: nodes that saw the same failure do not retry at the same time.
        let jitter = self.clock.now_micros().unsigned_abs() % 512;
        sleep(*wait * (768 + jitter as u32) / 1024).await;
        *wait = (*wait * 2).min(self.pace.max_retry_delay);
    }

    fn note_lag(&self) {
        let in_memory = self.spans.values().chain(&self.on_the_way);
        let covered: u64 = in_memory.clone().map(covered_by).sum();
        let unread: u64 = self.folder.segments().map(Segment::unread).sum();
        let waiting: HashSet<u64> =
            in_memory.filter(|span| span.to != span.from).map(|span| span.segment).collect();
        let behind =
            |segment: &&Segment| segment.unread() > 0 || waiting.contains(&segment.header.id);
        self.counts.lag_bytes.store(covered + unread, Ordering::Relaxed);
        self.counts
            .lag_segments
            .store(self.folder.segments().filter(behind).count() as u64, Ordering::Relaxed);
    }

    fn store_failed(&mut self, error: &StoreError) {
        self.counts.store_failures.fetch_add(1, Ordering::Relaxed);
        self.bound.store_fails();
        if self.should_log_failure() {
            warn!(%error, cause = error.source(), "clicks cannot be counted right now; they stay \
                in the journal");
        }
    }

    fn file_failed(&mut self, error: &io::Error) {
        self.counts.file_failures.fetch_add(1, Ordering::Relaxed);
        if self.should_log_failure() {
            warn!(%error, "the journal's files cannot be read or deleted");
        }
    }

    /// Notes that something failed. Whether it is time to log it.
    fn should_log_failure(&mut self) -> bool {
        let now = self.clock.now().as_ms();
        self.counts.last_error_ms.store(now, Ordering::Relaxed);
        is_due(&mut self.failure_logged_ms, now)
    }
}

impl Drop for Shipping {
    fn drop(&mut self) {
        self.pending.boost.end();
    }
}

/// The octets of records in a span.
fn covered_by(span: &JournalSpan) -> u64 {
    span.to.max(HEADER as u64) - span.from.max(HEADER as u64)
}

/// Reads a record into the batch. A record that makes the enricher panic must not end the counting
/// of all others, again at every start. Whether it became a row.
fn read_record(
    gathering: &mut Gathering,
    enricher: &mut Enricher,
    record: &Record<'_>,
    panicked: &mut bool,
) -> bool {
    let before = gathering.unreadable();
    let read = catch_unwind(AssertUnwindSafe(|| gathering.read(record, enricher)));
    if read.is_err() {
        *panicked = true;
        gathering.add_unreadable();
    }
    gathering.unreadable() == before
}

/// Whether something that was last logged then is to be logged again now.
fn is_due(logged_ms: &mut Option<i64>, now: i64) -> bool {
    let is_due = logged_ms.is_none_or(|logged| logged.abs_diff(now) >= LOG_INTERVAL_MS);
    if is_due {
        *logged_ms = Some(now);
    }
    is_due
}

fn timed_out(elapsed: tokio::time::error::Elapsed) -> StoreError {
    StoreError::Unavailable(BoxError::from(elapsed))
}
