//! Which hours are in the sums of days and in the sums of all time.
//!
//! A batch writes the sums of hours. When a day is over, its hours are added to the sum of the day
//! and to the sum of all time, once, in the order of their ids. So a busy link costs one row a
//! flush, and a report reads a row a day.

use rusqlite::{OptionalExtension, params};
use terse_core::clicks::{Count, MAX_VALUES_PER_DAY, MAX_VALUES_TOTAL};

use crate::clicks::bucket::{day_id, hour_id, of_hour_id};
use crate::clicks::queries::ClickQueries;
use crate::clicks::report::EVER;
use crate::clicks::sum::{Slot, Sum};
use crate::clicks::writes::ClickWrites;
use crate::failure::Failure;

pub(crate) const PROGRESS: &str =
    "SELECT name, value FROM meta WHERE name IN ('folded_to', 'totals_to', 'hours_from')";
pub(crate) const UNFOLDED: &str = "SELECT id, people, machines, sum FROM hours \
     WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
pub(crate) const DAY: &str = "SELECT people, machines, sum FROM days WHERE id = ?1";
const PUT_DAY: &str =
    "INSERT OR REPLACE INTO days (id, people, machines, sum) VALUES (?1, ?2, ?3, ?4)";
const PUT_EVER: &str = "UPDATE subjects SET sum = ?2 WHERE id = ?1";

/// How far hours are folded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Progress {
    /// Hours below this id are in the sums of their days.
    pub(crate) folded_to: i64,
    /// Hours below this id are in the sums of all time.
    pub(crate) totals_to: i64,
    /// Of days before this one, only the sum of the day counts.
    pub(crate) hours_from: i64,
}

impl Progress {
    /// Whether a click of this hour must be added to the sum of the day now.
    pub(crate) fn is_in_day(&self, day: i64, id: i64) -> bool {
        day < self.hours_from || id < self.folded_to
    }

    /// Whether it must be added to the sum of all time now.
    pub(crate) fn is_in_total(&self, day: i64, id: i64) -> bool {
        day < self.hours_from || id < self.totals_to
    }
}

impl ClickQueries {
    pub(crate) fn progress(&self) -> Result<Progress, Failure> {
        let mut progress = Progress::default();
        let mut statement = self.conn.prepare_cached(PROGRESS)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let value = row.get(1)?;
            match row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)? {
                "folded_to" => progress.folded_to = value,
                "totals_to" => progress.totals_to = value,
                _ => progress.hours_from = value,
            }
        }
        Ok(progress)
    }
}

impl ClickWrites {
    pub(crate) fn set_progress(&self, progress: Progress) -> Result<(), Failure> {
        let mut statement =
            self.conn.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?;
        for (name, value) in [
            ("folded_to", progress.folded_to),
            ("totals_to", progress.totals_to),
            ("hours_from", progress.hours_from),
        ] {
            statement.execute(params![name, value])?;
        }
        Ok(())
    }

