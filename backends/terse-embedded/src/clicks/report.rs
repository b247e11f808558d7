//! Reports about a subject.

use rusqlite::{OptionalExtension, Row};
use terse_core::Timestamp;
use terse_core::clicks::{
    Bucket, ClickReport, ClickSubject, Count, MAX_VALUES_TOTAL, Period, StoredSum, Unit,
};

use crate::clicks::bucket::{day_id, hour_id, of_day_id, of_hour_id};
use crate::clicks::finished::FinishedSum;
use crate::clicks::fold::Progress;
use crate::clicks::queries::{ClickQueries, Cost};
use crate::clicks::runs::Runs;
use crate::clicks::sum::{Slot, Sum, count};
use crate::failure::Failure;

pub(crate) const EVER: &str = "SELECT people, machines, sum FROM subjects WHERE id = ?1";
/// The queries without and with the sums, so that a report reads the sums only if it needs them.
pub(crate) const HOURS: [&str; 2] = [
    "SELECT id, people, machines FROM hours WHERE id >= ?1 AND id < ?2 ORDER BY id",
    "SELECT id, people, machines, sum FROM hours WHERE id >= ?1 AND id < ?2 ORDER BY id",
];
pub(crate) const DAYS: [&str; 2] = [
    "SELECT id, people, machines FROM days WHERE id >= ?1 AND id <= ?2 ORDER BY id",
    "SELECT id, people, machines, sum FROM days WHERE id >= ?1 AND id <= ?2 ORDER BY id",
];
/// Indexes of these queries.
const PLAIN: usize = 0;
const WITH_SUMS: usize = 1;

const HOUR: i64 = Unit::Hour.ms();
const DAY: i64 = Unit::Day.ms();

/// A range of time in milliseconds; `to` is not part of it.
#[derive(Clone, Copy)]
pub(crate) struct TimeRange {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl TimeRange {
    pub(crate) fn of(period: Period) -> Self {
        Self {
            from: period.from.unwrap_or(Timestamp::MIN).as_ms(),
            to: period.to.map_or(Timestamp::MAX.as_ms() + 1, Timestamp::as_ms),
        }
    }

    /// The first and the last day that overlap it.
    pub(crate) fn days(self) -> (i64, i64) {
        let day = |ms: i64| Timestamp::from_ms(ms).as_ms().div_euclid(DAY);
        (day(self.from), day(self.to - 1))
    }

    fn touches(self, start: i64, length: i64) -> bool {
        start < self.to && start + length > self.from
    }

    /// The day and the 23 hours up to the end of the hour of this time.
    fn last_day(now: Timestamp) -> Self {
        let hour = Unit::Hour.floor(now).as_ms();
        Self { from: hour - 23 * HOUR, to: hour + HOUR }
    }
}

/// What holds the sums of hours that have no rows, and which rows count.
struct Sources {
    progress: Progress,
    runs: Runs,
    /// The sums of the subject in finished days.
    finished: Vec<FinishedSum>,
}

impl ClickQueries {
    pub(crate) fn report(
        &self,
        subject: &ClickSubject,
        period: Period,
        now: Timestamp,
    ) -> Result<ClickReport, Failure> {
        let Some(subject) = self.id(subject)? else {
            return Ok(ClickReport::default());
        };
        let mut sum = Sum::default();
        let mut buckets = Vec::new();
        let range = TimeRange::of(period);
        let recent = TimeRange::last_day(now);
        let (progress, runs) = (self.progress()?, self.runs()?);
        let [one, other] = [range, recent].map(TimeRange::days);
        let days = (one.0.min(other.0), one.1.max(other.1));
        let finished = self.finished_sums(&runs, subject, days)?;
        let sources = Sources { progress, runs, finished };
        // The numbers of hours, for series in any time zone; the sums of days where they are whole.
        self.buckets(subject, range, &sources, |bucket| {
            // An hour in which only a warning page was seen has no clicks.
            if bucket.clicks != Count::default() {
                buckets.push(bucket);
            }
        })?;
        if period == Period::default() {
            self.ever(subject, &sources, &mut sum)?;
        } else {
            self.sums(subject, range, &sources, &mut sum)?;
        }
        let mut recent_clicks = Count::default();
        self.buckets(subject, recent, &sources, |bucket| recent_clicks.add(bucket.clicks))?;
        // Days come first, even those that also have late hours.
        buckets.sort_by_key(|bucket| (bucket.start, bucket.unit == Unit::Hour));
        // An hour may have a row and sums in blocks and runs.
        buckets.dedup_by(|later, first| {
            let same = (later.start, later.unit) == (first.start, first.unit);
            if same {
                first.clicks.add(later.clicks);
            }
            same
        });
        sum.tally.trim(MAX_VALUES_TOTAL);
        let StoredSum { tally, visitors, .. } = sum.into_stored();
        Ok(ClickReport { tally, visitors, recent: recent_clicks, buckets })
    }

