//! Which nodes run, and what they can read.

use async_trait::async_trait;
use rusqlite::params;
use terse_core::registry::{NODE_MEMORY, NodeId, NodeVersions};

use crate::failure::Failure;
use crate::registry::queries::RegistryQueries;
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

const REPORT: &str = "INSERT INTO nodes VALUES (?1, ?2, unixepoch()) ON CONFLICT (node) DO UPDATE \
    SET version = excluded.version, seen_at = excluded.seen_at";
/// A report of the future was made by a clock that was wrong.
const DELETE_OLD: &str = "DELETE FROM nodes WHERE abs(unixepoch() - seen_at) > ?1";
const LOWEST: &str = "SELECT min(version) FROM nodes WHERE abs(unixepoch() - seen_at) <= ?1";

impl RegistryWrites {
    fn report_node(&self, node: &NodeId, version: u8) -> Result<u8, RegistryWriteError> {
        self.run(REPORT, params![node.as_str(), version])?;
        self.run(DELETE_OLD, [NODE_MEMORY.as_secs().cast_signed()])?;
        Ok(self.lowest_version()?.unwrap_or(version))
    }
}

impl RegistryQueries {
    fn lowest_version(&self) -> Result<Option<u8>, Failure> {
        let memory = NODE_MEMORY.as_secs().cast_signed();
        let lowest = self.one(LOWEST, [memory], |row| Ok(row.get::<_, Option<u8>>(0)?))?;
        Ok(lowest.flatten())
    }
}

#[async_trait]
impl NodeVersions for EmbeddedRegistry {
    async fn report_node(&self, node: &NodeId, version: u8) -> Answer<u8> {
        let node = node.clone();
        self.write(move |writes| writes.report_node(&node, version)).await
    }

    async fn lowest_version(&self) -> Answer<Option<u8>> {
        self.read(RegistryQueries::lowest_version).await
    }

    async fn forget_node(&self, node: &NodeId) -> Answer<()> {
        let node = node.clone();
        self.write(move |writes| {
            writes.run("DELETE FROM nodes WHERE node = ?1", params![node.as_str()])?;
            Ok(())
        })
        .await
    }
}
