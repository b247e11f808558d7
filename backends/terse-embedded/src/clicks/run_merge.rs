//! Writes runs and merges them. See `runs`.
//!
//! A merge goes through the ids in steps. Each step writes the sums of its ids as chunks of the new
//! run and deletes the chunks of the old runs that it has passed, so that their pages are used
//! again in the same transaction.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use rusqlite::params;
use terse_core::clicks::{ClickColumns, Delta, DeltaChunkWriter, SharedColumns};

use crate::clicks::bucket::{after_finished_day, hour_id, of_hour_id, start_of_finished_day};
use crate::clicks::runs::{
    ChunkIds, FINISHED, Run, RunMerge, Runs, SUMS_A_CHUNK, chunk_id, encode_chunks, seal_chunk,
};
use crate::clicks::sum::log_damaged_sum;
use crate::clicks::writes::ClickWrites;
use crate::failure::{Failure, corrupt};

const PUT_RUN: &str = "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5)";
const PUT_HEADS: &str = "INSERT OR REPLACE INTO run_heads VALUES (?1, ?2)";
const PUT_BODIES: &str = "INSERT OR REPLACE INTO run_bodies VALUES (?1, ?2)";
/// No run gets the id of one that is gone: readers remember lists of chunks by it.
const LAST_RUN: &str = "SELECT max((SELECT coalesce(max(id), 0) FROM runs), \
    (SELECT coalesce(max(value), 0) FROM meta WHERE name = 'last_run'))";

/// A chunk ends when it has this many bytes before compression.
const CHUNK_BYTES: usize = 24 << 10;

/// Writes the chunks of a run.
pub(crate) struct RunWriter<'w> {
    writes: &'w ClickWrites,
    run: Run,
    chunks: Vec<ChunkIds>,
    chunk: DeltaChunkWriter,
    first: i64,
    last: i64,
}

impl<'w> RunWriter<'w> {
    /// Goes on with a run.
    pub(crate) fn new(writes: &'w ClickWrites, run: Run) -> Self {
        let chunks = run.chunks.to_vec();
        Self { writes, run, chunks, chunk: DeltaChunkWriter::default(), first: 0, last: 0 }
    }