    /// The sum of all time, and the hours that are not in it. The row of the subject has the number
    /// of all clicks that are not in runs of days that are not finished.
    fn ever(&self, subject: i64, sources: &Sources, sum: &mut Sum) -> Result<(), Failure> {
        let Sources { progress, runs, finished } = sources;
        let (first, _) = TimeRange::of(Period::default()).days();
        let (from, ..) = of_hour_id(progress.totals_to);
        let mut all = Count::default();
        let mut statement = self.conn.prepare_cached(EVER)?;
        let read = |row: &Row<'_>| {
            all = count(row, 0)?;
            let merged = sum.merge_ever(row, 2, Slot::Ever { subject });
            Ok(merged.and_then(|()| Ok(self.pay(row)?)))
        };
        statement.query_row([subject], read).optional()?.unwrap_or(Ok(()))?;
        for day in self.days_with_hours(runs, from.max(first), i64::MAX)? {
            self.hour_sums(subject, day, progress.totals_to, runs, |_| true, sum)?;
        }
        self.add_finished(finished.iter(), sum)?;
        all.add(self.clicks_in_runs(runs, subject)?);
        sum.tally.clicks = all;
        Ok(())
    }

    /// Adds the sums of a period: of days where it has them whole, and of hours at its edges and
    /// where days are not folded yet.
    fn sums(
        &self,
        subject: i64,
        range: TimeRange,
        sources: &Sources,
        sum: &mut Sum,
    ) -> Result<(), Failure> {
        let Sources { progress, runs, finished } = sources;
        let (first, last) = range.days();
        let is_whole = |day: i64| {
            day < progress.hours_from || (day * DAY >= range.from && (day + 1) * DAY <= range.to)
        };
        // At most two days are not whole.
        let whole = [first + i64::from(!is_whole(first)), last - i64::from(!is_whole(last))];
        let mut statement = self.conn.prepare_cached(DAYS[WITH_SUMS])?;
        let mut rows = statement.query(whole.map(|day| day_id(subject, day)))?;
        while let Some(row) = rows.next()? {
            self.count_row();
            self.pay(row)?;
            sum.merge_row(row, 1, Slot::Day { subject, day: of_day_id(row.get(0)?) })?;
        }
        let (folded_day, ..) = of_hour_id(progress.folded_to);
        let mut edges = vec![first, last];
        edges.dedup();
        for edge in edges.into_iter().filter(|day| !is_whole(*day)) {
            let touches = |hour: i64| range.touches(hour * HOUR, HOUR);
            self.hour_sums(subject, edge, i64::MIN, runs, touches, sum)?;
        }
        let from = folded_day.max(first).max(progress.hours_from);
        for day in self.days_with_hours(runs, from, last)? {
            if is_whole(day) {
                self.hour_sums(subject, day, progress.folded_to, runs, |_| true, sum)?;
            }
        }
        let is_wanted = |found: &&FinishedSum| {
            let start = (found.day * 24 + found.hour) * HOUR;
            (first..=last).contains(&found.day)
                && (is_whole(found.day) || range.touches(start, HOUR))
        };
        self.add_finished(finished.iter().filter(is_wanted), sum)
    }

    /// Adds the sums of a day's hours whose rows have at least this id.
    fn hour_sums(
        &self,
        subject: i64,
        day: i64,
        from_id: i64,
        runs: &Runs,
        is_wanted: impl Fn(i64) -> bool,
        sum: &mut Sum,
    ) -> Result<(), Failure> {
        let mut statement = self.conn.prepare_cached(HOURS[WITH_SUMS])?;
        let from = hour_id(day, subject, 0).max(from_id);
        let mut rows = statement.query([from, hour_id(day, subject, 24)])?;
        while let Some(row) = rows.next()? {
            self.count_row();
            let (.., hour) = of_hour_id(row.get(0)?);
            let hour = day * 24 + hour;
            if is_wanted(hour) {
                self.pay(row)?;
                sum.merge_row(row, 1, Slot::Hour { subject, hour })?;
            }
        }
        let to = hour_id(day, subject, 24);
        let is_wanted = |id: i64| is_wanted(day * 24 + of_hour_id(id).2);
        self.each_delta(
            from,
            to,
            |delta| {
                if is_wanted(delta.id) { delta.add_to(sum) } else { Ok(()) }
            },
        )?;
        self.add_runs(runs, from, to, is_wanted, sum)
    }

