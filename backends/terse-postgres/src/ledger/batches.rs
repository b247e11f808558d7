//! Batches: begun, finished, abandoned; and the positions of journals.

use std::collections::HashMap;
use std::time::Duration;

use terse_core::Timestamp;
use terse_core::clicks::{
    Added, Batch, BeginResult, FinishResult, Forgotten, JournalId, JournalSpan, LOG_GENERATIONS,
    LedgerSnapshot, Opened, Position, UnfinishedBatch, spans_overlap,
};
use tokio_postgres::Row;

use super::{PostgresLedger, TOMBSTONES, erasures, signed};
use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt};
use crate::sql::params;

/// The octets of a stored span: journal, epoch, segment, from, to.
const SPAN: usize = 16 + 4 + 3 * 8;

impl PostgresLedger {
    pub(super) async fn open_once(&self, journal: JournalId) -> Result<Opened, Failure> {
        let transaction = self.pool.begin().await?;
        let row = transaction
            .query_opt(
                "INSERT INTO ledger_journals AS j (ledger, id, epoch, generation) \
                 VALUES ($1, $2, 1, 0) ON CONFLICT (ledger, id) DO UPDATE SET epoch = j.epoch + 1 \
                 RETURNING epoch, generation",
                params![self.number, &journal.0[..]],
            )
            .await?
            .ok_or_else(|| corrupt("a journal without an epoch"))?;
        let positions = self.positions(&transaction, Some(journal)).await?;
        let sql = "SELECT sequence, id, spans FROM ledger_batches \
             WHERE ledger = $1 AND journals @> ARRAY[$2] AND abandoned_at IS NULL \
             ORDER BY sequence";
        let rows = transaction.query(sql, params![self.number, &journal.0[..]]).await?;
        transaction.commit().await?;
        let unfinished = rows.iter().map(|row| Pending::read(row).map(Pending::into_unfinished));
        let unfinished = unfinished.collect::<Result<_, _>>()?;
        let epoch = u32::try_from(row.get::<_, i64>(0))
            .map_err(|_| corrupt("an epoch that is out of range"))?;
        let generation = row.get::<_, i64>(1).cast_unsigned();
        Ok(Opened { epoch, generation, positions, unfinished })
    }

