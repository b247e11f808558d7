//! Merges rows of sums: hours into days, and many rows of an hour into one.
//!
//! A merge writes the merged rows, and for each slot whose rows it replaces a row that says up to
//! which number. All of them have the number of the merge, so they count from the moment at which
//! the ledger finishes it, together. What was replaced is deleted later, when no report reads it.

use std::collections::BTreeMap;

use terse_core::clicks::{
    LedgerMerge, LedgerSnapshot, MAX_VALUES_PER_DAY, MAX_VALUES_PER_HOUR, StoredSum, Unit,
};
use terse_core::{OwnerId, StoreError, Timestamp};

use crate::ClickHouseClicks;
use crate::row_binary::{Reader, Writer};
use crate::rows::{DAY, HOUR, Slot, SubjectKey};
use crate::visible::{self, Table};

/// The rows of one hour and subject from which they are merged.
const MANY_ROWS: usize = 8;
/// The most slots of one merge.
const MAX_SLOTS: usize = 5_000;

/// SlotSelection slots to merge.
#[derive(Clone, Copy)]
enum SlotSelection {
    /// Hours before this time, into their days.
    HoursBefore(i64),
    /// Hours with many rows.
    Many,
}

impl ClickHouseClicks {
    /// Merges at most `limit` hours that begin before a time into their days. Returns how many.
    pub(crate) async fn merge_into_days(
        &self,
        before: i64,
        limit: usize,
    ) -> Result<usize, StoreError> {
        self.merge(SlotSelection::HoursBefore(before), limit).await
    }

    /// Merges the rows of hours that have many. Returns of how many hours.
    pub(crate) async fn merge_many(&self, limit: usize) -> Result<usize, StoreError> {
        self.merge(SlotSelection::Many, limit).await
    }

    async fn merge(&self, which: SlotSelection, limit: usize) -> Result<usize, StoreError> {
        let limit = limit.min(MAX_SLOTS);
        let snapshot = self.ledger.snapshot(None).await?;
        if limit == 0 || self.due(which, &snapshot, 1).await?.is_empty() {
            return Ok(0);
        }
        let merge = self.ledger.begin_merge().await?;
        // Without what is being written now.
        let mut snapshot = self.ledger.snapshot(None).await?;
        snapshot.last = merge.up_to;
        let due = self.due(which, &snapshot, limit).await?;
        if due.is_empty() {
            self.ledger.finish_merge(merge.sequence).await?;
            return Ok(0);
        }
        let rows = self.merged_rows(which, merge, &snapshot, &due).await?;
        let token = format!("merge-{}", merge.sequence);
        self.client.insert("sums", &token, rows).await?;
        Ok(if self.ledger.finish_merge(merge.sequence).await? { due.len() } else { 0 })
    }

    /// The hours to merge.
    async fn due(
        &self,
        which: SlotSelection,
        snapshot: &LedgerSnapshot,
        limit: usize,
    ) -> Result<Vec<Slot>, StoreError> {
        let (before, least) = match which {
            SlotSelection::HoursBefore(before) => (format!("AND start < {before}"), 1),
            SlotSelection::Many => (String::new(), MANY_ROWS),
        };
        let sql = format!(
            "SELECT {columns}, unit, start FROM (SELECT {columns}, unit, start, \
             max(up_to) AS cut, arrayCount(s -> s > cut, groupArrayIf(sequence, up_to = 0)) \
             AS many FROM sums WHERE unit = {HOUR} {before} AND {visible} \
             GROUP BY {columns}, unit, start) WHERE many >= {least} \
             ORDER BY start, {columns} LIMIT {limit}",
            columns = SubjectKey::COLUMNS,
            visible = visible::condition(Table::Sums, snapshot),
        );
        self.client.rows(&sql, read_slot).await
    }

