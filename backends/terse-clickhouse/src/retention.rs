//! Deletes clicks: by age, and with the link or the owner they belong to.

use async_trait::async_trait;
use terse_core::clicks::{ClickRetention, ErasedSubject, LedgerErasure, Pruned, Retention, Unit};
use terse_core::{LinkKey, OwnerId, StoreError, Timestamp};

use crate::ClickHouseClicks;
use crate::row_binary::{Reader, quoted};
use crate::visible::{Table, key_literal};

const TABLES: [Table; 2] = [Table::Clicks, Table::Sums];

#[async_trait]
impl ClickRetention for ClickHouseClicks {
    async fn erase_links(
        &self,
        links: &[LinkKey],
        created_by: Timestamp,
        erased_at: Timestamp,
    ) -> Result<(), StoreError> {
        if links.is_empty() {
            return Ok(());
        }
        // Reports leave the rows out from now on.
        let sequence = self.ledger.erase_links(links, created_by, erased_at).await?;
        let keys: Vec<String> = links.iter().map(key_literal).collect();
        for table in TABLES {
            let rows = table.of_links(&keys, created_by.as_ms());
            self.delete(table, &format!("{rows} AND sequence <= {sequence}")).await?;
        }
        self.ledger.erased(&[sequence]).await
    }

    async fn erase_owner(&self, owner: OwnerId, erased_at: Timestamp) -> Result<(), StoreError> {
        let sequence = self.ledger.erase_owner(owner, erased_at).await?;
        self.delete_erased(&LedgerErasure { sequence, erased: ErasedSubject::Owner(owner) })
            .await?;
        self.ledger.erased(&[sequence]).await
    }

    /// Rewrites the parts that hold deleted rows. The server deletes the old ones a few minutes
    /// later (`old_parts_lifetime`).
    async fn scrub(&self) -> Result<(), StoreError> {
        for table in TABLES {
            self.client.execute(format!("ALTER TABLE {} APPLY DELETED MASK", table.name())).await?;
        }
        Ok(())
    }

    async fn forget_logs(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.ledger.forget_logs(before).await
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned, StoreError> {
        // Reports sum up hours until the hours become days.
        let Retention {
            raw_before,
            max_raw,
            days_before: _,
            hours_before,
            tombstones_before,
            limit,
        } = retention;
        let mut raw = self.prune_raw(Unit::Hour.floor(raw_before).as_ms()).await?;
        if let Some(max_raw) = max_raw {
            raw += self.prune_beyond(max_raw).await?;
        }
        let before = Unit::Day.floor(hours_before).as_ms();
        let hours = self.merge_into_days(before, limit).await?;
        let left = limit - hours;
        let merged = self.merge_many(left).await?;
        let left = (left - merged) as u64;
        let tombstones = self.ledger.prune_tombstones(tombstones_before, left).await?;
        // A full batch may have left something.
        let more = left == tombstones || merged > 0;
        let cleaned = !more && self.clean_up().await?;
        Ok(Pruned { raw, hours: hours as u64, tombstones, more: more || cleaned })
    }
}

impl ClickHouseClicks {
    pub(crate) async fn delete(&self, table: Table, condition: &str) -> Result<(), StoreError> {
        self.client.execute(format!("DELETE FROM {} WHERE {condition}", table.name())).await
    }

    /// Deletes the rows of one erasure.
    pub(crate) async fn delete_erased(&self, erasure: &LedgerErasure) -> Result<(), StoreError> {
        for table in TABLES {
            let rows = match &erasure.erased {
                ErasedSubject::Link(key, created_by) => {
                    table.of_links(&[key_literal(key)], created_by.as_ms())
                }
                ErasedSubject::Owner(owner) => table.of_owner(owner.0),
            };
            self.delete(table, &format!("{rows} AND sequence <= {}", erasure.sequence)).await?;
        }
        Ok(())
    }

    /// Deletes single clicks before a time: whole days by dropping their partitions.
    async fn prune_raw(&self, before: i64) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT _partition_id, max(intDiv(at, 86400000)), count() FROM clicks \
             WHERE at < {before} GROUP BY _partition_id"
        );
        let read = |row: &mut Reader<'_>| Some((row.text()?.to_owned(), row.i64()?, row.u64()?));
        let mut deleted = 0;
        for (partition, day, clicks) in self.client.rows(&sql, read).await? {
            let ends = day.saturating_add(1).saturating_mul(Unit::Day.ms());
            // Division rounds towards zero: day 0 has twice the length.
            if ends <= before && day != 0 {
                self.drop_partition(&partition).await?;
            } else {
                let within = format!("_partition_id = {}", quoted(&partition));
                self.delete(Table::Clicks, &format!("at < {before} AND {within}")).await?;
            }
            deleted += clicks;
        }
        Ok(deleted)
    }

    /// Deletes the days of single clicks beyond the newest `max` bytes.
    async fn prune_beyond(&self, max: u64) -> Result<u64, StoreError> {
        let sql = "SELECT partition_id, toInt64(partition) AS day, sum(bytes_on_disk) \
             FROM system.parts WHERE active AND database = currentDatabase() \
             AND table = 'clicks' GROUP BY partition_id, day ORDER BY day DESC";
        let read = |row: &mut Reader<'_>| Some((row.text()?.to_owned(), row.i64()?, row.u64()?));
        let (mut kept, mut deleted) = (0u64, 0);
        for (partition, _, octets) in self.client.rows(sql, read).await? {
            kept = kept.saturating_add(octets);
            if kept <= max {
                continue;
            }
            let sql =
                format!("SELECT count() FROM clicks WHERE _partition_id = {}", quoted(&partition));
            let clicks = self.client.number(&sql).await?;
            self.drop_partition(&partition).await?;
            deleted += clicks;
        }
        Ok(deleted)
    }

    async fn drop_partition(&self, partition: &str) -> Result<(), StoreError> {
        let sql = format!("ALTER TABLE clicks DROP PARTITION ID {}", quoted(partition));
        self.client.execute(sql).await
    }
}
