//! Takes erased subjects out of runs.

use std::collections::HashSet;

use terse_core::clicks::DeltaChunkWriter;

use crate::clicks::bucket::of_hour_id;
use crate::clicks::run_merge::{Part, log_lost};
use crate::clicks::runs::chunk_id;
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
        for mut run in self.runs_to_merge()?.runs {
            if run.clean_to >= last {
                continue;
            }
            // Where the step before ended, if it was about the same erasures.
            let begin = match self.cleaned {
                Some(cleaned) if (cleaned.run, cleaned.last) == (run.id, last) => cleaned.chunks,
                _ => 0,
            };
            for at in begin..run.chunks.len() {
                if to_rewrite == 0 || to_read == 0 {
                    self.cleaned = Some(CleanedRun { run: run.id, last, chunks: at });
                    return Ok(true);
                }
                to_read -= 1;
                to_rewrite -= usize::from(self.clean_chunk(run.id, at, &erased)?);
            }
            run.clean_to = last;
            self.put_run(&run)?;
        }
        Ok(false)
    }

    /// Takes erased subjects out of a chunk. Returns whether it had any.
    fn clean_chunk(&self, run: i64, at: usize, erased: &HashSet<i64>) -> Result<bool, Failure> {
        let id = chunk_id(run, at);
        // A merge has deleted it.
        if !self.conn.prepare_cached("SELECT 1 FROM run_heads WHERE id = ?1")?.exists([id])? {
            return Ok(false);
        }
        let is_erased = |id: i64| erased.contains(&of_hour_id(id).1);
        match self.run_heads(run, at) {
            Ok(heads) if !heads.iter().any(|head| is_erased(head.id)) => return Ok(false),
            _ => {}
        }
        let mut part = Part::default();
        match self.read_chunk(run, at, i64::MIN, i64::MAX, erased, &mut part) {
            // It may hold any of them.
            Err(Failure::Refused(error)) => log_lost(&error, run),
            read => read?,
        }
        let mut chunk = DeltaChunkWriter::default();
        part.sums.iter().for_each(|(id, delta)| chunk.push(*id, delta, &part.columns.columns));
        self.put_chunk(id, &mut chunk)?;
        Ok(true)
    }
}