    /// Visits the numbers of every bucket that overlaps a range of time: the days of which no hours
    /// are kept, then the hours, some more than once.
    fn buckets(
        &self,
        subject: i64,
        range: TimeRange,
        sources: &Sources,
        mut visit: impl FnMut(Bucket),
    ) -> Result<(), Failure> {
        let Sources { progress, runs, finished } = sources;
        let (first, last) = range.days();
        let mut statement = self.conn.prepare_cached(DAYS[PLAIN])?;
        let last_day = last.min(progress.hours_from - 1);
        let mut rows = statement.query([day_id(subject, first), day_id(subject, last_day)])?;
        while let Some(row) = rows.next()? {
            self.count_row();
            let day = of_day_id(row.get(0)?);
            let bucket = Bucket {
                start: Timestamp::from_ms(day * DAY),
                unit: Unit::Day,
                clicks: count(row, 1)?,
            };
            visit(bucket);
        }
        for found in finished.iter().filter(|found| (first..=last).contains(&found.day)) {
            let (start, unit) = match found.day < progress.hours_from {
                true => (found.day * DAY, Unit::Day),
                false => ((found.day * 24 + found.hour) * HOUR, Unit::Hour),
            };
            if range.touches(start, unit.ms()) {
                visit(Bucket { start: Timestamp::from_ms(start), unit, clicks: found.clicks });
            }
        }
        let mut statement = self.conn.prepare_cached(HOURS[PLAIN])?;
        for day in self.days_with_hours(runs, first.max(progress.hours_from), last)? {
            let mut rows =
                statement.query([hour_id(day, subject, 0), hour_id(day, subject, 24)])?;
            while let Some(row) = rows.next()? {
                self.count_row();
                let (.., hour) = of_hour_id(row.get(0)?);
                let hour = day * 24 + hour;
                if range.touches(hour * HOUR, HOUR) {
                    let bucket = Bucket {
                        start: Timestamp::from_ms(hour * HOUR),
                        unit: Unit::Hour,
                        clicks: count(row, 1)?,
                    };
                    visit(bucket);
                }
            }
            self.each_waiting(
                runs,
                hour_id(day, subject, 0),
                hour_id(day, subject, 24),
                |id, clicks| {
                    let (.., hour) = of_hour_id(id);
                    let start = (day * 24 + hour) * HOUR;
                    if range.touches(start, HOUR) {
                        let start = Timestamp::from_ms(start);
                        visit(Bucket { start, unit: Unit::Hour, clicks });
                    }
                },
            )?;
        }
        Ok(())
    }

    pub(crate) fn count_row(&self) {
        let cost = self.cost.get();
        self.cost.set(Cost { rows: cost.rows + 1, ..cost });
    }

