//! Runs: sums of hours that have no rows of their own yet.
//!
//! A flush of many links would read, merge and write a row for each, on pages all over the file. It
//! writes one run instead: the deltas of its hours, sorted by the ids of their rows, in compressed
//! chunks (see [`DeltaChunkWriter`]). Runs are merged with runs (`run_merge`), so that each sum is
//! written a few times, always next to others, and a report reads few of them. When a day is over,
//! its sums move to a run of finished days (`finished`), and their clicks are added to the totals
//! of their subjects. Reports add what is in runs.
//!
//! Runs, rows, how far a merge is and the journal's positions change in the same transactions, so
//! each click is in exactly one place.
//!
//! | table | content |
//! |---|---|
//! | `runs.chunks` | of each chunk, its first and its last id, each as the difference to the number before: postcard; then 8 octets: their checksum, which lists of earlier versions do not have |
//! | `run_heads.data` | octets 0 to 7: the checksum of the rest; the heads of the chunk |
//! | `run_bodies.data` | octets 0 to 7: the checksum of the rest; the bodies of the chunk, compressed by zstd |
//!
//! A chunk holds sums of one day only, except in runs of finished days.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Row};
use terse_core::clicks::{Count, DeltaBodies, DeltaHead, PlainChunk, delta_heads};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clicks::bucket::{hour_id, of_finished_id, of_hour_id};
use crate::clicks::queries::{ClickQueries, Cost};
use crate::clicks::sum::Sum;
use crate::failure::{Failure, corrupt};

pub(crate) const RUNS: &str =
    "SELECT id, level, sums, clean_to, length(chunks) FROM runs ORDER BY id";
pub(crate) const CHUNKS: &str = "SELECT chunks FROM runs WHERE id = ?1";
pub(crate) const HEADS: &str = "SELECT data FROM run_heads WHERE id = ?1";
pub(crate) const BODIES: &str = "SELECT data FROM run_bodies WHERE id = ?1";
pub(crate) const STATE: &str = "SELECT name, value FROM meta WHERE name IN \
    ('settled_to', 'run_merge_level', 'run_merge_last', 'run_merge_out', 'run_merge_to')";

/// Runs of this level and above hold finished days. Their ids are those of
/// [`finished_id`](crate::clicks::bucket::finished_id).
pub(crate) const FINISHED: i64 = 100;

/// The bits of a chunk's number in its run.
const CHUNK_BITS: u32 = 24;
/// The fastest level, because most chunks are rewritten soon.
const LEVEL: i32 = 1;
/// No chunk is longer than this before compression. A stored length above it means damage.
const MAX_LEN: usize = 64 << 20;
/// How many sums of quiet links are in a chunk, about.
pub(crate) const SUMS_A_CHUNK: usize = 700;

/// When sums are stored in runs, and how runs are merged.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// A batch with at least this many subjects is stored as a run. For fewer, writing the rows at
    /// once costs little, and reports need not read runs.
    pub from: usize,
    /// This many runs of one level are merged into one of the next.
    pub runs: usize,
    /// About how many sums one step of a merge reads. Nothing else is written meanwhile.
    pub step: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { from: 2000, runs: 12, step: 50_000 }
    }
}

/// The ids of the first and the last sum of a chunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ChunkIds {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// A run, without its chunks.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: i64,
    pub(crate) level: i64,
    pub(crate) sums: i64,
    pub(crate) clean_to: i64,
    pub(crate) chunks: Arc<Vec<ChunkIds>>,
}

impl Run {
    /// Whether it holds finished days.
    pub(crate) fn is_finished(&self) -> bool {
        self.level >= FINISHED
    }

    /// The day, the subject and the hour of a sum in it.
    pub(crate) fn place(&self, id: i64) -> (i64, i64, i64) {
        if self.is_finished() { of_finished_id(id) } else { of_hour_id(id) }
    }

    /// The chunks that may have sums with ids from `from` to before `to`.
    pub(crate) fn chunks_in(&self, from: i64, to: i64) -> std::ops::Range<usize> {
        chunks_in(&self.chunks, from, to)
    }
}

/// The chunks of a list that may have ids from `from` to before `to`.
pub(crate) fn chunks_in(chunks: &[ChunkIds], from: i64, to: i64) -> std::ops::Range<usize> {
    let first = chunks.partition_point(|chunk| chunk.last < from);
    first..chunks.partition_point(|chunk| chunk.first < to).max(first)
}

