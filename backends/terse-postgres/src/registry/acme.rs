//! The records of certificates that terse orders itself.

use async_trait::async_trait;
use terse_core::Secret;
use terse_core::registry::{
    AcmeRecord, AcmeRecordKind, AcmeRecords, AcmeStore, FencingToken, check_acme_record_size,
};

use super::rows::{get, id};
use super::step::step;
use super::{Answer, PostgresRegistry, first};
use crate::sql::params;

#[async_trait]
impl AcmeStore for PostgresRegistry {
    async fn acme_revision(&self) -> Answer<u64> {
        let sql = "SELECT coalesce(max(revision), 0) FROM acme_records";
        Ok(first(&self.query(sql, &[]).await?, |row| id(row, 0))?.unwrap_or_default())
    }

    async fn acme_records(&self) -> Answer<AcmeRecords> {
        let sql = "SELECT kind, name, revision, value FROM acme_records ORDER BY kind, name";
        let mut all = AcmeRecords::default();
        for row in &self.query(sql, &[]).await? {
            all.revision = all.revision.max(id(row, 2)?);
            let (kind, value): (&str, Option<&str>) = (get(row, 0)?, get(row, 3)?);
            // A later version of terse may have other kinds.
            if let (Some(kind), Some(value)) = (AcmeRecordKind::parse(kind), value) {
                all.records.push(AcmeRecord {
                    kind,
                    name: get(row, 1)?,
                    value: Secret::new(value),
                });
            }
        }
        Ok(all)
    }

    async fn put_acme_record(
        &self,
        token: FencingToken,
        kind: AcmeRecordKind,
        name: &str,
        value: Option<&Secret>,
    ) -> Answer<()> {
        check_acme_record_size(value)?;
        // The lock makes revisions grow in the order of the commits.
        step!(self, Registry, |step| {
            step.check_lease(token).await?;
            step.run(
                "INSERT INTO acme_records (kind, name, revision, value) \
                 VALUES ($1, $2, (SELECT coalesce(max(revision), 0) + 1 FROM acme_records), $3) \
                 ON CONFLICT (kind, name) DO UPDATE \
                 SET revision = excluded.revision, value = excluded.value",
                params![kind.as_str(), name, value.map(Secret::reveal)],
            )
            .await?;
            Ok(())
        })
    }
}
