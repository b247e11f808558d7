//! Applies the retention: deletes raw clicks and joins hours into days.

use rusqlite::{OptionalExtension, params};
use terse_core::clicks::{Count, MAX_VALUES_PER_DAY, Pruned, Retention, Unit};

use crate::clicks::bucket::{day_id, hour_id, of_hour_id};
use crate::clicks::sum::{Slot, Sum};
use crate::clicks::writes::ClickWrites;
use crate::failure::Failure;

pub(crate) const OLD_HOURS: &str =
    "SELECT id, people, machines, sum FROM hours WHERE id < ?1 ORDER BY id LIMIT ?2";
pub(crate) const DONE_HOURS: &str = "DELETE FROM hours WHERE id <= ?1";
pub(crate) const DAY: &str = "SELECT people, machines, sum FROM days WHERE id = ?1";
pub(crate) const OLD_CLICKS: &str = "SELECT hour, subject, at, number FROM clicks \
     WHERE hour < ?1 ORDER BY hour, subject, at, number LIMIT 1 OFFSET ?2";
pub(crate) const DONE_CLICKS: &str =
    "DELETE FROM clicks WHERE (hour, subject, at, number) < (?1, ?2, ?3, ?4)";
const PUT_DAY: &str =
    "INSERT OR REPLACE INTO days (id, people, machines, sum) VALUES (?1, ?2, ?3, ?4)";

impl ClickWrites {
    /// Deletes or joins at most `limit` rows, from the old end of each table, and some blocks.
    pub(crate) fn prune(&mut self, retention: &Retention, limit: usize) -> Result<Pruned, Failure> {
        let hour = retention.raw_before.as_ms().div_euclid(Unit::Hour.ms());
        let (raw, more_raw) = self.drop_raw(hour, limit)?;
        let (in_blocks, more_blocks) = self.drop_blocks(hour * Unit::Hour.ms())?;
        let more_blocks = more_blocks || self.clean_blocks()? || self.merge_blocks()?;
        let day = retention.hours_before.as_ms().div_euclid(Unit::Day.ms());
        let hours = self.join_hours(day, limit - raw)?;
        let left = limit - raw - hours as usize;
        let (tombstones, more_tombstones) =
            self.drop_tombstones(retention.tombstones_before, left)?;
        let more = more_raw
            || more_blocks
            || more_tombstones
            || self.conn.prepare_cached(OLD_HOURS)?.exists([hour_id(day, 0, 0), 1])?;
        Ok(Pruned { raw: raw as u64 + in_blocks, hours, tombstones: tombstones as u64, more })
    }

    /// Deletes raw clicks before an hour. Returns how many, and whether there are more.
    fn drop_raw(&self, hour: i64, limit: usize) -> Result<(usize, bool), Failure> {
        let first_to_stay: Option<[i64; 4]> = self
            .conn
            .prepare_cached(OLD_CLICKS)?
            .query_row([hour, limit as i64], |row| {
                Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
            })
            .optional()?;
        let more = first_to_stay.is_some();
        let end = first_to_stay.unwrap_or([hour, i64::MIN, i64::MIN, i64::MIN]);
        Ok((self.conn.prepare_cached(DONE_CLICKS)?.execute(end)?, more))
    }

    /// Joins the hours of days before this one into their days.
    fn join_hours(&self, before: i64, limit: usize) -> Result<u64, Failure> {
        let mut statement = self.conn.prepare_cached(OLD_HOURS)?;
        let mut rows = statement.query([hour_id(before, 0, 0), limit as i64])?;
        let mut last = None;
        let mut count = 0;
        let mut joined: Option<(i64, i64, Sum)> = None;
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            let (day, subject, hour) = of_hour_id(id);
            if joined.as_ref().is_some_and(|(of, whose, _)| (*of, *whose) != (day, subject)) {
                self.add_to_day(joined.take())?;
            }
            let (.., sum) = joined.get_or_insert_with(|| (day, subject, Sum::default()));
            sum.merge_or_mend(row, 1, Slot::Hour { subject, hour: day * 24 + hour })?;
            last = Some(id);
            count += 1;
        }
        drop(rows);
        self.add_to_day(joined)?;
        if let Some(last) = last {
            // The only writer read in key order: all rows up to the last one are joined.
            self.conn.prepare_cached(DONE_HOURS)?.execute([last])?;
        }
        Ok(count)
    }

    fn add_to_day(&self, joined: Option<(i64, i64, Sum)>) -> Result<(), Failure> {
        let Some((day, subject, mut sum)) = joined else {
            return Ok(());
        };
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
}
