//! The records of certificates that terse orders itself.

use async_trait::async_trait;
use rusqlite::params;
use terse_core::Secret;
use terse_core::registry::{
    AcmeRecord, AcmeRecordKind, AcmeRecords, AcmeStore, FencingToken, check_acme_record_size,
};

use crate::failure::Failure;
use crate::registry::queries::RegistryQueries;
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

pub(crate) const REVISION: &str = "SELECT coalesce(max(revision), 0) FROM acme_records";
const RECORDS: &str = "SELECT kind, name, revision, value FROM acme_records ORDER BY kind, name";
const PUT: &str = "INSERT OR REPLACE INTO acme_records (kind, name, revision, value) \
                   VALUES (?1, ?2, (SELECT coalesce(max(revision), 0) + 1 FROM acme_records), ?3)";

impl RegistryQueries {
    fn acme_revision(&self) -> Result<u64, Failure> {
        let revision = self.one(REVISION, [], |row| Ok(row.get::<_, i64>(0)?))?;
        Ok(revision.unwrap_or_default().cast_unsigned())
    }

    fn acme_records(&self) -> Result<AcmeRecords, Failure> {
        let rows = self.all(RECORDS, [], |row| {
            let value: Option<String> = row.get(3)?;
            let revision: i64 = row.get(2)?;
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, revision, value))
        })?;
        let mut all = AcmeRecords::default();
        for (kind, name, revision, value) in rows {
            all.revision = all.revision.max(revision.cast_unsigned());
            // A later version of terse may have other kinds.
            if let (Some(kind), Some(value)) = (AcmeRecordKind::parse(&kind), value) {
                all.records.push(AcmeRecord { kind, name, value: Secret::new(&value) });
            }
        }
        Ok(all)
    }
}

impl RegistryWrites {
    fn put_acme_record(
        &self,
        token: FencingToken,
        kind: AcmeRecordKind,
        name: &str,
        value: Option<&Secret>,
    ) -> Result<(), RegistryWriteError> {
        self.check_lease(token)?;
        self.run(PUT, params![kind.as_str(), name, value.map(Secret::reveal)])?;
        Ok(())
    }
}

#[async_trait]
impl AcmeStore for EmbeddedRegistry {
    async fn acme_revision(&self) -> Answer<u64> {
        self.read(RegistryQueries::acme_revision).await
    }

    async fn acme_records(&self) -> Answer<AcmeRecords> {
        self.read(RegistryQueries::acme_records).await
    }

    async fn put_acme_record(
        &self,
        token: FencingToken,
        kind: AcmeRecordKind,
        name: &str,
        value: Option<&Secret>,
    ) -> Answer<()> {
        check_acme_record_size(value)?;
        let (name, value) = (name.to_owned(), value.cloned());
        self.write(move |writes| writes.put_acme_record(token, kind, &name, value.as_ref())).await
    }
}
