//! Moves the sums of finished days from runs that are sorted by day into runs that are sorted by
//! subject, and adds their clicks to the totals of their subjects. See `runs` and `finished`.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::params;
use terse_core::clicks::{ClickColumns, Count, Delta, MAX_VALUES_PER_HOUR};

use crate::clicks::bucket::{finished_id, hour_id, of_finished_id, of_hour_id};
use crate::clicks::run_merge::{Part, RunWriter, end_of_step, merged};
use crate::clicks::runs::{FINISHED, Run, Runs};
use crate::clicks::sum::{Slot, Sum};
use crate::clicks::writes::{ClickWrites, HOUR, MORE_OF_SUBJECT, PUT_HOUR};
use crate::failure::Failure;

/// By the index of these subjects.
pub(crate) const OTHERS: &str = "SELECT id FROM subjects WHERE kind <> 0";

/// In the sum of a whole day, this stands for the hour.
pub(crate) const WHOLE_DAY: i64 = 23;

impl ClickWrites {
    /// Adds a sum to the row of its hour, and its clicks to the total of its subject.
    pub(crate) fn add_row(
        &self,
        id: i64,
        delta: &Delta,
        columns: &ClickColumns,
    ) -> Result<(), Failure> {
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
        self.add_clicks(subject, delta.clicks)
    }

    fn add_clicks(&self, subject: i64, Count { humans, bots }: Count) -> Result<(), Failure> {
        let row = [subject, humans.cast_signed(), bots.cast_signed()];
        self.conn.prepare_cached(MORE_OF_SUBJECT)?.execute(row)?;
        Ok(())
    }

    /// Moves some sums of days before this one into runs of finished days. Returns how many sums
    /// were read, and whether there are more.
    pub(crate) fn write_finished_days(&mut self, before: i64) -> Result<(u64, bool), Failure> {
        let runs = self.runs_to_merge()?;
        let limit = hour_id(before, 0, 0);
        if runs.settled_to >= limit || runs.is_empty() {
            return Ok((0, false));
        }
        let inputs: Vec<&Run> = runs.runs.iter().collect();
        let end = end_of_step(&inputs, runs.settled_to, self.limits.step).min(limit);
        let part = self.read_part(&runs, &inputs, runs.settled_to, end)?;
        // First, so that their pages are free for the new ones.
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
        let day_of = |(id, _): &(i64, Delta)| of_hour_id(*id).0;
        for sums in part.sums.chunk_by(|one, other| day_of(one) == day_of(other)) {
            self.finish_day(&runs, sums, &part.columns.columns)?;
        }
        self.conn
            .prepare_cached("INSERT OR REPLACE INTO meta VALUES ('settled_to', ?1)")?
            .execute([end])?;
        Ok((part.read, end < limit))
    }

    /// Writes sums of one day into its run, sorted by subject and hour.
    fn finish_day(
        &self,
        runs: &Runs,
        sums: &[(i64, Delta)],
        columns: &ClickColumns,
    ) -> Result<(), Failure> {
        let (day, subject, hour) = of_hour_id(sums[0].0);
        let out = self.run_of_day(runs, day, finished_id(subject, day, hour))?;
        let mut writer = RunWriter::new(self, out);
        let mut ranked = Vec::new();
        let mut more_clicks = self.conn.prepare_cached(MORE_OF_SUBJECT)?;
        let others = self.subjects_without_rank()?;
        let subject_of = |(id, _): &(i64, Delta)| of_hour_id(*id).1;
        for of_subject in sums.chunk_by(|one, other| subject_of(one) == subject_of(other)) {
            let subject = subject_of(&of_subject[0]);
            let mut clicks = Count::default();
            for of_hour in of_subject.chunk_by(|one, other| one.0 == other.0) {
                let (id, sum) = (of_hour[0].0, merged(of_hour));
                if sum.is_packable() {
                    clicks.add(sum.clicks);
                    writer.push(finished_id(subject, day, of_hour_id(id).2), &sum, columns)?;
                } else {
                    self.add_row(id, &sum, columns)?;
                }
            }
            if clicks != Count::default() {
                let Count { humans, bots } = clicks;
                let row = [subject, humans.cast_signed(), bots.cast_signed()];
                let is_there = more_clicks.execute(row)? > 0;
                if is_there && !others.contains(&subject) {
                    ranked.push((subject, clicks));
                }
            }
        }
        let out = writer.finish()?;
        if out.chunks.is_empty() {
            self.delete_run(out.id)?;
        }
        self.rank_day(day, &ranked)
    }

    /// The subjects that are not links. There are few of them, and to look for the row of each link
    /// would cost more than to add to it.
    fn subjects_without_rank(&self) -> Result<HashSet<i64>, Failure> {
        let mut statement = self.conn.prepare_cached(OTHERS)?;
        let ids = statement.query_map([], |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// The run that the last step began for this day, or a new one.
    fn run_of_day(&self, runs: &Runs, day: i64, first: i64) -> Result<Run, Failure> {
        let open = runs.finished.iter().rev().find(|run| {
            let last = run.chunks.last();
            run.level == FINISHED
                && !runs.merge.is_some_and(|merge| merge.has_input(run))
                && last
                    .is_some_and(|chunk| of_finished_id(chunk.last).0 == day && chunk.last < first)
        });
        Ok(match open {
            Some(run) => Run { chunks: Arc::clone(&run.chunks), ..*run },
            None => Run {
                id: self.next_run()?,
                level: FINISHED,
                sums: 0,
                clean_to: self.last_erased()?,
                chunks: Arc::default(),
            },
        })
    }

    /// Writes sums of finished days into a merged run. Of days whose hours are no longer kept, the
    /// hours become one sum.
    pub(crate) fn write_finished(
        &self,
        writer: &mut RunWriter<'_>,
        part: &Part,
    ) -> Result<(), Failure> {
        let columns = &part.columns.columns;
        let hours_from = self.progress()?.hours_from;
        let is_same = |one: &(i64, Delta), other: &(i64, Delta)| {
            let (day, subject, _) = of_finished_id(one.0);
            let (other_day, other_subject, _) = of_finished_id(other.0);
            one.0 == other.0 || day < hours_from && (day, subject) == (other_day, other_subject)
        };
        for sums in part.sums.chunk_by(is_same) {
            let (day, subject, hour) = of_finished_id(sums[0].0);
            let mut sum = merged(sums);
            let hour = if day < hours_from { WHOLE_DAY } else { hour };
            if !sum.is_packable() {
                // Each of them is.
                for (id, sum) in sums {
                    writer.push(*id, sum, columns)?;
                }
                continue;
            }
            if sum.hour != day * 24 + hour {
                sum.to_mut().hour = day * 24 + hour;
            }
            writer.push(finished_id(subject, day, hour), &sum, columns)?;
        }
        Ok(())
    }
}
