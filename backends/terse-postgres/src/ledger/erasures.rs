//! Erasures: tombstones for what comes later, and numbers that say which stored rows are erased.

use terse_core::clicks::{ErasedSubject, LedgerErasure};
use terse_core::{LinkKey, OwnerId, Timestamp};

use super::{PostgresLedger, TOMBSTONES, signed};
use crate::exclusive::Transaction;
use crate::failure::Failure;
use crate::sql::params;
use crate::tombstones::stored_key;

impl PostgresLedger {
    pub(super) async fn erase_links_once(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<u64, Failure> {
        let domains: Vec<&str> = links.iter().map(|key| key.domain.as_str()).collect();
        let codes: Vec<&str> = links.iter().map(|key| key.code.as_str()).collect();
        let transaction = self.pool.begin().await?;
        let sequence = self.next_number(&transaction).await?;
        let keys = (&domains, &codes);
        TOMBSTONES.erase_links(&transaction, keys, created_by, erased_at).await?;
        transaction
            .execute(
                "INSERT INTO ledger_erasures (sequence, domain, code, created_by) \
                 SELECT $3::bigint, k.domain, k.code, $4::bigint \
                 FROM unnest($1, $2) AS k (domain, code)",
                params![domains, codes, sequence, created_by.as_ms()],
            )
            .await?;
        transaction.commit().await?;
        Ok(sequence.cast_unsigned())
    }

    pub(super) async fn erase_owner_once(
        &self,
        owner: OwnerId,
        erased_at: Timestamp,
    ) -> Result<u64, Failure> {
        let transaction = self.pool.begin().await?;
        let sequence = self.next_number(&transaction).await?;
        TOMBSTONES.erase_owner(&transaction, owner, erased_at).await?;
        let sql = "INSERT INTO ledger_erasures (sequence, owner) VALUES ($1, $2)";
        transaction.execute(sql, params![sequence, owner.0.cast_signed()]).await?;
        transaction.commit().await?;
        Ok(sequence.cast_unsigned())
    }

    /// A batch or a merge that was begun before an erasure may still write rows of it.
    pub(super) async fn erased_once(&self, sequences: &[u64]) -> Result<(), Failure> {
        let transaction = self.pool.begin().await?;
        let sql = "DELETE FROM ledger_erasures e WHERE sequence = ANY($1) AND NOT EXISTS \
             (SELECT FROM ledger_batches b WHERE b.ledger = $2 AND b.sequence < e.sequence) \
             AND NOT EXISTS (SELECT FROM ledger_merges m WHERE m.finished_at IS NULL \
             AND m.sequence < e.sequence)";
        transaction.execute(sql, params![signed(sequences), self.number]).await?;
        transaction.commit().await
    }
}

/// Erasures whose rows may still be in the store.
pub(super) async fn read(transaction: &Transaction<'_>) -> Result<Vec<LedgerErasure>, Failure> {
    let sql = "SELECT sequence, domain, code, created_by, owner FROM ledger_erasures";
    let mut all = Vec::new();
    for row in &transaction.query(sql, &[]).await? {
        let sequence = row.get::<_, i64>(0).cast_unsigned();
        let erased = match row.get::<_, Option<i64>>(4) {
            Some(owner) => ErasedSubject::Owner(OwnerId(owner.cast_unsigned())),
            None => ErasedSubject::Link(
                stored_key(row.get(1), row.get(2))?,
                Timestamp::from_ms(row.get(3)),
            ),
        };
        all.push(LedgerErasure { sequence, erased });
    }
    Ok(all)
}