/// The merge that has begun.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RunMerge {
    /// Runs of this level up to `last` are merged into `out`.
    pub(crate) level: i64,
    pub(crate) last: i64,
    /// The run with their sums below `to`.
    pub(crate) out: i64,
    pub(crate) to: i64,
}

impl RunMerge {
    pub(crate) fn has_input(&self, run: &Run) -> bool {
        run.level == self.level && run.id <= self.last
    }
}

/// A state of a run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct RunVersion {
    id: i64,
    sums: i64,
    /// The length of the list of its chunks, in octets.
    length: i64,
}

/// All runs, and which of their sums count.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Those of days that are not finished.
    pub(crate) runs: Vec<Run>,
    /// Those of finished days.
    pub(crate) finished: Vec<Run>,
    pub(crate) merge: Option<RunMerge>,
    /// Sums below this id are in rows or in runs of finished days.
    pub(crate) settled_to: i64,
    /// The days with sums that are not finished, ascending.
    pub(crate) days: Vec<i64>,
}

impl Runs {
    /// Sums of a run with ids below this one are elsewhere: in rows, in the merged run, or in runs
    /// of finished days.
    pub(crate) fn begin(&self, run: &Run) -> i64 {
        let settled_to = if run.is_finished() { i64::MIN } else { self.settled_to };
        match self.merge {
            Some(merge) if merge.has_input(run) => settled_to.max(merge.to),
            _ => settled_to,
        }
    }

    /// Those of finished days that may have sums from one day to another.
    pub(crate) fn finished_in(&self, (first, last): (i64, i64)) -> impl Iterator<Item = &Run> {
        let any_is_finished = hour_id(first, 0, 0) < self.settled_to;
        let is_in = move |id: i64| (first..=last).contains(&of_finished_id(id).0);
        self.finished.iter().filter(move |run| {
            // A run that was not merged yet has one day.
            let has_day = || run.chunks.first().is_some_and(|chunk| is_in(chunk.first));
            let ends_in = || run.chunks.last().is_some_and(|chunk| is_in(chunk.last));
            any_is_finished && (run.level > FINISHED || has_day() || ends_in())
        })
    }

    /// All runs.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.finished)
    }

    fn find_days(&self) -> Vec<i64> {
        let mut days = Vec::new();
        for run in &self.runs {
            let begin = self.begin(run);
            let chunks = run.chunks.iter().filter(|chunk| chunk.last >= begin);
            days.extend(chunks.map(|chunk| of_hour_id(chunk.first).0));
            days.dedup();
        }
        days.sort_unstable();
        days.dedup();
        days
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many chunks there are.
    pub(crate) fn chunks(&self) -> usize {
        self.runs.iter().map(|run| run.chunks.len()).sum()
    }
}

/// The stored form of the list of a run's chunks.
pub(crate) fn encode_chunks(run: i64, chunks: &[ChunkIds]) -> Option<Vec<u8>> {
    let mut last = 0_i64;
    let mut numbers = Vec::with_capacity(2 * chunks.len());
    for id in chunks.iter().flat_map(|chunk| [chunk.first, chunk.last]) {
        numbers.push(id.wrapping_sub(last));
        last = id;
    }
    let mut bytes = postcard::to_allocvec(&numbers).ok()?;
    bytes.extend(chunks_checksum(run, &bytes));
    Some(bytes)
}

/// From the stored form; `None` if it is not what was written for this run.
pub(crate) fn decode_chunks(run: i64, bytes: &[u8]) -> Option<Vec<ChunkIds>> {
    let (numbers, checksum): (Vec<i64>, _) = postcard::take_from_bytes(bytes).ok()?;
    let list = &bytes[..bytes.len() - checksum.len()];
    if !checksum.is_empty() && checksum != chunks_checksum(run, list) {
        return None;
    }
    let mut last = 0_i64;
    let mut id = |difference: i64| {
        last = last.wrapping_add(difference);
        last
    };
    let pairs = numbers.chunks_exact(2);
    Some(pairs.map(|pair| ChunkIds { first: id(pair[0]), last: id(pair[1]) }).collect())
}

