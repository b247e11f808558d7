//! Reading the journal into the batch that grows, in the order of time.

use std::collections::{HashMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SendError};
use std::thread;

use terse_core::clicks::{BatchStart, HEADER, JournalRecord, JournalSpan};
use tokio::time::Instant;
use tracing::error;

use super::failures::is_due;
use super::{ShipperLoop, covered_by};
use crate::enrich::Enricher;
use crate::folder::SegmentAge;
use crate::growing_batch::GrowingBatch;
use crate::sum_adder::{ReadyRows, SumAdder};

/// If a click waits longer than this, the thread has fallen behind.
const BEHIND_MS: i64 = 1000;
/// A serving thread first takes the time of a click and then journals it; a thread that is
/// interrupted in between is a little late. The shipper reads only clicks older than this, so that
/// it counts clicks of several threads in the order of time.
const SETTLE_MS: i64 = 50;
/// All segments are read up to the same time before any is read further. This is the longest step.
const MAX_STEP_MS: i64 = 250;
/// Records that are read while reports wait.
const ROUND: usize = 4096;
/// Rounds that are read at a time if a second thread adds them to the sums, unless a report waits.
const HELPED_ROUNDS: usize = 4;
/// What a record takes in memory, at most in general. Near the bound of a batch, fewer are read at
/// a time, so that the batch does not grow past it.
const RECORD_BYTES: usize = 1024;

/// Why reading ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unread {
    /// There is nothing more to read now.
    Nothing,
    /// There may be more.
    Some,
    /// There may be more, but the batch has no room for it.
    NoRoom,
}

/// Where a row was read: the segment, and where the record begins.
pub(super) struct ReadAt {
    age: SegmentAge,
    start: u64,
    at_ms: i64,
    /// Whether it became a row.
    readable: bool,
}

/// What went wrong while clicks were read.
#[derive(Default)]
struct ReadFaults {
    /// Segments that could not be read.
    broken: HashSet<SegmentAge>,
    failed: Option<io::Error>,
    panicked: bool,
}

/// Which clicks may be read.
#[derive(Clone, Copy)]
struct ReadLimits {
    now: i64,
    /// Whether the latest clicks are read, too.
    ending: bool,
}

impl ReadLimits {
    /// Whether a click may come after others that are not written yet. A click in the future was
    /// made before the clock was set back: it need not wait.
    fn is_too_young(&self, at_ms: i64, alive: bool) -> bool {
        alive && !self.ending && at_ms > self.now - SETTLE_MS && at_ms <= self.now
    }
}

