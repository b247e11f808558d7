//! The ledger of a click store without transactions, and of a bus.
//!
//! A lock on the row of `ledger_state` orders everything that takes a number, so a snapshot that
//! sees a number also sees the batch, the erasure or the merge that has it.

mod batches;
mod erasures;
mod merges;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use terse_core::clicks::{
    Batch, BeginResult, ClickLedger, ErasedLink, FinishResult, Forgotten, JournalId, LedgerCleanup,
    LedgerMerge, LedgerSnapshot, Opened,
};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};

use crate::exclusive::Transaction;
use crate::failure::{Failure, corrupt};
use crate::options::{PostgresOpenError, PostgresOptions};
use crate::pool::{Connector, Pool, PostgresConnections, retried};
use crate::schema;
use crate::sql::params;
use crate::tombstones::TombstoneTables;

const TOMBSTONES: TombstoneTables = TombstoneTables { prefix: "ledger" };

/// Whose batches a ledger decides about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(i16)]
pub enum LedgerKind {
    /// Those that the click store counts.
    Clicks = 1,
    /// Those that nodes send over a bus.
    Bus = 2,
}

/// A ledger in a database that several nodes share.
pub struct PostgresLedger {
    pool: Arc<Pool>,
    /// The number in the column `ledger`.
    number: i16,
}

impl PostgresLedger {
    /// Connects, and creates or migrates the tables.
    pub async fn open(options: PostgresOptions, of: LedgerKind) -> Result<Self, PostgresOpenError> {
        let pool = Arc::new(Pool::open(&options).await?);
        Self::open_on(pool, &options, of).await
    }

    /// The same, with the connections of another store in the same database.
    pub async fn open_beside(
        connections: &PostgresConnections,
        options: &PostgresOptions,
        of: LedgerKind,
    ) -> Result<Self, PostgresOpenError> {
        Self::open_on(Arc::clone(&connections.0), options, of).await
    }

    async fn open_on(
        pool: Arc<Pool>,
        options: &PostgresOptions,
        of: LedgerKind,
    ) -> Result<Self, PostgresOpenError> {
        let direct = options.direct_url.as_ref().unwrap_or(&options.url);
        schema::LEDGER.migrate(&Connector::new(direct, options.connect_timeout)?).await?;
        Ok(Self { pool, number: of as i16 })
    }

    /// The next number. Until the transaction ends, no other gets one.
    async fn next_number(&self, transaction: &Transaction<'_>) -> Result<i64, Failure> {
        let sql = "UPDATE ledger_state SET last = last + 1 WHERE ledger = $1 RETURNING last";
        let row = transaction.query_opt(sql, params![self.number]).await?;
        Ok(row.ok_or_else(|| corrupt("the ledger has no last number"))?.get(0))
    }
}

impl std::fmt::Debug for PostgresLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresLedger").field("number", &self.number).finish_non_exhaustive()
    }
}

#[async_trait]
impl ClickLedger for PostgresLedger {
    async fn open(&self, journal: JournalId) -> Result<Opened, StoreError> {
        Ok(retried(|| self.open_once(journal)).await?)
    }

    async fn begin(
        &self,
        batch: &Batch,
        repeat_within: Duration,
    ) -> Result<BeginResult, StoreError> {
        Ok(retried(|| self.begin_once(batch, repeat_within)).await?)
    }

    async fn finish(&self, sequence: u64) -> Result<FinishResult, StoreError> {
        Ok(retried(|| self.finish_once(sequence.cast_signed())).await?)
    }

    async fn forget(
        &self,
        journal: JournalId,
        epoch: u32,
        generation: u64,
        segments: &[u64],
    ) -> Result<Forgotten, StoreError> {
        Ok(retried(|| self.forget_once(journal, epoch, generation, segments)).await?)
    }

    async fn snapshot(&self, journal: Option<JournalId>) -> Result<LedgerSnapshot, StoreError> {
        Ok(retried(|| self.snapshot_once(journal)).await?)
    }

    async fn erase_links(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<u64, StoreError> {
        Ok(retried(|| self.erase_links_once(links, created_by, erased_at)).await?)
    }

    async fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) -> Result<u64, StoreError> {
        Ok(retried(|| self.erase_owner_once(owner, erased_at)).await?)
    }

    async fn erased(&self, sequences: &[u64]) -> Result<(), StoreError> {
        Ok(retried(|| self.erased_once(sequences)).await?)
    }

    async fn prune_tombstones(&self, before: Timestamp, limit: u64) -> Result<u64, StoreError> {
        let pruning = retried(|| async {
            let transaction = self.pool.begin().await?;
            let pruned = TOMBSTONES.prune(&transaction, before, limit).await?;
            transaction.commit().await?;
            Ok(pruned)
        });
        Ok(pruning.await?)
    }

    async fn forget_logs(&self, before: Timestamp) -> Result<u64, StoreError> {
        Ok(retried(|| self.forget_logs_once(before)).await?)
    }

    async fn erased_links(
        &self,
        since: Timestamp,
        after: Option<&ErasedLink>,
        limit: usize,
    ) -> Result<Vec<ErasedLink>, StoreError> {
        Ok(TOMBSTONES.links_since(&self.pool, since, after, limit).await?)
    }

    async fn erased_owners(&self, since: Timestamp) -> Result<Vec<OwnerId>, StoreError> {
        Ok(TOMBSTONES.owners_since(&self.pool, since).await?)
    }

    async fn begin_merge(&self) -> Result<LedgerMerge, StoreError> {
        Ok(retried(|| self.begin_merge_once()).await?)
    }

    async fn finish_merge(&self, sequence: u64) -> Result<bool, StoreError> {
        Ok(retried(|| self.finish_merge_once(sequence.cast_signed())).await?)
    }

    async fn cleanup(&self, settled: Duration) -> Result<LedgerCleanup, StoreError> {
        Ok(retried(|| self.cleanup_once(settled)).await?)
    }

    async fn cleaned(&self, sequences: &[u64]) -> Result<(), StoreError> {
        Ok(retried(|| self.cleaned_once(sequences)).await?)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.pool.check().await
    }
}

/// Numbers as the database stores them.
fn signed(numbers: &[u64]) -> Vec<i64> {
    numbers.iter().map(|number| number.cast_signed()).collect()
}
