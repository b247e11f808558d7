//! Applies the retention: deletes raw clicks, folds hours into days, and deletes hours.

use rusqlite::OptionalExtension;
use terse_core::clicks::{Pruned, Retention, Unit};

use crate::clicks::bucket::{hour_id, of_hour_id};
use crate::clicks::writes::ClickWrites;
use crate::failure::Failure;

pub(crate) const OLD_HOURS: &str =
    "SELECT id FROM hours WHERE id < ?1 ORDER BY id LIMIT 1 OFFSET ?2";
pub(crate) const DONE_HOURS: &str = "DELETE FROM hours WHERE id < ?1";
pub(crate) const OLD_CLICKS: &str = "SELECT hour, subject, at, number FROM clicks \
     WHERE hour < ?1 ORDER BY hour, subject, at, number LIMIT 1 OFFSET ?2";
pub(crate) const DONE_CLICKS: &str =
    "DELETE FROM clicks WHERE (hour, subject, at, number) < (?1, ?2, ?3, ?4)";

impl ClickWrites {
    /// Deletes or folds at most `limit` rows, from the old end of each table, and some blocks.
    pub(crate) fn prune(&mut self, retention: &Retention, limit: usize) -> Result<Pruned, Failure> {
        let hour = retention.raw_before.as_ms().div_euclid(Unit::Hour.ms());
        let (raw, more_raw) = self.drop_raw(hour, limit)?;
        let (in_blocks, more_blocks) = self.drop_blocks(hour * Unit::Hour.ms())?;
        let (oversize, more_oversize) = self.drop_oversize(retention.max_raw)?;
        let in_blocks = in_blocks + oversize;
        let more_blocks = more_blocks || more_oversize;
        let more_blocks = more_blocks || self.clean_blocks()? || self.merge_blocks()?;
        let day = |at: terse_core::Timestamp| at.as_ms().div_euclid(Unit::Day.ms());
        let (days_before, hours_before) = (day(retention.days_before), day(retention.hours_before));
        let fold_before = days_before.max(hours_before);
        // First, because only rows are folded: sums in blocks of earlier versions become rows, and
        // those in runs of a day that is over move to runs of finished days.
        self.merge_deltas()?;
        let more_deltas = self.is_merging()?;
        let (_, more_runs) =
            self.write_finished_days(fold_before).map_err(Failure::after_writes)?;
        let is_waiting = more_runs || self.old_totals()?.first < hour_id(fold_before, 0, 0);
        let (hours, more_hours) = match is_waiting {
            true => (0, true),
            false => self.fold_hours(fold_before, limit - raw)?,
        };
        let more_old_hours = self.drop_hours(hours_before, limit)?;
        let left = limit - raw - hours as usize;
        let (tombstones, more_tombstones) =
            self.drop_tombstones(retention.tombstones_before, left)?;
        if tombstones > 0 {
            // The cache of links also remembers tombstones.
            self.clear_link_cache();
        }
        let more = more_deltas
            || more_raw
            || more_blocks
            || more_hours
            || more_old_hours
            || more_tombstones;
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

    /// Deletes up to `limit` hours of days before this one, if they are in the sums of their days.
    /// Returns whether there are more.
    fn drop_hours(&self, before: i64, limit: usize) -> Result<bool, Failure> {
        let mut progress = self.progress()?;
        // All hours of days before this one are in the sums of their days.
        let (folded_day, ..) = of_hour_id(progress.folded_to);
        let before = before.min(folded_day);
        if before > progress.hours_from {
            progress.hours_from = before;
            self.set_progress(progress)?;
        }
        // A file of an earlier version may have later hours of a day that is not folded yet.
        let end = hour_id(progress.hours_from, 0, 0).min(progress.folded_to);
        let first_to_stay: Option<i64> = self
            .conn
            .prepare_cached(OLD_HOURS)?
            .query_row([end, limit as i64], |row| row.get(0))
            .optional()?;
        self.conn.prepare_cached(DONE_HOURS)?.execute([first_to_stay.unwrap_or(end)])?;
        Ok(first_to_stay.is_some())
    }
}