    /// The rows that a merge writes.
    async fn merged_rows(
        &self,
        which: SlotSelection,
        merge: LedgerMerge,
        snapshot: &LedgerSnapshot,
        due: &[Slot],
    ) -> Result<Vec<u8>, StoreError> {
        let target = move |slot: &Slot| match which {
            SlotSelection::Many => slot.clone(),
            SlotSelection::HoursBefore(_) => {
                let start = Unit::Day.floor(Timestamp::from_ms(slot.start)).as_ms();
                Slot { unit: DAY, start, ..slot.clone() }
            }
        };
        let mut slots: Vec<Slot> =
            due.iter().flat_map(|slot| [slot.clone(), target(slot)]).collect();
        slots.sort_unstable();
        slots.dedup();
        let listed: Vec<String> = slots
            .iter()
            .map(|slot| format!("({}, {}, {})", slot.subject.values(), slot.start, slot.unit))
            .collect();
        let sql = format!(
            "SELECT {columns}, unit, start, sequence, up_to, owner, sum FROM sums \
             WHERE ({columns}, start, unit) IN ({}) AND {visible}",
            listed.join(", "),
            columns = SubjectKey::COLUMNS,
            visible = visible::condition(Table::Sums, snapshot),
        );
        let bytes = self.client.query(&sql).await?;
        let merging = move || {
            let mut reader = Reader::new(&bytes);
            let (mut stored, mut replaced) = (Vec::new(), BTreeMap::<Slot, u64>::new());
            while !reader.is_empty() {
                let row = SumRow::read(&mut reader)
                    .ok_or_else(|| crate::client::corrupt("a row of a sum cannot be read"))?;
                if row.up_to > 0 {
                    let cut = replaced.entry(row.slot).or_default();
                    *cut = row.up_to.max(*cut);
                } else {
                    stored.push(row);
                }
            }
            let mut merged: BTreeMap<Slot, (StoredSum, OwnerId, Option<Timestamp>)> =
                BTreeMap::new();
            for row in &stored {
                if replaced.get(&row.slot).is_some_and(|cut| row.sequence <= *cut) {
                    continue;
                }
                let into = if row.slot.unit == DAY { row.slot.clone() } else { target(&row.slot) };
                let (sum, owner, latest) =
                    merged.entry(into).or_insert_with(|| (StoredSum::default(), row.owner, None));
                let mut one = StoredSum::default();
                row.slot.merge(&mut one, row.sum)?;
                // The owner of a link is that of its latest clicks.
                if one.tally.last >= *latest {
                    (*owner, *latest) = (row.owner, one.tally.last);
                }
                row.slot.merge(sum, row.sum)?;
            }
            let mut rows = Writer::default();
            for slot in &slots {
                slot.write_marker(&mut rows, merge.sequence, merge.up_to);
            }
            for (slot, (mut sum, owner, _)) in merged {
                sum.tally.trim(match slot.unit {
                    DAY => MAX_VALUES_PER_DAY,
                    _ => MAX_VALUES_PER_HOUR,
                });
                slot.write_sum(&mut rows, merge.sequence, owner, &sum);
            }
            Ok(rows.0)
        };
        let rows = tokio::task::spawn_blocking(merging).await;
        rows.map_err(|error| StoreError::Unavailable(error.into()))?
    }

    /// Deletes rows that no report reads any more. Returns whether there were any.
    pub(crate) async fn clean_up(&self) -> Result<bool, StoreError> {
        let due = self.ledger.cleanup(self.options.settled).await?;
        for LedgerMerge { sequence, up_to } in &due.merged {
            let slots = format!("{}, start, unit", SubjectKey::COLUMNS);
            // First what was replaced, then the rows that say so.
            for condition in [
                format!(
                    "up_to = 0 AND sequence <= {up_to} AND ({slots}) IN \
                     (SELECT {slots} FROM sums WHERE sequence = {sequence} AND up_to > 0)"
                ),
                format!("sequence = {sequence} AND up_to > 0"),
            ] {
                self.delete(Table::Sums, &condition).await?;
            }
            self.ledger.cleaned(&[*sequence]).await?;
        }
        if !due.abandoned.is_empty() {
            let condition = format!("sequence IN ({})", visible::numbers(&due.abandoned));
            self.delete(Table::Sums, &condition).await?;
            self.delete(Table::Clicks, &condition).await?;
            self.ledger.cleaned(&due.abandoned).await?;
        }
        for erasure in &due.erasures {
            self.delete_erased(erasure).await?;
        }
        let erased: Vec<u64> = due.erasures.iter().map(|erasure| erasure.sequence).collect();
        if !erased.is_empty() {
            self.ledger.erased(&erased).await?;
        }
        Ok(!due.merged.is_empty() || !due.abandoned.is_empty())
    }
}

/// A row with a sum, or one that says that others are replaced.
struct SumRow<'a> {
    slot: Slot,
    sequence: u64,
    up_to: u64,
    owner: OwnerId,
    sum: &'a [u8],
}

impl<'a> SumRow<'a> {
    fn read(row: &mut Reader<'a>) -> Option<Self> {
        Some(Self {
            slot: read_slot(row)?,
            sequence: row.u64()?,
            up_to: row.u64()?,
            owner: OwnerId(row.u64()?),
            sum: row.bytes()?,
        })
    }
}

fn read_slot(row: &mut Reader<'_>) -> Option<Slot> {
    Some(Slot { subject: SubjectKey::read(row)?, unit: row.u8()?, start: row.i64()? })
}