    /// Adds the size of a sum that was read to the cost; the sum is the last column.
    fn pay(&self, row: &Row<'_>) -> rusqlite::Result<()> {
        let cost = self.cost.get();
        let last = row.as_ref().column_count() - 1;
        let bytes = row.get_ref(last)?.as_blob().map_or(0, <[u8]>::len) as u64;
        self.cost.set(Cost { bytes: cost.bytes + bytes, sums: cost.sums + 1, ..cost });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use terse_core::OwnerId;
    use terse_core::clicks::{
        Batch, Click, ClickTarget, Interned, LinkId, MAX_VALUES_PER_DAY, MAX_VALUES_PER_HOUR,
        Retention,
    };
    use terse_testkit::{key, timestamp};

    use super::*;
    use crate::clicks::schema::CLICKS;
    use crate::clicks::writes::ClickWrites;

    const HOURS_KEPT: i64 = 30 * 24;
    const DAYS_KEPT: i64 = 3 * 365;

    /// Hours of a month and days of three years, every dimension full.
    fn full() -> (ClickWrites, ClickSubject) {
        let mut conn = rusqlite::Connection::open_in_memory().unwrap();
        CLICKS.migrate(&mut conn, 0).unwrap();
        let mut writes = ClickWrites::new(ClickQueries::new(conn), None).unwrap();
        let link = LinkId { key: key("busy"), created_at: timestamp(0) };
        let words: Vec<Interned> =
            (0..250).map(|n| format!("value-{n}.of-a-typical-length").into()).collect();
        let mut visitor = 0_u64;
        let mut put = |writes: &mut ClickWrites, at: i64, values: usize| {
            let clicks = (0..values.max(150)).map(|n| {
                let word = Some(words[n % values].clone());
                let words: [Option<Interned>; 12] = std::array::from_fn(|_| word.clone());
                let [referrer, country, city, device, browser, system, language, utm @ ..] = words;
                visitor += 7919;
                let click = Click::bare(timestamp(at), ClickTarget::Link(link.clone(), OwnerId(1)));
                Click {
                    visitor: Some(visitor),
                    referrer,
                    country,
                    city,
                    device,
                    browser,
                    system,
                    language,
                    utm,
                    ..click
                }
            });
            let batch = Batch::of(Vec::new(), clicks);
            writes.add(&batch).unwrap();
        };
        writes.conn.execute_batch("BEGIN").unwrap();
        for day in 0..DAYS_KEPT {
            for hour in 0..1 {
                put(&mut writes, -DAY * (day + 1) + hour * HOUR, MAX_VALUES_PER_HOUR);
            }
        }
        let retention = Retention {
            raw_before: timestamp(0),
            hours_before: timestamp(0),
            max_raw: None,
            days_before: timestamp(HOURS_KEPT * HOUR - 1),
            tombstones_before: timestamp(0),
            limit: usize::MAX,
        };
        while writes.prune(&retention, 1000).unwrap().more {}
        for hour in 0..HOURS_KEPT {
            put(&mut writes, hour * HOUR, if hour == 0 { 250 } else { MAX_VALUES_PER_HOUR });
        }
        while writes.prune(&retention, 1000).unwrap().more {}
        writes.conn.execute_batch("COMMIT").unwrap();
        (writes, ClickSubject::Link(link))
    }

    #[test]
    fn a_report_reads_no_more_than_it_must() {
        const { assert!(MAX_VALUES_PER_DAY >= MAX_VALUES_PER_HOUR) };
        let (writes, subject) = full();
        let now = timestamp(HOURS_KEPT * HOUR - 1);
        let cost = |period| {
            writes.cost.set(Cost::default());
            let report = writes.report(&subject, period, now).unwrap();
            (writes.cost.get(), report.buckets.len() as i64)
        };
        let (always, buckets) = cost(Period::default());
        assert_eq!(buckets, HOURS_KEPT + DAYS_KEPT);
        // One row per bucket and 24 more for recent hours. One sum, whatever the age of the link,
        // and those of the present day.
        assert!(always.rows <= (HOURS_KEPT + DAYS_KEPT + 24 + 48) as u64, "{always:?}");
        assert_eq!(always.sums, 1 + 24);
        assert!(always.bytes < 150_000 + 24 * 40_000, "{always:?}");
        let (week, buckets) =
            cost(Period { from: Some(timestamp(HOURS_KEPT * HOUR - 7 * DAY)), to: None });
        assert_eq!(buckets, 7 * 24);
        // The sums of six days, and of the hours of the present one.
        assert_eq!(week.sums, 6 + 24);
        assert!(week.rows <= 7 * 24 + 30 + 48, "{week:?}");
        let (month, _) = cost(Period { from: Some(timestamp(0)), to: None });
        assert_eq!(month.sums, 29 + 24);
        assert!(month.rows <= HOURS_KEPT as u64 + 53 + 48, "{month:?}");
        // A day of another time zone has hours at both ends, and so has a period of such days.
        let offset = 5 * HOUR;
        let between = |from: i64, to: i64| Period {
            from: Some(timestamp(from * DAY + offset)),
            to: Some(timestamp(to * DAY + offset)),
        };
        assert_eq!(cost(between(3, 4)).0.sums, 24);
        assert_eq!(cost(between(3, 13)).0.sums, 19 + 9 + 5);
        // Within one day.
        let short = Period {
            from: Some(timestamp(3 * DAY + 2 * HOUR + 1)),
            to: Some(timestamp(3 * DAY + 4 * HOUR)),
        };
        assert_eq!(cost(short).0.sums, 2);
    }
}