impl ShipperLoop {
    /// Reads some unread clicks into the growing batch, the earliest first. `ending`: also the
    /// latest clicks.
    pub(super) fn read(&mut self, ending: bool) -> Unread {
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
            // The batch is full: unread clicks may have waited for long.
            self.note_behind(true);
            return Unread::NoRoom;
        }
        let is_helped = self.is_help_due();
        self.behind = false;
        let first = state.gathering.columns().len();
        let room_bytes = self.pace.batch_bytes.saturating_sub(state.gathering.bytes());
        let room = room_bytes / RECORD_BYTES + 1;
        let limits = ReadLimits { now: self.clock.now().as_ms(), ending };
        let mut faults = ReadFaults::default();
        let gathering = &mut state.gathering;
        let mut adder = gathering.take_adder(&mut self.enricher);
        let unread = if is_helped {
            self.read_with_helper(gathering, &mut adder, room, limits, &mut faults)
        } else {
            let unread = self.read_round(gathering, room, limits, &mut faults);
            let mut rows = gathering.ready_rows(self.row_buffers.pop().unwrap_or_default());
            adder.add(&mut rows);
            self.row_buffers.push(rows.rows);
            unread
        };
        gathering.return_adder(adder, &mut self.enricher);
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
        self.counts.set_in_memory(state.size());
        drop(state);
        let ReadFaults { failed, panicked, .. } = faults;
        if let Some(error) = failed {
            self.file_failed(&error);
        }
        if panicked && is_due(&mut self.panic_logged_ms, self.clock.now().as_ms()) {
            error!("the enricher panicked on a click, which is not counted; this is a bug");
        }
        self.note_behind(self.behind);
        self.note_lag();
        unread
    }

    fn note_behind(&mut self, is_behind: bool) {
        self.behind = is_behind;
        if is_behind {
            self.behind_since.get_or_insert_with(Instant::now);
        } else {
            self.behind_since = None;
            // Those of the helper.
            self.row_buffers.truncate(1);
        }
    }

    /// Whether a second thread adds clicks to sums: this one has been behind for a while.
    fn is_help_due(&self) -> bool {
        let is_late = |since: Instant| since.elapsed() >= self.pace.help_after;
        self.behind_since.is_some_and(is_late)
    }

    /// Reads several rounds of clicks, while a second thread adds those that were read to the sums,
    /// in the order in which they were read. When this returns, all are added.
    fn read_with_helper(
        &mut self,
        gathering: &mut GrowingBatch,
        adder: &mut SumAdder,
        mut room: usize,
        limits: ReadLimits,
        faults: &mut ReadFaults,
    ) -> Unread {
        let pending = Arc::clone(&self.pending);
        let (to_add, rows_to_add) = mpsc::channel::<ReadyRows>();
        let (added, added_rows) = mpsc::channel();
        let mut not_added = Vec::new();
        let helper_adder = &mut *adder;
        let unread = thread::scope(|scope| {
            let helper = move || {
                for mut rows in rows_to_add {
                    helper_adder.add(&mut rows);
                    let _buffer_not_needed = added.send(rows.rows);
                }
            };
            let started = thread::Builder::new().name("clicks-add".into());
            if started.spawn_scoped(scope, helper).is_ok() {
                self.counts.helped.fetch_add(1, Ordering::Relaxed);
            }
            let mut unread = Unread::Some;
            for _ in 0..HELPED_ROUNDS {
                let before = gathering.len();
                unread = self.read_round(gathering, room, limits, faults);
                room = room.saturating_sub(gathering.len() - before);
                self.row_buffers.extend(added_rows.try_iter());
                let rows = gathering.ready_rows(self.row_buffers.pop().unwrap_or_default());
                // Without a thread, this one adds them below.
                not_added.extend(to_add.send(rows).map_err(|SendError(rows)| rows).err());
                let is_full = room == 0 || gathering.len() >= self.pace.batch;
                if unread != Unread::Some || is_full || pending.is_awaited() {
                    break;
                }
            }
            drop(to_add);
            unread
        });
        self.row_buffers.extend(added_rows.try_iter());
        not_added.iter_mut().for_each(|rows| adder.add(rows));
        unread
    }

    /// Reads up to some thousand clicks, and at most `room`, into the rows of the batch.
    fn read_round(
        &mut self,
        gathering: &mut GrowingBatch,
        room: usize,
        limits: ReadLimits,
        faults: &mut ReadFaults,
    ) -> Unread {
        let ReadFaults { broken, failed, panicked } = faults;
        let most = self.pace.batch.min(gathering.len() + ROUND.min(room));
        let mut waiting: Vec<(i64, SegmentAge)> = Vec::new();
        let mut step_ms = self.step_ms;
        let unread = loop {
            let room = most.saturating_sub(gathering.len());
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
                    Ok(Some(at)) if !limits.is_too_young(at, alive) => waiting.push((at, age)),
                    Ok(Some(_)) => segment.wait(),
                    Ok(None) => {}
                    Err(error) => {
                        broken.insert(age);
                        *failed = Some(error);
                    }
                }
            }
            // The earliest first: if there is room for only some, they are not put back.
            waiting.sort_unstable();
            let Some(&(earliest, _)) = waiting.first() else { break Unread::Nothing };
            self.behind |= earliest < limits.now - BEHIND_MS;
            let until = earliest.saturating_add(step_ms);
            let before = gathering.len();
            for &(_, age) in waiting.iter().filter(|(at, _)| *at <= until) {
                let Some((segment, alive)) = self.folder.segment_mut(age) else { continue };
                let room = most.saturating_sub(gathering.len());
                let (enricher, read_at) = (&mut self.enricher, &mut self.read_at);
                let read = segment.read(&mut self.buffer, alive, room, |record, start| {
                    let at_ms = record.at_ms;
                    if at_ms > until || limits.is_too_young(at_ms, alive) {
                        return false;
                    }
                    let readable = read_record(gathering, enricher, record, panicked);
                    read_at.push(ReadAt { age, start, at_ms, readable });
                    true
                });
                if let Err(error) = read {
                    broken.insert(age);
                    *failed = Some(error);
                }
            }
            let read = gathering.len() - before;
            if read > ROUND / 2 {
                self.step_ms = (self.step_ms / 2).max(1);
            } else if read < ROUND / 8 {
                self.step_ms = (self.step_ms * 2).min(MAX_STEP_MS);
            }
            step_ms = self.step_ms;
            // A step that has no room would be read in part, and most of that be given back.
            let room = most.saturating_sub(gathering.len());
            if read > room {
                if most < self.pace.batch {
                    break Unread::Some;
                }
                // The batch is filled up.
                step_ms = (step_ms * room as i64 / read as i64).max(1);
            }
        };
        self.give_back(gathering);
        unread
    }

    /// Puts back rows that are later than the next unread click of any segment: they belong in the
    /// next batch, after that click.
    fn give_back(&mut self, gathering: &mut GrowingBatch) {
        let mut next = i64::MAX;
        for (segment, alive) in self.folder.segments_mut() {
            if let Ok(Some(at_ms)) = segment.next_ms(&mut self.buffer, alive) {
                next = next.min(at_ms);
            }
        }
        // The first record of each segment that is put back; all later ones are, too.
        let mut from: HashMap<SegmentAge, u64> = HashMap::new();
        for at in self.read_at.iter().filter(|at| at.at_ms > next) {
            from.entry(at.age)
                .and_modify(|start| *start = at.start.min(*start))
                .or_insert(at.start);
        }
        let stays = |at: &ReadAt| from.get(&at.age).is_none_or(|start| at.start < *start);
        // If clocks were set back, perhaps no record is early enough. Then the order is that of
        // reading.
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
                // The first record begins after the header; the position before it is 0.
                segment.go_to(if *start == HEADER as u64 { 0 } else { *start });
            }
        }
        self.read_at.clear();
    }

    /// Drops what is in memory, and continues reading at the store's positions.
    pub(super) fn read_again(&mut self) {
        self.pending.clear();
        self.counts.set_in_memory((0, 0));
        self.spans.clear();
        self.since = None;
        self.enricher.forget_visitors();
        for (segment, _) in self.folder.segments_mut() {
            segment.go_to(self.counted.get(&segment.header.id).copied().unwrap_or(0));
        }
    }
}

/// Reads a record into the batch. A record that makes the enricher panic must not stop the counting
/// of all others at every start. Returns whether it became a row.
pub(super) fn read_record(
    gathering: &mut GrowingBatch,
    enricher: &mut Enricher,
    record: &JournalRecord<'_>,
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
