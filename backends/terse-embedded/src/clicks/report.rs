//! What is told about a subject.

use rusqlite::{OptionalExtension, Row};
use terse_core::Moment;
use terse_core::clicks::{Bucket, Count, NAMED_EVER, Period, Report, Subject, Unit};

use crate::clicks::shelf::{Cost, Shelf};
use crate::clicks::sum::{Slot, Sum, count};
use crate::failure::Failure;

pub(crate) const EVER: &str = "SELECT people, machines, sum FROM subjects WHERE id = ?1";
pub(crate) const HOURS: &str =
    "SELECT hour, people, machines, sum FROM hours WHERE day = ?1 AND subject = ?2 ORDER BY day, subject, hour";
pub(crate) const DAYS: &str = "SELECT day, people, machines, sum FROM days \
     WHERE subject = ?1 AND day >= ?2 AND day <= ?3 ORDER BY subject, day";

const HOUR: i64 = Unit::Hour.ms();
const DAY: i64 = Unit::Day.ms();

/// A stretch of time in milliseconds, without its end.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Stretch {
    pub(crate) fn of(period: Period) -> Self {
        Self { from: period.from.unwrap_or(Moment::MIN).as_ms(), to: period.to.map_or(Moment::MAX.as_ms() + 1, Moment::as_ms) }
    }

    /// The first and the last day that touch it.
    pub(crate) fn days(self) -> (i64, i64) {
        (self.from.div_euclid(DAY), (self.to - 1).div_euclid(DAY))
    }

    fn touches(self, start: i64, length: i64) -> bool {
        start < self.to && start + length > self.from
    }
}

impl Shelf {
    pub(crate) fn report(&self, subject: &Subject, period: Period, now: Moment) -> Result<Report, Failure> {
        let Some(subject) = self.id(subject)? else {
            return Ok(Report::default());
        };
        let mut sum = Sum::default();
        let mut buckets = Vec::new();
        let stretch = Stretch::of(period);
        if period == Period::default() {
            // What was summed up all along needs no buckets, of which only the plain numbers are read.
            self.ever(subject, &mut sum)?;
            self.buckets(subject, stretch, |bucket, _, _| {
                buckets.push(bucket);
                Ok(())
            })?;
        } else {
            self.buckets(subject, stretch, |bucket, row, slot| {
                buckets.push(bucket);
                self.pay(row)?;
                sum.merge_row(row, 1, slot)
            })?;
        }
        // Days come first, also those in which late hours stand; equals stay in this order.
        buckets.sort_by_key(|bucket| bucket.start);
        sum.tally.trim(NAMED_EVER);
        Ok(Report { tally: sum.tally, visitors: sum.visitors.count(), recent: self.recent(subject, now)?, buckets })
    }

    fn ever(&self, subject: i64, sum: &mut Sum) -> Result<(), Failure> {
        let mut statement = self.conn.prepare_cached(EVER)?;
        let read = |row: &Row<'_>| Ok(sum.merge_row(row, 0, Slot::Ever { subject }).and_then(|()| Ok(self.pay(row)?)));
        statement.query_row([subject], read).optional()?.unwrap_or(Ok(()))
    }

    fn recent(&self, subject: i64, now: Moment) -> Result<Count, Failure> {
        let hour = Unit::Hour.floor(now).as_ms();
        let mut recent = Count::default();
        self.buckets(subject, Stretch { from: hour - 23 * HOUR, to: hour + HOUR }, |bucket, _, _| {
            recent.add(bucket.clicks);
            Ok(())
        })?;
        Ok(recent)
    }

    /// Visits every bucket that touches a stretch of time: the days first, then the hours.
    fn buckets(
        &self,
        subject: i64,
        stretch: Stretch,
        mut visit: impl FnMut(Bucket, &Row<'_>, Slot) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (first, last) = stretch.days();
        let mut statement = self.conn.prepare_cached(DAYS)?;
        let mut rows = statement.query([subject, first, last])?;
        while let Some(row) = rows.next()? {
            self.count_row();
            let day: i64 = row.get(0)?;
            let bucket = Bucket { start: Moment::from_ms(day * DAY), unit: Unit::Day, clicks: count(row, 1)? };
            visit(bucket, row, Slot::Day { subject, day })?;
        }
        let mut statement = self.conn.prepare_cached(HOURS)?;
        for day in self.days_with_hours(first, last)? {
            let mut rows = statement.query([day, subject])?;
            while let Some(row) = rows.next()? {
                self.count_row();
                let hour = day * 24 + row.get::<_, i64>(0)?;
                if stretch.touches(hour * HOUR, HOUR) {
                    let bucket = Bucket { start: Moment::from_ms(hour * HOUR), unit: Unit::Hour, clicks: count(row, 1)? };
                    visit(bucket, row, Slot::Hour { subject, hour })?;
                }
            }
        }
        Ok(())
    }

    fn count_row(&self) {
        let cost = self.cost.get();
        self.cost.set(Cost { rows: cost.rows + 1, ..cost });
    }

    /// Notes down a sum that was read; it is the last column.
    fn pay(&self, row: &Row<'_>) -> rusqlite::Result<()> {
        let cost = self.cost.get();
        let last = row.as_ref().column_count() - 1;
        let bytes = row.get_ref(last)?.as_blob().map_or(0, <[u8]>::len) as u64;
        self.cost.set(Cost { bytes: cost.bytes + bytes, ..cost });
        Ok(())
    }
}
