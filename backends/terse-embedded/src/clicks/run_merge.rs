//! Writes runs, merges them, and turns the sums of finished days into rows. See `runs`.
//!
//! A merge goes through the ids in steps. Each step writes the sums of its ids as chunks of the new
//! run and deletes the chunks of the old runs that it has passed, so that their pages are used
//! again in the same transaction.

use std::collections::HashSet;

use rusqlite::params;
use terse_core::clicks::{
    ClickColumns, Count, Delta, DeltaChunkWriter, MAX_VALUES_PER_HOUR, SharedColumns,
};

use crate::clicks::bucket::{hour_id, of_hour_id};
use crate::clicks::runs::{
    ChunkIds, Run, RunMerge, Runs, SUMS_A_CHUNK, chunk_id, encode_chunks, seal_chunk,
};
use crate::clicks::sum::{Slot, Sum, log_damaged_sum};
use crate::clicks::writes::{ClickWrites, HOUR, MORE_OF_SUBJECT, PUT_HOUR};
use crate::failure::{Failure, corrupt};

const PUT_RUN: &str = "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5)";
const PUT_HEADS: &str = "INSERT OR REPLACE INTO run_heads VALUES (?1, ?2)";
const PUT_BODIES: &str = "INSERT OR REPLACE INTO run_bodies VALUES (?1, ?2)";
const NEXT_RUN: &str = "SELECT coalesce(max(id), 0) + 1 FROM runs";

/// A chunk ends when it has this many octets before compression.
const CHUNK_BYTES: usize = 24 << 10;

/// Writes the chunks of a run.
struct RunWriter<'w> {
    writes: &'w ClickWrites,
    run: Run,
    chunk: DeltaChunkWriter,
    first: i64,
    last: i64,
}

impl<'w> RunWriter<'w> {
    /// Goes on with a run.
    fn new(writes: &'w ClickWrites, run: Run) -> Self {
        Self { writes, run, chunk: DeltaChunkWriter::default(), first: 0, last: 0 }
    }

    /// Adds a sum. Ids must not descend.
    fn push(&mut self, id: i64, delta: &Delta, columns: &ClickColumns) -> Result<(), Failure> {
        let is_full = self.chunk.size() >= CHUNK_BYTES;
        if !self.chunk.is_empty() && (is_full || of_hour_id(id).0 != of_hour_id(self.last).0) {
            self.end_chunk()?;
        }
        if self.chunk.is_empty() {
            self.first = id;
        }
        self.last = id;
        self.chunk.push(id, delta, columns);
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<(), Failure> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        self.run.sums += self.chunk.len() as i64;
        self.writes.put_chunk(chunk_id(self.run.id, self.run.chunks.len()), &mut self.chunk)?;
        self.run.chunks.push(ChunkIds { first: self.first, last: self.last });
        Ok(())
    }

    /// Writes what is left.
    fn finish(mut self) -> Result<Run, Failure> {
        self.end_chunk()?;
        self.writes.put_run(&self.run)?;
        Ok(self.run)
    }
}

/// A step of a merge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeStep {
    /// How many sums it has read.
    pub(crate) read: u64,
    /// How many times as many runs there are as one level may have.
    pub(crate) piled: u64,
}

/// What a step reads.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) sums: Vec<(i64, Delta)>,
    pub(crate) columns: SharedColumns,
    /// How many sums were read.
    read: u64,
}

impl ClickWrites {
    pub(crate) fn put_run(&self, run: &Run) -> Result<(), Failure> {
        let chunks = encode_chunks(run.id, &run.chunks).ok_or_else(not_encoded)?;
        let row = params![run.id, run.level, run.sums, run.clean_to, chunks];
        self.conn.prepare_cached(PUT_RUN)?.execute(row)?;
        Ok(())
    }

    pub(crate) fn put_chunk(&self, id: i64, chunk: &mut DeltaChunkWriter) -> Result<(), Failure> {
        let (heads, bodies) = seal_chunk(id, &chunk.finish()).ok_or_else(not_encoded)?;
        self.conn.prepare_cached(PUT_HEADS)?.execute(params![id, heads])?;
        self.conn.prepare_cached(PUT_BODIES)?.execute(params![id, bodies])?;
        Ok(())
    }

    /// Deletes chunks of a run from one on to before another.
    fn delete_chunks(&self, run: i64, chunks: std::ops::Range<usize>) -> Result<(), Failure> {
        self.delete_chunk_ids([chunk_id(run, chunks.start), chunk_id(run, chunks.end)])
    }

