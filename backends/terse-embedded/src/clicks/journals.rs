//! The known journals: the epoch of each, and up to which position it is counted.

use rusqlite::{CachedStatement, OptionalExtension, params};
use terse_core::Timestamp;
use terse_core::clicks::{
    Added, Forgotten, JournalId, JournalSpan, LOG_GENERATIONS, Opened, Position,
};

use crate::clicks::queries::ClickQueries;
use crate::clicks::writes::ClickWrites;
use crate::failure::Failure;

const OPEN: &str = "INSERT INTO journals VALUES (?1, 1, 0) \
     ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch, generation";
/// Positions from before journals had ids.
const ADOPT: &str = "UPDATE positions SET journal = ?1 WHERE journal = x''";
pub(crate) const EPOCH: &str = "SELECT epoch FROM journals WHERE id = ?1";
pub(crate) const POSITION: &str = "SELECT place FROM positions WHERE journal = ?1 AND segment = ?2";
pub(crate) const POSITIONS: &str = "SELECT segment, place FROM positions WHERE journal = ?1";

impl ClickQueries {
    /// The positions of a journal, in the order of its segments' ids; none without a journal.
    pub(crate) fn positions(&self, journal: Option<JournalId>) -> Result<Vec<Position>, Failure> {
        let Some(journal) = journal else { return Ok(Vec::new()) };
        let mut statement = self.conn.prepare_cached(POSITIONS)?;
        let positions = statement.query_map([journal.0], |row| {
            let (segment, to): (i64, i64) = row.try_into()?;
            Ok(Position { journal, segment: segment.cast_unsigned(), to: to.cast_unsigned() })
        })?;
        Ok(positions.collect::<Result<_, _>>()?)
    }
}

impl ClickWrites {
    pub(crate) fn open_journal(&self, journal: JournalId) -> Result<Opened, Failure> {
        let (epoch, generation) = self
            .conn
            .prepare_cached(OPEN)?
            .query_row([journal.0], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
        self.conn.prepare_cached(ADOPT)?.execute([journal.0])?;
        let positions = self.positions(Some(journal))?;
        // A batch is one transaction: none is ever unfinished.
        let unfinished = Vec::new();
        Ok(Opened { epoch, generation: generation.cast_unsigned(), positions, unfinished })
    }

    fn is_fenced(&self, journal: JournalId, epoch: u32) -> Result<bool, Failure> {
        let current: Option<u32> =
            self.conn.prepare_cached(EPOCH)?.query_row([journal.0], |row| row.get(0)).optional()?;
        Ok(current != Some(epoch))
    }

    /// Why a batch cannot be counted now; `None` if it can.
    pub(crate) fn refusal(&self, spans: &[JournalSpan]) -> Result<Option<Added>, Failure> {
        // A batch is nearly always of one journal.
        let mut checked = None;
        for &JournalSpan { journal, epoch, .. } in spans {
            if checked != Some((journal, epoch)) {
                if self.is_fenced(journal, epoch)? {
                    return Ok(Some(Added::Fenced));
                }
                checked = Some((journal, epoch));
            }
        }
        let mut statement = self.conn.prepare_cached(POSITION)?;
        let positions: Vec<Position> = spans
            .iter()
            .map(|span| position(&mut statement, span.journal, span.segment))
            .collect::<Result<_, _>>()?;
        let mut pairs = spans.iter().zip(&positions);
        if pairs.clone().all(|(span, position)| position.to == span.from) {
            return Ok(None);
        }
        Ok(Some(match pairs.all(|(span, position)| position.to >= span.to) {
            true => Added::Already,
            false => Added::Gap(positions),
        }))
    }

    pub(crate) fn move_positions(&self, spans: &[JournalSpan]) -> Result<(), Failure> {
        let mut statement =
            self.conn.prepare_cached("INSERT OR REPLACE INTO positions VALUES (?1, ?2, ?3)")?;
        for JournalSpan { journal, segment, to, .. } in spans {
            statement.execute(params![journal.0, segment.cast_signed(), to.cast_signed()])?;
        }
        Ok(())
    }

    /// Forgets logs of CDNs that were imported last before this day.
    pub(crate) fn forget_logs(&self, before: Timestamp) -> Result<u64, Failure> {
        let over = [LOG_GENERATIONS, JournalId::log_generation(before)].map(u64::cast_signed);
        self.conn
            .prepare_cached(
                "DELETE FROM positions WHERE journal IN \
                 (SELECT id FROM journals WHERE generation >= ?1 AND generation < ?2)",
            )?
            .execute(over)?;
        let forgotten = self
            .conn
            .prepare_cached("DELETE FROM journals WHERE generation >= ?1 AND generation < ?2")?
            .execute(over)?;
        Ok(forgotten as u64)
    }

    pub(crate) fn forget_positions(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, Failure> {
        if self.is_fenced(journal, epoch)? {
            return Ok(Forgotten::Fenced);
        }
        self.conn
            .prepare_cached("UPDATE journals SET generation = max(generation, ?2) WHERE id = ?1")?
            .execute(params![journal.0, generation.cast_signed()])?;
        let mut statement = self
            .conn
            .prepare_cached("DELETE FROM positions WHERE journal = ?1 AND segment = ?2")?;
        for segment in segments {
            statement.execute(params![journal.0, segment.cast_signed()])?;
        }
        Ok(Forgotten::Done)
    }
}

fn position(
    statement: &mut CachedStatement<'_>,
    journal: JournalId,
    segment: u64,
) -> rusqlite::Result<Position> {
    let place: Option<i64> = statement
        .query_row(params![journal.0, segment.cast_signed()], |row| row.get(0))
        .optional()?;
    Ok(Position { journal, segment, to: place.map_or(0, i64::cast_unsigned) })
}