fn chunks_checksum(run: i64, list: &[u8]) -> [u8; 8] {
    xxh3_64_with_seed(list, run.cast_unsigned()).to_le_bytes()
}

pub(crate) fn chunk_id(run: i64, at: usize) -> i64 {
    run << CHUNK_BITS | at as i64
}

/// The stored form of a chunk: heads and bodies.
pub(crate) fn seal_chunk(id: i64, chunk: &PlainChunk) -> Option<(Vec<u8>, Vec<u8>)> {
    let sealed = |data: &[u8]| {
        let checksum = xxh3_64_with_seed(data, id.cast_unsigned());
        [&checksum.to_le_bytes()[..], data].concat()
    };
    Some((sealed(&chunk.heads), sealed(&zstd::bulk::compress(&chunk.bodies, LEVEL).ok()?)))
}

fn open_sealed(id: i64, data: &[u8]) -> Option<&[u8]> {
    let (head, data) = data.split_at_checked(8)?;
    (head == xxh3_64_with_seed(data, id.cast_unsigned()).to_le_bytes()).then_some(data)
}

fn open_bodies(id: i64, data: &[u8]) -> Option<DeltaBodies> {
    let data = open_sealed(id, data)?;
    let length = zstd::zstd_safe::get_frame_content_size(data).ok()??;
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_LEN)?;
    DeltaBodies::open(zstd::bulk::decompress(data, length).ok()?)
}

pub(crate) fn damaged(run: i64) -> Failure {
    corrupt(format!("the run {run} of sums is not what was written there")).into()
}

