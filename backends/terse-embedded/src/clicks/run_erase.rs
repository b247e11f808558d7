//! Takes erased subjects out of runs.

use std::collections::{BTreeSet, HashSet};

use terse_core::clicks::{DeltaChunkWriter, Period};

use crate::clicks::bucket::finished_id;
use crate::clicks::report::TimeRange;
use crate::clicks::run_merge::{Part, log_lost};
use crate::clicks::runs::{Run, Runs, chunk_id};
use crate::clicks::writes::ClickWrites;
use crate::failure::Failure;

/// How many chunks one step of an erasure rewrites, and how many it reads to find them.
const CHUNKS_A_STEP: usize = 200;
const READ_A_STEP: usize = 4000;

/// How far erased subjects are taken out of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CleanedRun {
    run: i64,
    /// Erasures up to this one are.
    last: i64,
    /// In so many chunks.
    chunks: usize,
}

impl ClickWrites {
    /// Takes erased subjects out of some chunks of runs. Returns whether there is more to do.
    pub(crate) fn clean_runs(&mut self) -> Result<bool, Failure> {
        let last = self.last_erased()?;
        let erased = self.erased_subjects()?;
        let (mut to_rewrite, mut to_read) = (CHUNKS_A_STEP, READ_A_STEP);
        let Runs { runs, finished, .. } = self.runs_to_merge()?;
        for mut run in runs.into_iter().chain(finished) {
            if run.clean_to >= last {
                continue;
            }
            let dirty = chunks_with(&run, &erased);
            // Where the step before ended, if it was about the same erasures.
            let begin = match self.cleaned {
                Some(cleaned) if (cleaned.run, cleaned.last) == (run.id, last) => cleaned.chunks,
                _ => 0,
            };
            for at in dirty.into_iter().filter(|at| *at >= begin) {
                if to_rewrite == 0 || to_read == 0 {
                    self.cleaned = Some(CleanedRun { run: run.id, last, chunks: at });
                    return Ok(true);
                }
                to_read -= 1;
                to_rewrite -= usize::from(self.clean_chunk(&run, at, &erased)?);
            }
            run.clean_to = last;
            self.put_run(&run)?;
        }
        Ok(false)
    }

    /// Takes erased subjects out of a chunk. Returns whether it had any.
    fn clean_chunk(&self, run: &Run, at: usize, erased: &HashSet<i64>) -> Result<bool, Failure> {
        let id = chunk_id(run.id, at);
        // A merge has deleted it.
        if !self.conn.prepare_cached("SELECT 1 FROM run_heads WHERE id = ?1")?.exists([id])? {
            return Ok(false);
        }
        let is_erased = |id: i64| erased.contains(&run.place(id).1);
        match self.run_heads(run.id, at) {
            Ok(heads) if !heads.iter().any(|head| is_erased(head.id)) => return Ok(false),
            _ => {}
        }
        let mut part = Part::default();
        match self.read_chunk(run, at, i64::MIN..i64::MAX, erased, &mut part) {
            // It may hold any of them.
            Err(Failure::Refused(error)) => log_lost(&error, run.id),
            read => read?,
        }
        let mut chunk = DeltaChunkWriter::default();
        part.sums.iter().for_each(|(id, delta)| chunk.push(*id, delta, &part.columns.columns));
        self.put_chunk(id, &mut chunk)?;
        Ok(true)
    }
}

/// The chunks of a run that may have sums of these subjects, ascending.
fn chunks_with(run: &Run, subjects: &HashSet<i64>) -> Vec<usize> {
    // A finished day has many chunks and stays for years, so only those are read.
    if !run.is_finished() {
        return (0..run.chunks.len()).collect();
    }
    let (first, last) = TimeRange::of(Period::default()).days();
    let chunks = |subject: &i64| {
        run.chunks_in(finished_id(*subject, first, 0), finished_id(*subject, last, 24))
    };
    let chunks: BTreeSet<usize> = subjects.iter().flat_map(chunks).collect();
    chunks.into_iter().collect()
}
