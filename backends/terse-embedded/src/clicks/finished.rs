//! Sums of finished days. They stay in runs, which are sorted by subject first.
//!
//! A finished day becomes one run. Several are merged into one, and several of these again, so that
//! a report reads a chunk or two of some ten runs, whatever the number of days. Compared with rows,
//! a sum of a quiet link is written two or three times next to others, instead of three times on
//! pages all over the file.

use std::collections::HashMap;

use terse_core::clicks::{ClickColumns, Count, Delta, DeltaHead};

use crate::clicks::bucket::{finished_id, of_finished_id};
use crate::clicks::queries::ClickQueries;
use crate::clicks::run_merge::log_lost;
use crate::clicks::runs::Runs;
use crate::clicks::sum::{Sum, log_damaged_sum};
use crate::failure::Failure;

/// A sum of a subject in a run of finished days.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedSum {
    pub(crate) day: i64,
    /// Of the day. Has no meaning if the hours of the day are no longer kept.
    pub(crate) hour: i64,
    pub(crate) clicks: Count,
    run: i64,
    chunk: usize,
    head: DeltaHead,
}

impl ClickQueries {
    /// The sums of a subject from one day to another.
    pub(crate) fn finished_sums(
        &self,
        runs: &Runs,
        subject: i64,
        (first, last): (i64, i64),
    ) -> Result<Vec<FinishedSum>, Failure> {
        let mut found = Vec::new();
        for run in runs.finished_in((first, last)) {
            let from = finished_id(subject, first, 0).max(runs.begin(run));
            let to = finished_id(subject, last, 24);
            for chunk in run.chunks_in(from, to) {
                let heads = self.finished_heads(run.id, chunk)?;
                for head in heads.into_iter().filter(|head| (from..to).contains(&head.id)) {
                    let (day, _, hour) = of_finished_id(head.id);
                    let clicks = head.clicks;
                    found.push(FinishedSum { day, hour, clicks, run: run.id, chunk, head });
                }
            }
        }
        Ok(found)
    }

    /// The sums of a chunk; none if it is damaged. A finished day is rarely written again, so an
    /// error would hide all other days from reports for long.
    fn finished_heads(&self, run: i64, chunk: usize) -> Result<Vec<DeltaHead>, Failure> {
        match self.run_heads(run, chunk) {
            Err(Failure::Refused(error)) => {
                log_lost(&error, run);
                Ok(Vec::new())
            }
            heads => heads,
        }
    }

    /// Adds some of them to a sum. Of a damaged one, only the number of clicks.
    pub(crate) fn add_finished<'f>(
        &self,
        sums: impl Iterator<Item = &'f FinishedSum>,
        sum: &mut Sum,
    ) -> Result<(), Failure> {
        let mut opened = None;
        for found in sums {
            let place = (found.run, found.chunk);
            let bodies = match &mut opened {
                Some((of, bodies)) if *of == place => bodies,
                opened => {
                    let bodies = match self.run_bodies(found.run, found.chunk) {
                        Err(Failure::Refused(error)) => {
                            log_damaged_sum(&error.to_string());
                            None
                        }
                        bodies => Some(bodies?),
                    };
                    &mut opened.insert((place, bodies)).1
                }
            };
            let hour = found.day * 24 + found.hour;
            let read = bodies
                .as_ref()
                .and_then(|bodies| Some((bodies.delta(&found.head, hour)?, &bodies.columns)));
            match read {
                Some((delta, columns)) => sum.add_delta(&delta, columns),
                None => sum.add_delta(&Delta::bare(hour, found.clicks), &ClickColumns::default()),
            }
        }
        Ok(())
    }

    /// The clicks of all subjects from one finished day to another, as far as they are wanted,
    /// given day and hour.
    pub(crate) fn all_finished(
        &self,
        runs: &Runs,
        days: (i64, i64),
        is_wanted: impl Fn(i64, i64) -> bool,
    ) -> Result<HashMap<i64, Count>, Failure> {
        let mut clicks: HashMap<i64, Count> = HashMap::new();
        for run in runs.finished_in(days) {
            let begin = runs.begin(run);
            for chunk in run.chunks_in(begin, i64::MAX) {
                for head in self.finished_heads(run.id, chunk)? {
                    let (day, subject, hour) = of_finished_id(head.id);
                    if head.id >= begin && is_wanted(day, hour) {
                        clicks.entry(subject).or_default().add(head.clicks);
                    }
                }
            }
        }
        Ok(clicks)
    }
}
