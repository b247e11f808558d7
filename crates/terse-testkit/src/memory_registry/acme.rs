//! The records of certificates that terse orders itself.

use std::collections::BTreeMap;

use async_trait::async_trait;
use terse_core::Secret;
use terse_core::registry::{
    AcmeRecord, AcmeRecordKind, AcmeRecords, AcmeStore, FencingToken, check_acme_record_size,
};

use super::{Answer, MemoryRegistry};

/// The records, and how often they were written.
#[derive(Debug, Default)]
pub(super) struct Acme {
    revision: u64,
    records: BTreeMap<(AcmeRecordKind, String), Secret>,
}

#[async_trait]
impl AcmeStore for MemoryRegistry {
    async fn acme_revision(&self) -> Answer<u64> {
        Ok(self.enter().await?.acme.revision)
    }

    async fn acme_records(&self) -> Answer<AcmeRecords> {
        let state = self.enter().await?;
        let record = |((kind, name), value): (&(AcmeRecordKind, String), &Secret)| AcmeRecord {
            kind: *kind,
            name: name.clone(),
            value: value.clone(),
        };
        let records = state.acme.records.iter().map(record).collect();
        Ok(AcmeRecords { revision: state.acme.revision, records })
    }

    async fn put_acme_record(
        &self,
        token: FencingToken,
        kind: AcmeRecordKind,
        name: &str,
        value: Option<&Secret>,
    ) -> Answer<()> {
        check_acme_record_size(value)?;
        let mut state = self.enter().await?;
        state.jobs.current(token)?;
        state.acme.revision += 1;
        let key = (kind, name.to_owned());
        match value {
            Some(value) => drop(state.acme.records.insert(key, value.clone())),
            None => drop(state.acme.records.remove(&key)),
        }
        Ok(())
    }
}