    /// Adds a sum. Ids must not descend.
    pub(crate) fn push(
        &mut self,
        id: i64,
        delta: &Delta,
        columns: &ClickColumns,
    ) -> Result<(), Failure> {
        let is_full = self.chunk.size() >= CHUNK_BYTES;
        let is_other_day =
            || !self.run.is_finished() && of_hour_id(id).0 != of_hour_id(self.last).0;
        if !self.chunk.is_empty() && (is_full || is_other_day()) {
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
        self.writes.put_chunk(chunk_id(self.run.id, self.chunks.len()), &mut self.chunk)?;
        self.chunks.push(ChunkIds { first: self.first, last: self.last });
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(mut self) -> Result<Run, Failure> {
        self.end_chunk()?;
        self.run.chunks = Arc::new(self.chunks);
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
    pub(crate) read: u64,
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

    /// The id of a new run.
    pub(crate) fn next_run(&self) -> Result<i64, Failure> {
        let last: i64 = self.conn.prepare_cached(LAST_RUN)?.query_row([], |row| row.get(0))?;
        self.conn
            .prepare_cached("INSERT OR REPLACE INTO meta VALUES ('last_run', ?1)")?
            .execute([last + 1])?;
        Ok(last + 1)
    }

    /// Deletes chunks of a run from one on to before another.
    pub(crate) fn delete_chunks(&self, run: i64, chunks: Range<usize>) -> Result<(), Failure> {
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

    pub(crate) fn delete_run(&self, run: i64) -> Result<(), Failure> {
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
        let (id, clean_to) = (self.next_run()?, self.last_erased()?);
        let run = Run { id, level: 0, sums: 0, clean_to, chunks: Arc::default() };
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
        self.put_run(&Run { id: run, level, sums, clean_to, chunks: Arc::new(chunks) })
    }

    /// Begins to merge the lowest level that has enough runs.
    fn begin_merge(&self, runs: &Runs) -> Result<Option<RunMerge>, Failure> {
        // A day that is not finished yet goes on in the last run of finished days.
        let (day, ..) = of_hour_id(runs.settled_to);
        let is_day_open = runs.settled_to != i64::MIN && runs.settled_to != hour_id(day, 0, 0);
        let levels: HashSet<i64> = runs.all().map(|run| run.level).collect();
        let of = |level: i64| runs.all().filter(move |run| run.level == level);
        let full = levels.into_iter().filter(|level| {
            of(*level).count() >= self.limits.runs.max(2) && !(*level >= FINISHED && is_day_open)
        });
        let Some(level) = full.min() else { return Ok(None) };
        let last = of(level).map(|run| run.id).max().unwrap_or(0);
        let out = self.next_run()?;
        let clean_to = of(level).map(|run| run.clean_to).min().unwrap_or(0);
        let merge = RunMerge { level, last, out, to: i64::MIN };
        let chunks = Arc::default();
        self.put_run(&Run { id: out, level: level + 1, sums: 0, clean_to, chunks })?;
        self.set_run_merge(Some(merge))?;
        Ok(Some(merge))
    }

    /// A step of a merge: its sums, from where the last step ended.
    fn merge_runs(&mut self, runs: &Runs, merge: RunMerge) -> Result<u64, Failure> {
        let inputs: Vec<&Run> = runs.all().filter(|run| merge.has_input(run)).collect();
        let is_finished = merge.level >= FINISHED;
        let from = if is_finished { merge.to } else { merge.to.max(runs.settled_to) };
        let mut end = end_of_step(&inputs, from, self.limits.step);
        if is_finished {
            end = whole_day(from, end);
        }
        let part = self.read_part(runs, &inputs, from, end)?;
        let out = runs.all().find(|run| run.id == merge.out);
        let out = Run {
            id: merge.out,
            level: merge.level + 1,
            sums: out.map_or(0, |out| out.sums),
            clean_to: out.map_or(0, |out| out.clean_to),
            chunks: out.map(|out| Arc::clone(&out.chunks)).unwrap_or_default(),
        };
        // First, so that their pages are free for the new ones.
        for run in &inputs {
            let passed = run.chunks.partition_point(|chunk| chunk.last < end);
            let before = run.chunks.partition_point(|chunk| chunk.last < from);
            self.delete_chunks(run.id, before.min(passed)..passed)?;
        }
        let mut writer = RunWriter::new(self, out);
        if is_finished {
            self.write_finished(&mut writer, &part)?;
        } else {
            for sums in part.sums.chunk_by(|one, other| one.0 == other.0) {
                let merged = merged(sums);
                match merged.is_packable() {
                    true => writer.push(sums[0].0, &merged, &part.columns.columns)?,
                    false => self.add_row(sums[0].0, &merged, &part.columns.columns)?,
                }
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
    pub(crate) fn read_part(
        &self,
        all: &Runs,
        runs: &[&Run],
        from: i64,
        end: i64,
    ) -> Result<Part, Failure> {
        let erased = self.erased_subjects()?;
        let mut part = Part::default();
        for run in runs {
            let from = from.max(all.begin(run));
            for at in run.chunks_in(from, end) {
                match self.read_chunk(run, at, from..end, &erased, &mut part) {
                    // Skips a damaged chunk, which would otherwise stop all merges forever.
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
        run: &Run,
        at: usize,
        ids: Range<i64>,
        erased: &HashSet<i64>,
        part: &mut Part,
    ) -> Result<(), Failure> {
        let heads = self.run_heads(run.id, at)?;
        let bodies = match self.run_bodies(run.id, at) {
            Err(Failure::Refused(error)) => {
                log_damaged_sum(&error.to_string());
                None
            }
            bodies => Some(bodies?),
        };
        let bodies = bodies.map(|bodies| (part.columns.add(&bodies), bodies));
        for head in heads.iter().filter(|head| ids.contains(&head.id)) {
            part.read += 1;
            let (day, subject, hour) = run.place(head.id);
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
}

/// The sum of deltas of one hour.
pub(crate) fn merged(sums: &[(i64, Delta)]) -> Cow<'_, Delta> {
    let mut merged = Cow::Borrowed(&sums[0].1);
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
pub(crate) fn end_of_step(runs: &[&Run], from: i64, sums: usize) -> i64 {
    // Chunks have about the same number of sums in all runs. Two chunks may share an id: a step
    // goes past its first one.
    let chunks = runs.iter().flat_map(|run| run.chunks.iter());
    let mut later: Vec<i64> = chunks.map(|chunk| chunk.first).filter(|id| *id > from).collect();
    later.sort_unstable();
    later.get((sums / SUMS_A_CHUNK).max(1)).copied().unwrap_or(i64::MAX)
}

/// Where a step over finished days ends, given where it would: no step ends within a day, because
/// the hours of a day may become one sum, and ids must not descend in the merged run.
fn whole_day(from: i64, end: i64) -> i64 {
    let start = start_of_finished_day(end);
    match end {
        i64::MAX => end,
        _ if start > from => start,
        _ => after_finished_day(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clicks::bucket::finished_id;

    #[test]
    fn no_step_over_finished_days_ends_within_a_day() {
        let start = |day: i64| finished_id(7, day, 0);
        for (from, end, expected) in [
            (i64::MIN, i64::MAX, i64::MAX),
            (i64::MIN, start(3), start(3)),
            (i64::MIN, start(3) + 5, start(3)),
            (start(2), start(3) + 23, start(3)),
            // The day goes into the step as a whole.
            (start(3), start(3) + 1, start(4)),
        ] {
            assert_eq!(whole_day(from, end), expected, "{from} {end}");
        }
    }
}