    fn delete_chunk_ids(&self, ids: [i64; 2]) -> Result<(), Failure> {
        for sql in [
            "DELETE FROM run_heads WHERE id >= ?1 AND id < ?2",
            "DELETE FROM run_bodies WHERE id >= ?1 AND id < ?2",
        ] {
            self.conn.prepare_cached(sql)?.execute(ids)?;
        }
        Ok(())
    }

    fn delete_run(&self, run: i64) -> Result<(), Failure> {
        self.delete_chunk_ids([chunk_id(run, 0), chunk_id(run + 1, 0)])?;
        self.conn.prepare_cached("DELETE FROM runs WHERE id = ?1")?.execute([run])?;
        Ok(())
    }

    /// Stores the sums of a batch as a run. They have no erased subjects.
    pub(crate) fn put_sums(
        &self,
        mut sums: Vec<(i64, &Delta)>,
        columns: &ClickColumns,
    ) -> Result<(), Failure> {
        if sums.is_empty() {
            return Ok(());
        }
        // Stable: sums of one hour stay in their order.
        sums.sort_by_key(|(id, _)| *id);
        let id = self.conn.prepare_cached(NEXT_RUN)?.query_row([], |row| row.get(0))?;
        let clean_to = self.last_erased()?;
        let run = Run { id, level: 0, sums: 0, clean_to, chunks: Vec::new() };
        let mut writer = RunWriter::new(self, run);
        for (id, delta) in sums {
            writer.push(id, delta, columns)?;
        }
        writer.finish()?;
        Ok(())
    }

    fn set_run_merge(&self, merge: Option<RunMerge>) -> Result<(), Failure> {
        let RunMerge { level, last, out, to } = merge.unwrap_or_default();
        let mut statement =
            self.conn.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?;
        for (name, value) in [
            ("run_merge_level", level),
            ("run_merge_last", last),
            ("run_merge_out", out),
            ("run_merge_to", to),
        ] {
            statement.execute(params![name, value])?;
        }
        Ok(())
    }

    /// A step of a merge, if one has begun or a level has many runs.
    pub(crate) fn merge_runs_if_due(&mut self) -> Result<Option<MergeStep>, Failure> {
        // A refusal would keep a part of the step.
        self.try_merge_runs().map_err(Failure::after_writes)
    }

    fn try_merge_runs(&mut self) -> Result<Option<MergeStep>, Failure> {
        let runs = self.runs_to_merge()?;
        let merge = match runs.merge {
            Some(merge) => merge,
            None => match self.begin_merge(&runs)? {
                Some(merge) => merge,
                None => return Ok(None),
            },
        };
        // Read again: there is a new run now, and the merge has begun.
        let runs = if runs.merge.is_some() { runs } else { self.runs_to_merge()? };
        let piled = (runs.runs.len() / self.limits.runs.max(2)) as u64;
        let read = self.merge_runs(&runs, merge)?;
        Ok(Some(MergeStep { read, piled }))
    }

    /// The runs. A damaged list of chunks is made again from the chunks.
    pub(crate) fn runs_to_merge(&self) -> Result<Runs, Failure> {
        loop {
            match self.runs() {
                Err(Failure::Refused(error)) => {
                    let Some(id) = self.damaged_run()? else {
                        return Err(Failure::Refused(error));
                    };
                    tracing::error!(%error, run = id, "the list of a run's chunks is damaged and \
                        is made again");
                    self.mend_run(id)?;
                }
                runs => return runs,
            }
        }
    }

