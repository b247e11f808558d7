//! Blocks of sums that earlier versions wrote, in place of runs.
//!
//! Their clicks are in the totals of their subjects already. All of them are merged into the rows
//! of hours, in the order of the file. Until then reports add what is in blocks to the rows.
//!
//! The merge runs in steps. It covers the blocks up to `merge_last`; their sums with ids below
//! `merged_to` are in the rows already and count there. After the last step the blocks are deleted.
//!
//! | part | content |
//! |---|---|
//! | `delta_blocks.chunks` | of each chunk, its first and its last id, each as the difference to the number before: postcard |
//! | `delta_chunks.data` | octets 0 to 7: the checksum of the rest; then, compressed by zstd, for each sum: id (difference to the one before), humans, bots, and the sum as in the row, by postcard |
//!
//! A chunk holds sums of one day only.

use std::collections::HashSet;

use rusqlite::{OptionalExtension, Row, params};
use terse_core::clicks::{Count, MAX_VALUES_PER_HOUR};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clicks::bucket::of_hour_id;
use crate::clicks::queries::{ClickQueries, Cost};
use crate::clicks::runs::{ChunkIds, chunk_id, decode_chunks};
use crate::clicks::sum::{Slot, Sum, log_damaged_sum};
use crate::clicks::writes::{ClickWrites, HOUR, PUT_HOUR};
use crate::failure::{Failure, corrupt};

pub(crate) const BLOCKS: &str =
    "SELECT id, chunks FROM delta_blocks WHERE last >= ?1 AND first < ?2 ORDER BY id";
pub(crate) const CHUNK: &str = "SELECT data FROM delta_chunks WHERE id = ?1";
const MERGE: &str = "SELECT name, value FROM meta WHERE name IN ('merge_last', 'merged_to')";
const ERASED_BLOCK: &str = "SELECT value FROM meta WHERE name = 'erased_block'";
const TOTALS: &str = "SELECT count(*), coalesce(sum(entries), 0), coalesce(max(id), 0), \
    coalesce(min(first), 9223372036854775807) FROM delta_blocks";

/// No chunk is longer than this before compression. A stored length above it means damage.
const MAX_LEN: usize = 64 << 20;
/// How many sums of quiet links are in a chunk, about.
const SUMS_A_CHUNK: usize = 100;
/// About how many sums one step merges.
const BATCH: usize = 20_000;
/// Sums shorter than this have fewer values than a row may hold.
const SHORT_SUM: usize = MAX_VALUES_PER_HOUR * 4;

/// A sum for the row with this id.
#[derive(Debug)]
pub(crate) struct DeltaSum {
    pub(crate) id: i64,
    pub(crate) clicks: Count,
    /// Encoded for its row.
    pub(crate) sum: Vec<u8>,
}

/// A sum in a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredDelta<'c> {
    pub(crate) id: i64,
    pub(crate) clicks: Count,
    pub(crate) sum: &'c [u8],
}

impl StoredDelta<'_> {
    pub(crate) fn slot(&self) -> Slot {
        let (day, subject, hour) = of_hour_id(self.id);
        Slot::Hour { subject, hour: day * 24 + hour }
    }

    /// Adds it to a sum. A damaged one is an error, and then the sum is in an unknown state.
    pub(crate) fn add_to(&self, sum: &mut Sum) -> Result<(), Failure> {
        let before = sum.tally.clicks;
        let merged = sum.merge_stored(self.sum, self.slot());
        if !merged || sum.tally.clicks.without(before) != self.clicks {
            return Err(
                corrupt(format!("the sum of {:?} in a block is damaged", self.slot())).into()
            );
        }
        Ok(())
    }

    /// The same, for counting: of a damaged sum, it adds only the plain numbers.
    fn add_or_mend(&self, sum: &mut Sum) {
        let mut kept = Sum::default();
        match self.add_to(&mut kept) {
            Ok(()) => sum.merge(&kept),
            Err(error) => {
                log_damaged_sum(&error.to_string());
                sum.tally.clicks.add(self.clicks);
            }
        }
    }
}

/// A block of sums, without its chunks.
#[derive(Debug)]
struct DeltaBlock {
    id: i64,
    chunks: Vec<ChunkIds>,
}

