//! The blocks of single clicks: written with a batch, read by link, merged, pruned, and rewritten
//! without what was erased.

use std::rc::Rc;

use rusqlite::{OptionalExtension, Row, params};
use terse_core::clicks::{Click, ClickColumns, ClickCursor, ClickTarget};

use crate::clicks::block::{Block, StoredBlock, read_subjects};
use crate::clicks::block_builder::{BlockBuilder, Source};
use crate::clicks::queries::ClickQueries;
use crate::clicks::report::TimeRange;
use crate::clicks::writes::ClickWrites;
use crate::failure::{Failure, corrupt};

pub(crate) const IN_TIME: &str = "SELECT id, first, clicks, clean_to, subjects FROM blocks \
    WHERE last >= ?1 AND first < ?2 ORDER BY first";
const BLOCK: &str = "SELECT subjects, data, clean_to FROM blocks WHERE id = ?1";
const INSERT: &str = "INSERT INTO blocks VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const DELETE: &str = "DELETE FROM blocks WHERE id = ?1";
/// Blocks with fewer clicks than this are merged.
pub(crate) const SMALL: &str =
    "SELECT id, clicks FROM blocks WHERE clicks < 16384 ORDER BY id LIMIT ?1";
pub(crate) const OLD: &str = "SELECT id, last, clicks FROM blocks WHERE first < ?1 LIMIT ?2";
pub(crate) const NOT_CLEAN: &str = "SELECT id FROM blocks WHERE clean_to < ?1 LIMIT ?2";
const SIZE: &str = "SELECT coalesce(sum(length(data) + length(subjects)), 0) FROM blocks";
pub(crate) const OLDEST: &str = "SELECT id, clicks, length(data) + length(subjects) FROM blocks \
    ORDER BY last LIMIT ?1";
const LAST_ERASED: &str = "SELECT coalesce(max(id), 0) FROM erased_subjects";

/// Blocks are merged up to this many clicks, and at least this many blocks at a time.
const MERGED_CLICKS: i64 = 65_536;
const MERGED_BLOCKS: usize = 8;
/// Blocks that one step rewrites.
const BLOCKS_A_STEP: i64 = 64;

/// A block that was read last. Pages of one link are read one after the other.
#[derive(Default)]
pub(crate) struct LastBlock(Option<(BlockKey, Rc<Block>)>);

/// A block with this id may have been rewritten meanwhile.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct BlockKey {
    id: i64,
    pub(crate) first: i64,
    clicks: i64,
    clean_to: i64,
}

impl BlockKey {
    /// From a row of [`IN_TIME`].
    pub(crate) fn of_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { id: row.get(0)?, first: row.get(1)?, clicks: row.get(2)?, clean_to: row.get(3)? })
    }
}

/// A click of a block that belongs to a page.
struct Found {
    cursor: (i64, i64),
    block: Rc<Block>,
    row: usize,
}

impl ClickQueries {
    /// Up to `limit` clicks of a link after a cursor, the earliest first.
    pub(crate) fn clicks_in_blocks(
        &self,
        target: &ClickTarget,
        subject: i64,
        range: TimeRange,
        after: (i64, i64),
        limit: usize,
    ) -> Result<Vec<(ClickCursor, Click)>, Failure> {
        let mut found: Vec<Found> = Vec::new();
        let mut statement = self.conn.prepare_cached(IN_TIME)?;
        let mut rows = statement.query([after.0, range.to])?;
        while let Some(row) = rows.next()? {
            let key = BlockKey::of_row(row)?;
            // Blocks come in the order of their earliest click.
            if found.len() >= limit && found[limit - 1].cursor.0 < key.first {
                break;
            }
            let subjects = row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?;
            let subjects = read_subjects(subjects).ok_or_else(|| damaged(key.id))?;
            if subjects.binary_search(&subject).is_err() {
                continue;
            }
            let block = self.block(key)?;
            for (row, of) in block.subjects.iter().enumerate() {
                let cursor = (block.columns.at_ms[row], block.numbers[row].cast_signed());
                if *of == subject && cursor > after && cursor.0 < range.to {
                    found.push(Found { cursor, block: Rc::clone(&block), row });
                }
            }
            found.sort_by_key(|found| found.cursor);
            found.truncate(limit);
        }
        let click = |found: Found| {
            let (at_ms, number) = (found.cursor.0, found.cursor.1.cast_unsigned());
            let row = found.block.columns.row(found.row);
            let click = found.block.columns.click_with_target(&row, target.clone());
            (ClickCursor { at_ms, number }, click)
        };
        Ok(found.into_iter().map(click).collect())
    }

