//! Merges of stored rows, and what is left to delete.

use std::time::Duration;

use terse_core::clicks::{LedgerCleanup, LedgerMerge};

use super::{PostgresLedger, erasures, signed};
use crate::failure::Failure;
use crate::sql::params;

/// How long rows of an abandoned number may still arrive. After this they are deleted and the
/// number is forgotten.
const LATE_WRITES: &str = "interval '1 day'";

impl PostgresLedger {
    pub(super) async fn begin_merge_once(&self) -> Result<LedgerMerge, Failure> {
        let transaction = self.pool.begin().await?;
        let sequence = self.next_number(&transaction).await?;
        // Rows of batches that are being written now are not merged.
        let sql = "SELECT coalesce(min(sequence), $2) - 1 FROM ledger_batches \
             WHERE ledger = $1 AND abandoned_at IS NULL";
        let row = transaction.query_opt(sql, params![self.number, sequence]).await?;
        let up_to: i64 = row.map_or(0, |row| row.get(0));
        let sql = "UPDATE ledger_merges SET is_abandoned = true WHERE finished_at IS NULL";
        transaction.execute(sql, &[]).await?;
        let sql = "INSERT INTO ledger_merges (sequence, up_to) VALUES ($1, $2)";
        transaction.execute(sql, params![sequence, up_to]).await?;
        transaction.commit().await?;
        let (sequence, up_to) = (sequence.cast_unsigned(), up_to.cast_unsigned());
        Ok(LedgerMerge { sequence, up_to })
    }

    pub(super) async fn finish_merge_once(&self, sequence: i64) -> Result<bool, Failure> {
        let transaction = self.pool.begin().await?;
        let sql = "UPDATE ledger_merges SET finished_at = now() \
             WHERE sequence = $1 AND NOT is_abandoned";
        let updated = transaction.execute(sql, params![sequence]).await?;
        transaction.commit().await?;
        Ok(updated > 0)
    }

    pub(super) async fn cleanup_once(&self, settled: Duration) -> Result<LedgerCleanup, Failure> {
        let transaction = self.pool.begin_snapshot().await?;
        let sql = format!(
            "SELECT sequence FROM ledger_batches WHERE ledger = $1 \
             AND abandoned_at < now() - {LATE_WRITES} \
             UNION ALL SELECT sequence FROM ledger_merges WHERE is_abandoned \
             AND begun_at < now() - {LATE_WRITES}"
        );
        let rows = transaction.query(&sql, params![self.number]).await?;
        let abandoned = rows.iter().map(|row| row.get::<_, i64>(0).cast_unsigned()).collect();
        let sql = "SELECT sequence, up_to FROM ledger_merges \
             WHERE finished_at <= now() - make_interval(secs => $1) ORDER BY sequence";
        let rows = transaction.query(sql, params![settled.as_secs_f64()]).await?;
        let merge = |row: &tokio_postgres::Row| LedgerMerge {
            sequence: row.get::<_, i64>(0).cast_unsigned(),
            up_to: row.get::<_, i64>(1).cast_unsigned(),
        };
        let merged = rows.iter().map(merge).collect();
        let erasures = erasures::read(&transaction).await?;
        transaction.commit().await?;
        Ok(LedgerCleanup { abandoned, merged, erasures })
    }

    pub(super) async fn cleaned_once(&self, sequences: &[u64]) -> Result<(), Failure> {
        let numbers = signed(sequences);
        let transaction = self.pool.begin().await?;
        let sql = "DELETE FROM ledger_batches WHERE ledger = $2 AND sequence = ANY($1) \
             AND abandoned_at IS NOT NULL";
        transaction.execute(sql, params![numbers, self.number]).await?;
        let sql = "DELETE FROM ledger_merges WHERE sequence = ANY($1)";
        transaction.execute(sql, params![numbers]).await?;
        transaction.commit().await
    }
}