impl DeltaBlock {
    /// The chunks that may have sums with ids from `from` to before `to`.
    fn chunks_in(&self, from: i64, to: i64) -> std::ops::Range<usize> {
        let first = self.chunks.partition_point(|chunk| chunk.last < from);
        first..self.chunks.partition_point(|chunk| chunk.first < to).max(first)
    }
}

/// How far the present merge is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Merge {
    /// The last block that is being merged; 0 if there is no merge.
    last: i64,
    /// Sums of these blocks below this id are in the rows.
    to: i64,
}

impl Merge {
    /// The ids of a block that are not in the rows begin here.
    fn begin(self, block: i64) -> i64 {
        if block <= self.last { self.to } else { i64::MIN }
    }
}

/// What is in blocks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct OldTotals {
    pub(crate) blocks: i64,
    pub(crate) sums: i64,
    last_block: i64,
    /// The least id of a row.
    pub(crate) first: i64,
}

/// The content of a chunk, before compression.
fn open_chunk(id: i64, data: &[u8]) -> Option<Vec<u8>> {
    let (head, data) = data.split_at_checked(8)?;
    if head != xxh3_64_with_seed(data, id.cast_unsigned()).to_le_bytes() {
        return None;
    }
    let length = zstd::zstd_safe::get_frame_content_size(data).ok()??;
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_LEN)?;
    zstd::bulk::decompress(data, length).ok()
}

/// The sums of a chunk, in the order of their ids. The last item is `None` if it is damaged.
fn sums_of(mut plain: &[u8]) -> impl Iterator<Item = Option<StoredDelta<'_>>> {
    let mut last = 0_i64;
    std::iter::from_fn(move || {
        if plain.is_empty() {
            return None;
        }
        let read = postcard::take_from_bytes::<(i64, u64, u64, &[u8])>(plain);
        let Ok(((difference, humans, bots, sum), rest)) = read else {
            plain = &[];
            return Some(None);
        };
        plain = rest;
        last = last.wrapping_add(difference);
        Some(Some(StoredDelta { id: last, clicks: Count { humans, bots }, sum }))
    })
}

fn damaged(block: i64) -> Failure {
    corrupt(format!("the block {block} of sums is not what was written there")).into()
}