    pub(crate) fn block(&self, key: BlockKey) -> Result<Rc<Block>, Failure> {
        if let Some((_, block)) = self.last_block.borrow().0.as_ref().filter(|(of, _)| *of == key) {
            return Ok(Rc::clone(block));
        }
        let block = Rc::new(self.read_block(key.id)?.0);
        self.last_block.replace(LastBlock(Some((key, Rc::clone(&block)))));
        Ok(block)
    }

    /// A block, and the erasure up to which it is clean.
    pub(crate) fn read_block(&self, id: i64) -> Result<(Block, i64), Failure> {
        let mut statement = self.conn.prepare_cached(BLOCK)?;
        let read = |row: &Row<'_>| {
            let subjects = row.get_ref(0)?.as_blob()?;
            let data = row.get_ref(1)?.as_blob()?;
            Ok((Block::decode(id, subjects, data), row.get(2)?))
        };
        let (block, clean_to) = statement.query_row([id], read)?;
        Ok((block.ok_or_else(|| damaged(id))?, clean_to))
    }
}

fn damaged(id: i64) -> Failure {
    corrupt(format!("the block {id} of single clicks is not what was written there")).into()
}

impl ClickWrites {
    /// Stores single clicks of links, given the rows of their links and where they are in the
    /// columns.
    pub(crate) fn add_block(
        &mut self,
        columns: &ClickColumns,
        mut clicks: Vec<(i64, u32)>,
    ) -> Result<(), Failure> {
        if clicks.is_empty() {
            return Ok(());
        }
        clicks.sort_by_key(|(_, row)| columns.at_ms[*row as usize]);
        let (mut source, mut builder) = (Source::new(columns), BlockBuilder::of_one(clicks.len()));
        for (subject, row) in clicks {
            let row = columns.row(row as usize);
            builder.push(&mut source, subject, self.next_number, row);
            self.next_number += 1;
        }
        let clean_to = self.last_erased()?;
        self.insert_block(&builder.finish(), clean_to)
    }

    fn insert_block(&mut self, block: &Block, clean_to: i64) -> Result<(), Failure> {
        let id = self.next_block;
        self.next_block += 1;
        let Some(StoredBlock { first_ms, last_ms, clicks, subjects, data }) = block.encode(id)
        else {
            return Err(corrupt("single clicks cannot be compressed").into());
        };
        self.conn
            .prepare_cached(INSERT)?
            .execute(params![id, first_ms, last_ms, clicks, clean_to, subjects, data])?;
        Ok(())
    }

    /// Replaces blocks by one that holds the clicks to keep. Returns how many clicks were deleted.
    fn rewrite(
        &mut self,
        ids: &[i64],
        clean_to: i64,
        stays: impl Fn(i64, i64) -> bool,
    ) -> Result<u64, Failure> {
        let mut blocks = Vec::new();
        for id in ids {
            match self.read_block(*id) {
                Ok((block, _)) => blocks.push(block),
                // Its clicks are lost. Skipped, because it would otherwise stop all merges for
                // ever.
                Err(Failure::Refused(error)) => {
                    tracing::error!(%error, block = id, "a block of single clicks is damaged and \
                        is deleted; the sums are not affected");
                }
                Err(error) => return Err(error),
            }
        }
        let mut rows: Vec<(i64, u64, usize, usize)> = Vec::new();
        let mut gone = 0;
        for (from, block) in blocks.iter().enumerate() {
            for row in 0..block.len() {
                let at_ms = block.columns.at_ms[row];
                if stays(block.subjects[row], at_ms) {
                    rows.push((at_ms, block.numbers[row], from, row));
                } else {
                    gone += 1;
                }
            }
        }
        rows.sort_unstable();
        let mut sources: Vec<Source<'_>> =
            blocks.iter().map(|block| Source::new(&block.columns)).collect();
        let mut builder = BlockBuilder::of_several();
        for (_, number, from, row) in rows {
            let block = &blocks[from];
            let (subject, row) = (block.subjects[row], block.columns.row(row));
            builder.push(&mut sources[from], subject, number, row);
        }
        for id in ids {
            self.conn.prepare_cached(DELETE)?.execute([id])?;
        }
        let block = builder.finish();
        if block.len() > 0 {
            self.insert_block(&block, clean_to)?;
        }
        Ok(gone)
    }

    /// Deletes single clicks before a time. Whole blocks are deleted at once; a block that also has
    /// later clicks is rewritten. Returns how many clicks were deleted, and whether there are more.
    pub(crate) fn drop_blocks(&mut self, before_ms: i64) -> Result<(u64, bool), Failure> {
        let mut statement = self.conn.prepare_cached(OLD)?;
        let old: Vec<(i64, i64, i64)> = statement
            .query_map([before_ms, BLOCKS_A_STEP], |row| row.try_into())?
            .collect::<Result<_, _>>()?;
        drop(statement);
        let mut gone = 0;
        for (id, last, clicks) in &old {
            if *last < before_ms {
                self.conn.prepare_cached(DELETE)?.execute([id])?;
                gone += clicks.cast_unsigned();
            } else {
                let (_, clean_to) = self.read_block(*id).unwrap_or_default();
                gone += self.rewrite(&[*id], clean_to, |_, at_ms| at_ms >= before_ms)?;
            }
        }
        Ok((gone, old.len() as i64 == BLOCKS_A_STEP))
    }