impl ClickQueries {
    /// All runs. A run whose list of chunks is damaged is an error.
    pub(crate) fn runs(&self) -> Result<Runs, Failure> {
        let mut found = Runs::default();
        let mut statement = self.conn.prepare_cached(RUNS)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, level, sums, clean_to) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            let chunks = self.chunks_of_run(RunVersion { id, sums, length: row.get(4)? })?;
            let run = Run { id, level, sums, clean_to, chunks };
            if run.is_finished() { found.finished.push(run) } else { found.runs.push(run) }
        }
        drop(rows);
        let kept = |version: &RunVersion| found.all().any(|run| run.id == version.id);
        self.chunk_lists.borrow_mut().retain(|version, _| kept(version));
        (found.merge, found.settled_to) = self.run_state()?;
        found.days = found.find_days();
        Ok(found)
    }

    /// The list of a run's chunks. It only grows, and no two runs have the same id, so that it is
    /// read once.
    fn chunks_of_run(&self, version: RunVersion) -> Result<Arc<Vec<ChunkIds>>, Failure> {
        if let Some(chunks) = self.chunk_lists.borrow().get(&version) {
            return Ok(Arc::clone(chunks));
        }
        let mut statement = self.conn.prepare_cached(CHUNKS)?;
        let read = |row: &Row<'_>| Ok(decode_chunks(version.id, row.get_ref(0)?.as_blob()?));
        let chunks = statement.query_row([version.id], read)?;
        let chunks = Arc::new(chunks.ok_or_else(|| damaged(version.id))?);
        let mut lists = self.chunk_lists.borrow_mut();
        lists.retain(|other, _| other.id != version.id);
        lists.insert(version, Arc::clone(&chunks));
        Ok(chunks)
    }

    /// The merge that has begun, and up to which id sums are settled.
    pub(crate) fn run_state(&self) -> Result<(Option<RunMerge>, i64), Failure> {
        let (mut merge, mut settled_to) = (RunMerge::default(), i64::MIN);
        let mut statement = self.conn.prepare_cached(STATE)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let value = row.get(1)?;
            match row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)? {
                "settled_to" => settled_to = value,
                "run_merge_level" => merge.level = value,
                "run_merge_last" => merge.last = value,
                "run_merge_out" => merge.out = value,
                _ => merge.to = value,
            }
        }
        Ok(((merge.last > 0).then_some(merge), settled_to))
    }

    /// The sums of a chunk: their ids and clicks.
    pub(crate) fn run_heads(&self, run: i64, at: usize) -> Result<Vec<DeltaHead>, Failure> {
        let id = chunk_id(run, at);
        let cost = self.cost.get();
        self.cost.set(Cost { chunks: cost.chunks + 1, ..cost });
        let mut statement = self.conn.prepare_cached(HEADS)?;
        let read = |row: &Row<'_>| {
            let data = open_sealed(id, row.get_ref(0)?.as_blob()?);
            Ok(data.and_then(|data| delta_heads(data).collect::<Option<Vec<_>>>()))
        };
        statement.query_row([id], read).optional()?.flatten().ok_or_else(|| damaged(run))
    }

    pub(crate) fn run_bodies(&self, run: i64, at: usize) -> Result<DeltaBodies, Failure> {
        let id = chunk_id(run, at);
        let mut statement = self.conn.prepare_cached(BODIES)?;
        let read = |row: &Row<'_>| Ok(open_bodies(id, row.get_ref(0)?.as_blob()?));
        statement.query_row([id], read).optional()?.flatten().ok_or_else(|| damaged(run))
    }

    /// Visits the numbers of the sums in runs with ids from `from` to before `to`. One id may have
    /// several.
    pub(crate) fn each_in_runs(
        &self,
        runs: &Runs,
        from: i64,
        to: i64,
        mut visit: impl FnMut(i64, Count),
    ) -> Result<(), Failure> {
        for run in &runs.runs {
            let from = from.max(runs.begin(run));
            for at in run.chunks_in(from, to) {
                for head in self.run_heads(run.id, at)? {
                    if (from..to).contains(&head.id) {
                        visit(head.id, head.clicks);
                    }
                }
            }
        }
        Ok(())
    }

    /// Visits the numbers of the sums that have no rows, in runs and in blocks of earlier versions.
    pub(crate) fn each_waiting(
        &self,
        runs: &Runs,
        from: i64,
        to: i64,
        mut visit: impl FnMut(i64, Count),
    ) -> Result<(), Failure> {
        self.each_delta(from, to, |delta| {
            visit(delta.id, delta.clicks);
            Ok(())
        })?;
        self.each_in_runs(runs, from, to, visit)
    }

    /// Adds the sums in runs with ids from `from` to before `to`.
    pub(crate) fn add_runs(
        &self,
        runs: &Runs,
        from: i64,
        to: i64,
        is_wanted: impl Fn(i64) -> bool,
        sum: &mut Sum,
    ) -> Result<(), Failure> {
        for run in &runs.runs {
            let from = from.max(runs.begin(run));
            for at in run.chunks_in(from, to) {
                let mut heads = self.run_heads(run.id, at)?;
                heads.retain(|head| (from..to).contains(&head.id) && is_wanted(head.id));
                if heads.is_empty() {
                    continue;
                }
                let bodies = self.run_bodies(run.id, at)?;
                for head in heads {
                    let (day, _, hour) = of_hour_id(head.id);
                    let delta = bodies.delta(&head, day * 24 + hour);
                    let delta = delta.ok_or_else(|| damaged(run.id))?;
                    sum.add_delta(&delta, &bodies.columns);
                }
            }
        }
        Ok(())
    }

    /// The clicks of a subject that are in runs.
    pub(crate) fn clicks_in_runs(&self, runs: &Runs, subject: i64) -> Result<Count, Failure> {
        let mut clicks = Count::default();
        for &day in &runs.days {
            let (from, to) = (hour_id(day, subject, 0), hour_id(day, subject, 24));
            self.each_in_runs(runs, from, to, |_, count| clicks.add(count))?;
        }
        Ok(clicks)
    }

    /// The clicks of all subjects in runs, if looking for that many links one by one reads more:
    /// a link reads about one chunk of every run, one pass reads all chunks.
    pub(crate) fn clicks_in_runs_if_many(
        &self,
        runs: &Runs,
        links: usize,
    ) -> Result<Option<HashMap<i64, Count>>, Failure> {
        let is_many = !runs.is_empty() && links * runs.runs.len() > runs.chunks();
        is_many.then(|| self.all_clicks_in_runs(runs)).transpose()
    }

    /// The same of all subjects that have any.
    pub(crate) fn all_clicks_in_runs(&self, runs: &Runs) -> Result<HashMap<i64, Count>, Failure> {
        let mut clicks: HashMap<i64, Count> = HashMap::new();
        self.each_in_runs(runs, i64::MIN, i64::MAX, |id, count| {
            clicks.entry(of_hour_id(id).1).or_default().add(count);
        })?;
        Ok(clicks)
    }
}