impl ClickQueries {
    fn merge(&self) -> Result<Merge, Failure> {
        let mut merge = Merge::default();
        let mut statement = self.conn.prepare_cached(MERGE)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            match row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)? {
                "merge_last" => merge.last = row.get(1)?,
                _ => merge.to = row.get(1)?,
            }
        }
        Ok(merge)
    }

    pub(crate) fn old_totals(&self) -> Result<OldTotals, Failure> {
        let read = |row: &Row<'_>| {
            let (blocks, sums, last_block, first) = row.try_into()?;
            Ok(OldTotals { blocks, sums, last_block, first })
        };
        Ok(self.conn.prepare_cached(TOTALS)?.query_row([], read)?)
    }

    /// Blocks that may have sums with ids from `from` to before `to`.
    fn delta_blocks(&self, from: i64, to: i64) -> Result<Vec<DeltaBlock>, Failure> {
        let mut statement = self.conn.prepare_cached(BLOCKS)?;
        let mut rows = statement.query([from, to])?;
        let mut blocks = Vec::new();
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            let chunks = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            let chunks = decode_chunks(id, chunks).ok_or_else(|| damaged(id))?;
            blocks.push(DeltaBlock { id, chunks });
        }
        Ok(blocks)
    }

    fn chunk(&self, block: i64, at: usize) -> Result<Vec<u8>, Failure> {
        let id = chunk_id(block, at);
        let cost = self.cost.get();
        self.cost.set(Cost { chunks: cost.chunks + 1, ..cost });
        let mut statement = self.conn.prepare_cached(CHUNK)?;
        let read = |row: &Row<'_>| Ok(open_chunk(id, row.get_ref(0)?.as_blob()?));
        statement.query_row([id], read).optional()?.flatten().ok_or_else(|| damaged(block))
    }

    /// Visits the sums in blocks for rows with ids from `from` to before `to` that are not in the
    /// rows. One row may have several.
    pub(crate) fn each_delta(
        &self,
        from: i64,
        to: i64,
        mut visit: impl FnMut(StoredDelta<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let blocks = self.delta_blocks(from, to)?;
        if blocks.is_empty() {
            return Ok(());
        }
        let merge = self.merge()?;
        for block in &blocks {
            let from = from.max(merge.begin(block.id));
            for at in block.chunks_in(from, to) {
                self.each_in_chunk(block.id, at, from, to, &mut visit)?;
            }
        }
        Ok(())
    }

    fn each_in_chunk(
        &self,
        block: i64,
        at: usize,
        from: i64,
        to: i64,
        mut visit: impl FnMut(StoredDelta<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let plain = self.chunk(block, at)?;
        for entry in sums_of(&plain) {
            let entry = entry.ok_or_else(|| damaged(block))?;
            if entry.id >= to {
                break;
            }
            if entry.id >= from {
                visit(entry)?;
            }
        }
        Ok(())
    }

    /// The days of sums in blocks, ascending.
    pub(crate) fn days_with_deltas(&self, first: i64, last: i64) -> Result<Vec<i64>, Failure> {
        let mut days = Vec::new();
        for block in self.delta_blocks(i64::MIN, i64::MAX)? {
            days.extend(block.chunks.iter().map(|chunk| of_hour_id(chunk.first).0));
        }
        days.retain(|day| (first..=last).contains(day));
        days.sort_unstable();
        days.dedup();
        Ok(days)
    }
}

impl ClickWrites {
    fn set_merge(&self, merge: Merge) -> Result<(), Failure> {
        let mut statement =
            self.conn.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?;
        statement.execute(params!["merge_last", merge.last])?;
        statement.execute(params!["merged_to", merge.to])?;
        Ok(())
    }

    /// One step of merging blocks into the rows of hours. Begins a merge of all blocks if there is
    /// none. Returns how many sums were merged, and whether there are more.
    pub(crate) fn merge_deltas(&mut self) -> Result<(u64, bool), Failure> {
        let totals = self.old_totals()?;
        if totals.blocks == 0 {
            return Ok((0, false));
        }
        let mut merge = self.merge()?;
        if merge.last == 0 {
            merge = Merge { last: totals.last_block, to: i64::MIN };
        }
        let blocks = self.blocks_to_merge(merge.last)?;
        let end = end_of_step(&blocks, merge.to, BATCH);
        let erased = self.erased_subjects()?;
        let mut sums: Vec<DeltaSum> = Vec::new();
        for block in &blocks {
            for at in block.chunks_in(merge.to, end) {
                let read = self.each_in_chunk(block.id, at, merge.to, end, |entry| {
                    let StoredDelta { id, clicks, sum } = entry;
                    sums.push(DeltaSum { id, clicks, sum: sum.to_vec() });
                    Ok(())
                });
                give_up_if_damaged(read, block.id)?;
            }
        }
        let merged = sums.len() as u64;
        // An erased subject has no rows.
        sums.retain(|sum| !erased.contains(&of_hour_id(sum.id).1));
        // Stable: sums of one row stay in the order of the blocks.
        sums.sort_by_key(|sum| sum.id);
        for of_row in sums.chunk_by(|one, other| one.id == other.id) {
            self.merge_into_row(of_row)?;
        }
        merge.to = end;
        if end == i64::MAX {
            let first_left = chunk_id(merge.last + 1, 0);
            self.conn
                .prepare_cached("DELETE FROM delta_blocks WHERE id <= ?1")?
                .execute([merge.last])?;
            self.conn
                .prepare_cached("DELETE FROM delta_chunks WHERE id < ?1")?
                .execute([first_left])?;
            merge = Merge::default();
        }
        self.set_merge(merge)?;
        Ok((merged, self.old_totals()?.blocks > 0))
    }

    /// Whether a merge has begun.
    pub(crate) fn is_merging(&self) -> Result<bool, Failure> {
        Ok(self.merge()?.last > 0)
    }

    /// Notes that blocks up to the present one may have sums of a subject that was erased.
    pub(crate) fn note_erasure(&self) -> Result<(), Failure> {
        let last = self.old_totals()?.last_block;
        if last > self.erased_block()? {
            self.conn
                .prepare_cached("INSERT OR REPLACE INTO meta VALUES ('erased_block', ?1)")?
                .execute([last])?;
        }
        Ok(())
    }

    /// The last block that may have sums of an erased subject.
    fn erased_block(&self) -> Result<i64, Failure> {
        let mut statement = self.conn.prepare_cached(ERASED_BLOCK)?;
        Ok(statement.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
    }

    /// Whether there are such blocks.
    pub(crate) fn has_deltas_of_erased(&self) -> Result<bool, Failure> {
        let mut statement =
            self.conn.prepare_cached("SELECT 1 FROM delta_blocks WHERE id <= ?1")?;
        Ok(statement.exists([self.erased_block()?])?)
    }

    /// The blocks up to this one. Leaves out one whose list of chunks is damaged.
    fn blocks_to_merge(&self, last: i64) -> Result<Vec<DeltaBlock>, Failure> {
        let mut statement =
            self.conn.prepare_cached("SELECT id, chunks FROM delta_blocks WHERE id <= ?1")?;
        let mut rows = statement.query([last])?;
        let mut blocks = Vec::new();
        while let Some(row) = rows.next()? {
            let id = row.get(0)?;
            let chunks = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            match decode_chunks(id, chunks) {
                Some(chunks) => blocks.push(DeltaBlock { id, chunks }),
                None => give_up_if_damaged(Err(damaged(id)), id)?,
            }
        }
        Ok(blocks)
    }

    pub(crate) fn erased_subjects(&self) -> Result<HashSet<i64>, Failure> {
        let mut statement = self.conn.prepare_cached("SELECT subject FROM erased_subjects")?;
        let erased = statement.query_map([], |row| row.get(0))?;
        Ok(erased.collect::<Result<_, _>>()?)
    }

    /// Adds sums to their row.
    fn merge_into_row(&self, sums: &[DeltaSum]) -> Result<(), Failure> {
        let Some(DeltaSum { id, clicks, sum }) = sums.first() else { return Ok(()) };
        let mut hour = self.conn.prepare_cached(HOUR)?;
        let mut found = hour.query([id])?;
        let row = found.next()?;
        if let (None, [_], ..SHORT_SUM) = (row, sums, sum.len()) {
            drop(found);
            // The block has it as the row will have it. Damage is found when it is read.
            let Count { humans, bots } = *clicks;
            let row = params![id, humans.cast_signed(), bots.cast_signed(), sum];
            self.conn.prepare_cached(PUT_HOUR)?.execute(row)?;
            return Ok(());
        }
        let slot = StoredDelta { id: *id, clicks: *clicks, sum }.slot();
        let mut all = Sum::default();
        for DeltaSum { id, clicks, sum } in sums {
            StoredDelta { id: *id, clicks: *clicks, sum }.add_or_mend(&mut all);
        }
        if let Some(row) = row {
            all.merge_or_mend(row, 0, slot)?;
        }
        drop(found);
        all.tally.trim(MAX_VALUES_PER_HOUR);
        let Count { humans, bots } = all.tally.clicks;
        let row = params![id, humans.cast_signed(), bots.cast_signed(), all.encode(slot)];
        self.conn.prepare_cached(PUT_HOUR)?.execute(row)?;
        Ok(())
    }
}

/// Skips a damaged chunk, which would otherwise stop all merges forever.
fn give_up_if_damaged(read: Result<(), Failure>, block: i64) -> Result<(), Failure> {
    match read {
        Err(Failure::Refused(error)) => {
            tracing::error!(%error, block, "sums of clicks by hour are damaged and lost; the \
                number of all clicks of each link is not affected");
            Ok(())
        }
        read => read,
    }
}

/// Where a step that begins with this id ends: it has about `sums` sums, and two steps read few
/// chunks in common.
fn end_of_step(blocks: &[DeltaBlock], from: i64, sums: usize) -> i64 {
    // Chunks have about the same number of sums in all blocks. Two chunks may share an id: a step
    // goes past its first one.
    let chunks = blocks.iter().flat_map(|block| &block.chunks);
    let mut later: Vec<i64> = chunks.map(|chunk| chunk.first).filter(|id| *id > from).collect();
    later.sort_unstable();
    later.get((sums / SUMS_A_CHUNK).max(1)).copied().unwrap_or(i64::MAX)
}