    /// Adds up to `limit` hours of days before this one to the sums of their days, and to the sums
    /// of all time. Returns how many, and whether there are more.
    pub(crate) fn fold_hours(&self, before: i64, limit: usize) -> Result<(u64, bool), Failure> {
        let mut progress = self.progress()?;
        let end = hour_id(before, 0, 0);
        if progress.folded_to >= end {
            return Ok((0, false));
        }
        // With a limit of 0 nothing is read, so there may be more.
        if limit == 0 {
            return Ok((0, true));
        }
        let mut statement = self.conn.prepare_cached(UNFOLDED)?;
        let mut rows = statement.query([progress.folded_to, end, limit as i64])?;
        let (mut count, mut last) = (0, None);
        let mut folded: Option<(i64, i64, Sum, Sum)> = None;
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            let (day, subject, hour) = of_hour_id(id);
            if folded.as_ref().is_some_and(|(of, whose, ..)| (*of, *whose) != (day, subject)) {
                self.put_folded(folded.take())?;
            }
            let (.., of_day, total) =
                folded.get_or_insert_with(|| (day, subject, Sum::default(), Sum::default()));
            let slot = Slot::Hour { subject, hour: day * 24 + hour };
            let mut sum = Sum::default();
            sum.merge_or_mend(row, 1, slot)?;
            of_day.merge(&sum);
            if id >= progress.totals_to {
                total.merge(&sum);
            }
            (count, last) = (count + 1, Some(id));
        }
        drop(rows);
        self.put_folded(folded)?;
        let more = count == limit as u64;
        progress.folded_to = match last {
            Some(last) if more => last + 1,
            _ => end,
        };
        progress.totals_to = progress.totals_to.max(progress.folded_to);
        self.set_progress(progress)?;
        Ok((count, more))
    }

    fn put_folded(&self, folded: Option<(i64, i64, Sum, Sum)>) -> Result<(), Failure> {
        let Some((day, subject, of_day, total)) = folded else { return Ok(()) };
        self.add_to_day(subject, day, of_day)?;
        self.add_to_ever(subject, total)
    }

    pub(crate) fn add_to_day(&self, subject: i64, day: i64, mut sum: Sum) -> Result<(), Failure> {
        let slot = Slot::Day { subject, day };
        let mut statement = self.conn.prepare_cached(DAY)?;
        let found = statement
            .query_row([day_id(subject, day)], |row| Ok(sum.merge_or_mend(row, 0, slot)))
            .optional()?;
        found.unwrap_or(Ok(()))?;
        sum.tally.trim(MAX_VALUES_PER_DAY);
        let Count { humans, bots } = sum.tally.clicks;
        let row = params![
            day_id(subject, day),
            humans.cast_signed(),
            bots.cast_signed(),
            sum.encode(slot)
        ];
        self.conn.prepare_cached(PUT_DAY)?.execute(row)?;
        Ok(())
    }

    pub(crate) fn add_to_ever(&self, subject: i64, mut sum: Sum) -> Result<(), Failure> {
        if sum.tally.is_empty() {
            return Ok(());
        }
        let slot = Slot::Ever { subject };
        let mut statement = self.conn.prepare_cached(EVER)?;
        let found = statement
            .query_row([subject], |row| Ok(sum.merge_or_mend_ever(row, 2, slot)))
            .optional()?;
        found.unwrap_or(Ok(()))?;
        sum.tally.trim(MAX_VALUES_TOTAL);
        self.conn.prepare_cached(PUT_EVER)?.execute(params![subject, sum.encode(slot)])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use terse_core::clicks::{
        Batch, Click, ClickReport, ClickSubject, ClickTarget, Dimension, LinkId, Period, Retention,
        Unit,
    };
    use terse_core::{OwnerId, Timestamp};
    use terse_testkit::key;

    use super::*;
    use crate::clicks::runs::RunLimits;
    use crate::clicks::schema::CLICKS;

    const HOUR: i64 = Unit::Hour.ms();
    const DAYS: i64 = 8;

    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: i64) -> i64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
            ((self.0 >> 33) as i64) % bound
        }
    }

    fn link(n: i64) -> LinkId {
        LinkId { key: key(&format!("link-{n}")), created_at: Timestamp::from_ms(0) }
    }

    fn add(writes: &mut ClickWrites, clicks: &[(i64, i64)]) {
        let click = |(n, hour): &(i64, i64)| Click {
            referrer: Some(format!("{}.example", hour % 5).into()),
            visitor: Some(hour.cast_unsigned() + 1),
            ..Click::bare(
                Timestamp::from_ms(hour * HOUR + 7),
                ClickTarget::Link(link(*n), OwnerId(1)),
            )
        };
        writes.add(&Batch::of(Vec::new(), clicks.iter().map(click))).unwrap();
    }

    /// As earlier versions left a file: all clicks are in the sums of all time, none in days.
    fn age(writes: &ClickWrites) {
        let all = |sql: &str| -> Vec<i64> {
            let mut statement = writes.conn.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        for subject in all("SELECT id FROM subjects") {
            writes.conn.execute("UPDATE subjects SET sum = x'' WHERE id = ?1", [subject]).unwrap();
            let mut sum = Sum::default();
            let sql = "SELECT id, people, machines, sum FROM hours WHERE subject = ?1";
            let mut statement = writes.conn.prepare(sql).unwrap();
            let mut rows = statement.query([subject]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                let (day, subject, hour) = of_hour_id(row.get(0).unwrap());
                sum.merge_row(row, 1, Slot::Hour { subject, hour: day * 24 + hour }).unwrap();
            }
            writes.add_to_ever(subject, sum).unwrap();
        }
        writes.conn.execute_batch("DELETE FROM meta").unwrap();
        writes.conn.execute_batch(include_str!("schema_5.sql")).unwrap();
    }

    fn counts(report: &ClickReport) -> [i64; 3] {
        let buckets: u64 = report.buckets.iter().map(|bucket| bucket.clicks.all()).sum();
        let values = report.tally.values(Dimension::Referrer);
        let values = values.map_or(0, |values| values.sum().all());
        [report.tally.clicks.all(), buckets, values].map(u64::cast_signed)
    }

    #[test]
    fn a_step_without_room_for_hours_passes_none_over() {
        let mut conn = rusqlite::Connection::open_in_memory().unwrap();
        CLICKS.migrate(&mut conn, 0).unwrap();
        let mut writes = ClickWrites::new(ClickQueries::new(conn), None).unwrap();
        add(&mut writes, &[(0, 1), (0, 2), (0, 30)]);
        // Single clicks that an earlier version stored: their deletion takes whole steps.
        for number in 0..4 {
            let sql =
                "INSERT INTO clicks (hour, subject, at, number, took) VALUES (0, 1, 0, ?1, 0)";
            writes.conn.execute(sql, [number]).unwrap();
        }
        let later = Timestamp::from_ms(DAYS * 24 * HOUR);
        let retention = Retention {
            raw_before: later,
            max_raw: None,
            days_before: later,
            hours_before: later,
            tombstones_before: Timestamp::MIN,
            limit: 2,
        };
        while writes.prune(&retention, 2).unwrap().more {}
        let subject = ClickSubject::Link(link(0));
        for period in [Period::default(), Period { from: Some(Timestamp::from_ms(0)), to: None }] {
            let found = writes.report(&subject, period, later).unwrap();
            assert_eq!(counts(&found), [3; 3], "{period:?}");
        }
    }

    /// Every report counts each click once, in any order of clicks, folding and deleting.
    #[test]
    fn folding_changes_no_sum() {
        for seed in 1..60 {
            let mut dice = Dice(seed);
            let mut conn = rusqlite::Connection::open_in_memory().unwrap();
            CLICKS.migrate(&mut conn, 0).unwrap();
            let mut writes = ClickWrites::new(ClickQueries::new(conn), None).unwrap();
            // Half of the files have their sums in runs first, some of them only later: files of
            // earlier versions have rows.
            let with_runs = RunLimits { from: 0, runs: 3, step: 1 };
            if seed % 4 == 3 {
                writes.limits = with_runs;
            }
            let mut clicks: Vec<(i64, i64)> = Vec::new();
            for step in 0..25 {
                // Merges may stop at any step.
                for _ in 0..dice.below(3) {
                    writes.merge_runs_if_due().unwrap();
                }
                if dice.below(3) > 0 {
                    let some: Vec<_> =
                        (0..20).map(|_| (dice.below(3), dice.below(DAYS * 24))).collect();
                    add(&mut writes, &some);
                    clicks.extend(some);
                } else if step > 2 {
                    let limit = 1 + dice.below(40) as usize;
                    let day = |dice: &mut Dice| Timestamp::from_ms(dice.below(DAYS * 24) * HOUR);
                    let days_before = day(&mut dice);
                    let hours_before = day(&mut dice).min(days_before);
                    let retention = Retention {
                        raw_before: Timestamp::MIN,
                        max_raw: None,
                        days_before,
                        hours_before,
                        tombstones_before: Timestamp::MIN,
                        limit,
                    };
                    // Sometimes it is interrupted.
                    for _ in 0..dice.below(20) {
                        if !writes.prune(&retention, limit).unwrap().more {
                            break;
                        }
                    }
                }
                if step == 2 && seed % 2 == 0 {
                    age(&writes);
                    if seed % 4 == 2 {
                        writes.limits = with_runs;
                    }
                }
                let hours_from = writes.progress().unwrap().hours_from;
                for _ in 0..8 {
                    let mut ends = [dice.below(DAYS * 24), dice.below(DAYS * 24) + 1];
                    ends.sort_unstable();
                    let [from, to] = ends;
                    let inside = |hour: i64| match hour.div_euclid(24) {
                        day if day < hours_from => day * 24 < to && (day + 1) * 24 > from,
                        _ => (from..to).contains(&hour),
                    };
                    let at = |hour: i64| Some(Timestamp::from_ms(hour * HOUR));
                    let period = Period { from: at(from), to: at(to) };
                    for n in 0..3 {
                        let now = Timestamp::from_ms(0);
                        let subject = ClickSubject::Link(link(n));
                        let of = |wanted: &dyn Fn(i64) -> bool| {
                            let found =
                                clicks.iter().filter(|click| click.0 == n && wanted(click.1));
                            [found.count() as i64; 3]
                        };
                        if from < to {
                            let found = writes.report(&subject, period, now).unwrap();
                            assert_eq!(counts(&found), of(&inside), "{seed} {step} {from}..{to}");
                        }
                        let found = writes.report(&subject, Period::default(), now).unwrap();
                        assert_eq!(counts(&found), of(&|_| true), "{seed} {step}");
                    }
                }
            }
        }
    }
}