    /// Deletes the oldest blocks, whole, until all of them take no more than this. Returns how many
    /// clicks were deleted, and whether there are more.
    pub(crate) fn drop_oversize(&mut self, max: Option<u64>) -> Result<(u64, bool), Failure> {
        let Some(max) = max else { return Ok((0, false)) };
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let mut size: i64 = self.conn.prepare_cached(SIZE)?.query_row([], |row| row.get(0))?;
        if size <= max {
            return Ok((0, false));
        }
        let mut statement = self.conn.prepare_cached(OLDEST)?;
        let oldest: Vec<(i64, i64, i64)> = statement
            .query_map([BLOCKS_A_STEP], |row| row.try_into())?
            .collect::<Result<_, _>>()?;
        drop(statement);
        let mut gone = 0;
        for (id, clicks, length) in oldest {
            if size <= max {
                break;
            }
            self.conn.prepare_cached(DELETE)?.execute([id])?;
            size -= length;
            gone += clicks.cast_unsigned();
        }
        Ok((gone, size > max))
    }

    /// Merges small blocks. Returns whether there is more to do.
    pub(crate) fn merge_blocks(&mut self) -> Result<bool, Failure> {
        let mut statement = self.conn.prepare_cached(SMALL)?;
        let small: Vec<(i64, i64)> = statement
            .query_map([BLOCKS_A_STEP], |row| row.try_into())?
            .collect::<Result<_, _>>()?;
        drop(statement);
        if small.len() < MERGED_BLOCKS {
            return Ok(false);
        }
        let mut sum = 0;
        let ids: Vec<i64> = small
            .iter()
            .take_while(|(_, clicks)| {
                sum += clicks;
                sum <= MERGED_CLICKS
            })
            .map(|(id, _)| *id)
            .collect();
        // The lowest of all: a block is clean of erasures up to its own number, so the merged one
        // is clean up to the lowest.
        let mut clean_to = i64::MAX;
        for id in &ids {
            let mut statement =
                self.conn.prepare_cached("SELECT clean_to FROM blocks WHERE id = ?1")?;
            clean_to = clean_to.min(statement.query_row([id], |row| row.get(0))?);
        }
        self.rewrite(&ids, clean_to, |_, _| true)?;
        Ok(small.len() as i64 == BLOCKS_A_STEP)
    }

    /// The last erasure.
    pub(crate) fn last_erased(&self) -> Result<i64, Failure> {
        Ok(self.conn.prepare_cached(LAST_ERASED)?.query_row([], |row| row.get(0))?)
    }

    /// Takes erased links out of blocks and runs. Returns whether there is more to do.
    pub(crate) fn clean_blocks(&mut self) -> Result<bool, Failure> {
        let last = self.last_erased()?;
        let mut statement = self.conn.prepare_cached(NOT_CLEAN)?;
        let ids: Vec<i64> = statement
            .query_map([last, BLOCKS_A_STEP], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        drop(statement);
        // Sums in blocks and in runs may be of erased links, too.
        if ids.is_empty() && self.has_deltas_of_erased()? {
            self.merge_deltas()?;
            return Ok(true);
        }
        if ids.is_empty() && self.clean_runs().map_err(Failure::after_writes)? {
            return Ok(true);
        }
        if ids.is_empty() {
            let erased = self.erased_subjects()?;
            if !erased.is_empty() {
                self.clean_day_ranks(&erased)?;
            }
            // No block holds any of them. `last` stays, so that its id is not used again.
            self.conn
                .prepare_cached("DELETE FROM erased_subjects WHERE id <= ?1")?
                .execute([last])?;
            return Ok(false);
        }
        let erased = self.erased_subjects()?;
        for id in ids {
            let mut statement =
                self.conn.prepare_cached("SELECT subjects FROM blocks WHERE id = ?1")?;
            let subjects: Option<Vec<u8>> =
                statement.query_row([id], |row| row.get(0)).optional()?;
            drop(statement);
            let subjects = subjects.as_deref().and_then(read_subjects);
            // A list that cannot be read may hold any of them.
            let dirty = subjects
                .is_none_or(|subjects| subjects.iter().any(|subject| erased.contains(subject)));
            if dirty {
                self.rewrite(&[id], last, |subject, _| !erased.contains(&subject))?;
            } else {
                self.conn
                    .prepare_cached("UPDATE blocks SET clean_to = ?2 WHERE id = ?1")?
                    .execute([id, last])?;
            }
        }
        Ok(true)
    }
}