    pub(super) async fn forget_once(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, Failure> {
        let transaction = self.pool.begin().await?;
        let sql = "UPDATE ledger_journals SET generation = greatest(generation, $4) \
             WHERE ledger = $1 AND id = $2 AND epoch = $3";
        let id = &journal.0[..];
        let params = params![self.number, id, i64::from(epoch), generation.cast_signed()];
        if transaction.execute(sql, params).await? == 0 {
            transaction.rollback().await?;
            return Ok(Forgotten::Fenced);
        }
        let sql = "DELETE FROM ledger_positions \
             WHERE ledger = $1 AND journal = $2 AND segment = ANY($3)";
        transaction.execute(sql, params![self.number, id, signed(segments)]).await?;
        transaction.commit().await?;
        Ok(Forgotten::Done)
    }

    pub(super) async fn forget_logs_once(&self, before: Timestamp) -> Result<u64, Failure> {
        let transaction = self.pool.begin().await?;
        let sql = "WITH logs AS (DELETE FROM ledger_journals \
             WHERE ledger = $1 AND generation >= $2 AND generation < $3 RETURNING id), \
             positions AS (DELETE FROM ledger_positions p USING logs \
             WHERE p.ledger = $1 AND p.journal = logs.id) SELECT count(*) FROM logs";
        let (from, to) = (LOG_GENERATIONS, JournalId::log_generation(before));
        let params = params![self.number, from.cast_signed(), to.cast_signed()];
        let row = transaction.query_opt(sql, params).await?;
        transaction.commit().await?;
        Ok(row.map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
    }

    pub(super) async fn begin_once(
        &self,
        batch: &Batch,
        repeat_within: Duration,
    ) -> Result<BeginResult, Failure> {
        let transaction = self.pool.begin().await?;
        let journals: Vec<&[u8]> = batch.spans.iter().map(|span| &span.journal.0[..]).collect();
        if !self.holds(&transaction, &batch.spans, &journals).await? {
            transaction.rollback().await?;
            return Ok(BeginResult::Refused(Added::Fenced));
        }
        let sql = "SELECT sequence, id, spans, \
             begun_at > now() - make_interval(secs => $3) FROM ledger_batches \
             WHERE ledger = $1 AND journals && $2 AND abandoned_at IS NULL ORDER BY sequence";
        let within = repeat_within.as_secs_f64();
        let rows = transaction.query(sql, params![self.number, journals, within]).await?;
        let mut in_the_way = Vec::new();
        for row in &rows {
            let pending = Pending::read(row)?;
            let is_recent: bool = row.get(3);
            if pending.id == batch.id && is_recent {
                let tombstones = TOMBSTONES.of_batch(&transaction, batch).await?;
                transaction.commit().await?;
                let sequence = pending.sequence.cast_unsigned();
                return Ok(BeginResult::Accepted { sequence, tombstones });
            }
            if pending.id == batch.id || spans_overlap(&pending.spans, &batch.spans) {
                in_the_way.push(pending.sequence);
            }
        }
        if let Some(refusal) = self.refusal(&transaction, &batch.spans, &journals).await? {
            // The sender deletes the journal of a batch that was counted before.
            match refusal {
                Added::Already => transaction.confirm().await?,
                _ => transaction.rollback().await?,
            }
            return Ok(BeginResult::Refused(refusal));
        }
        if !in_the_way.is_empty() {
            let sql = "UPDATE ledger_batches SET abandoned_at = now() \
                 WHERE ledger = $1 AND sequence = ANY($2)";
            transaction.execute(sql, params![self.number, in_the_way]).await?;
        }
        let sequence = self.next_number(&transaction).await?;
        let tombstones = TOMBSTONES.of_batch(&transaction, batch).await?;
        let spans: Vec<u8> = batch.spans.iter().flat_map(encode_span).collect();
        let sql = "INSERT INTO ledger_batches (ledger, sequence, id, journals, spans) \
             VALUES ($1, $2, $3, $4, $5)";
        let params = params![self.number, sequence, &batch.id[..], journals, spans];
        transaction.execute(sql, params).await?;
        transaction.commit().await?;
        Ok(BeginResult::Accepted { sequence: sequence.cast_unsigned(), tombstones })
    }

    pub(super) async fn finish_once(&self, sequence: i64) -> Result<FinishResult, Failure> {
        let transaction = self.pool.begin().await?;
        let sql = "SELECT sequence, id, spans, abandoned_at IS NOT NULL FROM ledger_batches \
             WHERE ledger = $1 AND sequence = $2 FOR UPDATE";
        let Some(row) = transaction.query_opt(sql, params![self.number, sequence]).await? else {
            transaction.confirm().await?;
            return Ok(FinishResult::Before);
        };
        if row.get(3) {
            transaction.rollback().await?;
            return Ok(FinishResult::Abandoned);
        }
        let spans = Pending::read(&row)?.spans;
        let journals: Vec<&[u8]> = spans.iter().map(|span| &span.journal.0[..]).collect();
        let segments: Vec<i64> = spans.iter().map(|span| span.segment.cast_signed()).collect();
        let counted: Vec<i64> = spans.iter().map(|span| span.to.cast_signed()).collect();
        transaction
            .execute(
                "INSERT INTO ledger_positions (ledger, journal, segment, counted) \
                 SELECT $1, * FROM unnest($2, $3, $4) \
                 ON CONFLICT (ledger, journal, segment) DO UPDATE SET counted = excluded.counted",
                params![self.number, journals, segments, counted],
            )
            .await?;
        let sql = "DELETE FROM ledger_batches WHERE ledger = $1 AND sequence = $2";
        transaction.execute(sql, params![self.number, sequence]).await?;
        transaction.commit().await?;
        Ok(FinishResult::Now)
    }

    pub(super) async fn snapshot_once(
        &self,
        journal: Option<JournalId>,
    ) -> Result<LedgerSnapshot, Failure> {
        let transaction = self.pool.begin_snapshot().await?;
        let sql = "SELECT last, ARRAY(SELECT sequence FROM ledger_batches b \
             WHERE b.ledger = s.ledger UNION ALL SELECT sequence FROM ledger_merges \
             WHERE finished_at IS NULL) FROM ledger_state s WHERE ledger = $1";
        let row = transaction.query_opt(sql, params![self.number]).await?;
        let row = row.ok_or_else(|| corrupt("the ledger has no last number"))?;
        let unfinished = row.get::<_, Vec<i64>>(1);
        let erasures = erasures::read(&transaction).await?;
        let positions = self.positions(&transaction, journal).await?;
        transaction.commit().await?;
        Ok(LedgerSnapshot {
            last: row.get::<_, i64>(0).cast_unsigned(),
            unfinished: unfinished.into_iter().map(i64::cast_unsigned).collect(),
            erasures,
            positions,
        })
    }

    /// Whether the sender holds all journals. Locks them until the transaction ends.
    async fn holds(
        &self,
        transaction: &Transaction<'_>,
        spans: &[JournalSpan],
        journals: &Vec<&[u8]>,
    ) -> Result<bool, Failure> {
        let sql = "SELECT id, epoch FROM ledger_journals WHERE ledger = $1 AND id = ANY($2) \
             ORDER BY id FOR UPDATE";
        let rows = transaction.query(sql, params![self.number, *journals]).await?;
        let epochs: HashMap<&[u8], i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let is_held =
            |span: &JournalSpan| epochs.get(&span.journal.0[..]) == Some(&i64::from(span.epoch));
        Ok(spans.iter().all(is_held))
    }

    /// Why a batch cannot be counted now, by the positions.
    async fn refusal(
        &self,
        transaction: &Transaction<'_>,
        spans: &[JournalSpan],
        journals: &Vec<&[u8]>,
    ) -> Result<Option<Added>, Failure> {
        let segments: Vec<i64> = spans.iter().map(|span| span.segment.cast_signed()).collect();
        let sql = "SELECT p.journal, p.segment, p.counted \
             FROM unnest($2, $3) AS k (journal, segment) JOIN ledger_positions p \
             ON p.ledger = $1 AND p.journal = k.journal AND p.segment = k.segment";
        let rows = transaction.query(sql, params![self.number, *journals, segments]).await?;
        let positions: HashMap<(&[u8], i64), i64> =
            rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect();
        let position = |span: &JournalSpan| {
            let key = (&span.journal.0[..], span.segment.cast_signed());
            positions.get(&key).map_or(0, |counted| counted.cast_unsigned())
        };
        Ok(Added::by_positions(spans, position))
    }

    /// The positions of a journal, in the snapshot of the transaction.
    async fn positions(
        &self,
        transaction: &Transaction<'_>,
        journal: Option<JournalId>,
    ) -> Result<Vec<Position>, Failure> {
        let Some(journal) = journal else { return Ok(Vec::new()) };
        let sql = "SELECT segment, counted FROM ledger_positions \
             WHERE ledger = $1 AND journal = $2 ORDER BY segment";
        let rows = transaction.query(sql, params![self.number, &journal.0[..]]).await?;
        let position = |row: &Row| Position {
            journal,
            segment: row.get::<_, i64>(0).cast_unsigned(),
            to: row.get::<_, i64>(1).cast_unsigned(),
        };
        Ok(rows.iter().map(position).collect())
    }
}

/// A batch that was begun.
struct Pending {
    sequence: i64,
    id: [u8; 16],
    spans: Vec<JournalSpan>,
}

impl Pending {
    fn read(row: &Row) -> Result<Self, Failure> {
        let damaged = || corrupt("a batch in the ledger cannot be read");
        let id = row.get::<_, &[u8]>(1).try_into().map_err(|_| damaged())?;
        let spans: &[u8] = row.get(2);
        let (spans, rest) = spans.as_chunks();
        if !rest.is_empty() {
            return Err(damaged().into());
        }
        let spans = spans.iter().map(decode_span).collect();
        Ok(Self { sequence: row.get(0), id, spans })
    }

    fn into_unfinished(self) -> UnfinishedBatch {
        UnfinishedBatch { id: self.id, spans: self.spans }
    }
}

fn encode_span(span: &JournalSpan) -> [u8; SPAN] {
    let mut bytes = [0; SPAN];
    bytes[..16].copy_from_slice(&span.journal.0);
    bytes[16..20].copy_from_slice(&span.epoch.to_be_bytes());
    for (at, number) in [span.segment, span.from, span.to].into_iter().enumerate() {
        bytes[20 + at * 8..28 + at * 8].copy_from_slice(&number.to_be_bytes());
    }
    bytes
}

fn decode_span(bytes: &[u8; SPAN]) -> JournalSpan {
    let number = |at: usize| {
        bytes[at..].first_chunk().map_or(0, |number: &[u8; 8]| u64::from_be_bytes(*number))
    };
    JournalSpan {
        journal: JournalId(bytes[..16].try_into().unwrap_or_default()),
        epoch: bytes[16..].first_chunk().map_or(0, |epoch| u32::from_be_bytes(*epoch)),
        segment: number(20),
        from: number(28),
        to: number(36),
    }
}