    fn damaged_run(&self) -> Result<Option<i64>, Failure> {
        let mut statement = self.conn.prepare_cached("SELECT id, chunks FROM runs")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            let chunks = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            if crate::clicks::runs::decode_chunks(id, chunks).is_none() {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Makes the list of a run's chunks from the chunks.
    fn mend_run(&self, run: i64) -> Result<(), Failure> {
        let mut statement =
            self.conn.prepare_cached("SELECT id FROM run_heads WHERE id >= ?1 AND id < ?2")?;
        let ids =
            statement.query_map([chunk_id(run, 0), chunk_id(run + 1, 0)], |row| row.get(0))?;
        let ids: Vec<i64> = ids.collect::<Result<_, _>>()?;
        // Those that are gone were the first ones, and no one reads them.
        let mut last = i64::MIN;
        let mut chunks = Vec::new();
        for at in ids.iter().map(|id| (id - chunk_id(run, 0)) as usize) {
            chunks.resize(at, ChunkIds { first: last, last });
            // A damaged chunk is found again where it is read.
            let heads = match self.run_heads(run, at) {
                Err(Failure::Refused(_)) => Vec::new(),
                heads => heads?,
            };
            let first = heads.first().map_or(last, |head| head.id);
            last = heads.last().map_or(last, |head| head.id);
            chunks.push(ChunkIds { first, last });
        }
        if chunks.is_empty() {
            return self.delete_run(run);
        }
        let mut statement =
            self.conn.prepare_cached("SELECT level, sums, clean_to FROM runs WHERE id = ?1")?;
        let (level, sums, clean_to) = statement.query_row([run], |row| row.try_into())?;
        self.put_run(&Run { id: run, level, sums, clean_to, chunks })
    }

    /// Begins to merge the lowest level that has enough runs.
    fn begin_merge(&self, runs: &Runs) -> Result<Option<RunMerge>, Failure> {
        let levels: HashSet<i64> = runs.runs.iter().map(|run| run.level).collect();
        let of = |level: i64| runs.runs.iter().filter(move |run| run.level == level);
        let full = levels.into_iter().filter(|level| of(*level).count() >= self.limits.runs.max(2));
        let Some(level) = full.min() else { return Ok(None) };
        let last = of(level).map(|run| run.id).max().unwrap_or(0);
        let out = runs.runs.iter().map(|run| run.id).max().unwrap_or(0) + 1;
        let clean_to = of(level).map(|run| run.clean_to).min().unwrap_or(0);
        let merge = RunMerge { level, last, out, to: i64::MIN };
        self.put_run(&Run { id: out, level: level + 1, sums: 0, clean_to, chunks: Vec::new() })?;
        self.set_run_merge(Some(merge))?;
        Ok(Some(merge))
    }

    /// A step of a merge: its sums, from where the last step ended.
    fn merge_runs(&mut self, runs: &Runs, merge: RunMerge) -> Result<u64, Failure> {
        let inputs: Vec<&Run> = runs.runs.iter().filter(|run| merge.has_input(run)).collect();
        let from = merge.to.max(runs.settled_to);
        let end = end_of_step(&inputs, from, self.limits.step);
        let part = self.read_part(runs, &inputs, from, end)?;
        let out = runs.runs.iter().find(|run| run.id == merge.out);
        let out = Run {
            id: merge.out,
            level: merge.level + 1,
            sums: out.map_or(0, |out| out.sums),
            clean_to: out.map_or(0, |out| out.clean_to),
            chunks: out.map(|out| out.chunks.clone()).unwrap_or_default(),
        };
        // First, so that their pages are free for the new ones.
        for run in &inputs {
            let passed = run.chunks.partition_point(|chunk| chunk.last < end);
            let before = run.chunks.partition_point(|chunk| chunk.last < from);
            self.delete_chunks(run.id, before.min(passed)..passed)?;
        }
        let mut writer = RunWriter::new(self, out);
        for sums in part.sums.chunk_by(|one, other| one.0 == other.0) {
            let merged = merged(sums);
            match merged.is_packable() {
                true => writer.push(sums[0].0, &merged, &part.columns.columns)?,
                false => self.add_row(sums[0].0, &merged, &part.columns.columns)?,
            }
        }
        let out = writer.finish()?;
        if end < i64::MAX {
            self.set_run_merge(Some(RunMerge { to: end, ..merge }))?;
            return Ok(part.read);
        }
        for run in inputs {
            self.delete_run(run.id)?;
        }
        if out.chunks.is_empty() {
            self.delete_run(out.id)?;
        }
        self.set_run_merge(None)?;
        Ok(part.read)
    }

    /// Reads the sums of runs with ids from `from` to before `end`, sorted by id.
    fn read_part(&self, all: &Runs, runs: &[&Run], from: i64, end: i64) -> Result<Part, Failure> {
        let erased = self.erased_subjects()?;
        let mut part = Part::default();
        for run in runs {
            let from = from.max(all.begin(run));
            for at in run.chunks_in(from, end) {
                match self.read_chunk(run.id, at, from, end, &erased, &mut part) {
                    // Skips a damaged chunk, which would otherwise stop all merges for ever.
                    Err(Failure::Refused(error)) => log_lost(&error, run.id),
                    read => read?,
                }
            }
        }
        // Stable: sums of one hour stay in the order of the runs.
        part.sums.sort_by_key(|(id, _)| *id);
        Ok(part)
    }

    pub(crate) fn read_chunk(
        &self,
        run: i64,
        at: usize,
        from: i64,
        end: i64,
        erased: &HashSet<i64>,
        part: &mut Part,
    ) -> Result<(), Failure> {
        let heads = self.run_heads(run, at)?;
        let bodies = match self.run_bodies(run, at) {
            Err(Failure::Refused(error)) => {
                log_damaged_sum(&error.to_string());
                None
            }
            bodies => Some(bodies?),
        };
        let bodies = bodies.map(|bodies| (part.columns.add(&bodies), bodies));
        for head in heads.iter().filter(|head| (from..end).contains(&head.id)) {
            part.read += 1;
            let (day, subject, hour) = of_hour_id(head.id);
            // An erased subject has no rows.
            if !erased.is_empty() && erased.contains(&subject) {
                continue;
            }
            let hour = day * 24 + hour;
            let delta = bodies.as_ref().and_then(|(numbers, bodies)| {
                let mut delta = bodies.delta(head, hour)?;
                numbers.apply(&mut delta);
                Some(delta)
            });
            // Of a damaged sum, only the number of clicks is known.
            part.sums.push((head.id, delta.unwrap_or_else(|| Delta::bare(hour, head.clicks))));
        }
        Ok(())
    }

    /// Adds a sum to the row of its hour, and its clicks to the total of its subject.
    fn add_row(&self, id: i64, delta: &Delta, columns: &ClickColumns) -> Result<(), Failure> {
        let (day, subject, hour) = of_hour_id(id);
        let slot = Slot::Hour { subject, hour: day * 24 + hour };
        let mut statement = self.conn.prepare_cached(HOUR)?;
        let mut rows = statement.query([id])?;
        let mut sum = match rows.next()? {
            Some(row) => Sum::read_or_mend(row, 0, slot)?,
            None => Sum::default(),
        };
        drop(rows);
        sum.add_delta(delta, columns);
        sum.tally.trim(MAX_VALUES_PER_HOUR);
        let Count { humans, bots } = sum.tally.clicks;
        let row = params![id, humans.cast_signed(), bots.cast_signed(), sum.encode(slot)];
        self.conn.prepare_cached(PUT_HOUR)?.execute(row)?;
        let Count { humans, bots } = delta.clicks;
        self.conn.prepare_cached(MORE_OF_SUBJECT)?.execute([
            subject,
            humans.cast_signed(),
            bots.cast_signed(),
        ])?;
        Ok(())
    }

    /// Makes rows of some sums of days before this one. Returns how many sums were read, and
    /// whether there are more.
    pub(crate) fn write_finished_days(&mut self, before: i64) -> Result<(u64, bool), Failure> {
        let runs = self.runs_to_merge()?;
        let limit = hour_id(before, 0, 0);
        if runs.settled_to >= limit || runs.is_empty() {
            return Ok((0, false));
        }
        let inputs: Vec<&Run> = runs.runs.iter().collect();
        let end = end_of_step(&inputs, runs.settled_to, self.limits.step).min(limit);
        let part = self.read_part(&runs, &inputs, runs.settled_to, end)?;
        for sums in part.sums.chunk_by(|one, other| one.0 == other.0) {
            self.add_row(sums[0].0, &merged(sums), &part.columns.columns)?;
        }
        for run in &runs.runs {
            let passed = run.chunks.partition_point(|chunk| chunk.last < end);
            let is_merged =
                runs.merge.is_some_and(|merge| merge.has_input(run) || merge.out == run.id);
            if passed == run.chunks.len() && !is_merged {
                self.delete_run(run.id)?;
            } else {
                self.delete_chunks(run.id, 0..passed)?;
            }
        }
        self.conn
            .prepare_cached("INSERT OR REPLACE INTO meta VALUES ('settled_to', ?1)")?
            .execute([end])?;
        Ok((part.read, end < limit))
    }
}

/// The sum of deltas of one hour.
fn merged(sums: &[(i64, Delta)]) -> std::borrow::Cow<'_, Delta> {
    let mut merged = std::borrow::Cow::Borrowed(&sums[0].1);
    sums[1..].iter().for_each(|(_, delta)| merged.to_mut().merge(delta));
    merged
}

fn not_encoded() -> Failure {
    corrupt("sums cannot be compressed").into()
}

pub(crate) fn log_lost(error: &impl std::fmt::Display, run: i64) {
    tracing::error!(%error, run, "sums of clicks by hour are damaged and lost");
}

/// Where a step that begins with this id ends: it has about `sums` sums, and two steps read few
/// chunks in common.
fn end_of_step(runs: &[&Run], from: i64, sums: usize) -> i64 {
    // Chunks have about the same number of sums in all runs. Two chunks may share an id: a step
    // goes past its first one.
    let chunks = runs.iter().flat_map(|run| &run.chunks);
    let mut later: Vec<i64> = chunks.map(|chunk| chunk.first).filter(|id| *id > from).collect();
    later.sort_unstable();
    later.get((sums / SUMS_A_CHUNK).max(1)).copied().unwrap_or(i64::MAX)
}
