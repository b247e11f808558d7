//! Which nodes run, and what they can read.

use async_trait::async_trait;
use terse_core::registry::{NODE_MEMORY, NodeId, NodeVersions};

use super::rows::{get, id};
use super::step::step;
use super::{Answer, PostgresRegistry, first};
use crate::sql::params;

#[async_trait]
impl NodeVersions for PostgresRegistry {
    async fn report_node(&self, node: &NodeId, version: u8) -> Answer<u8> {
        let (name, memory) = (node.as_str(), NODE_MEMORY.as_secs_f64());
        let lowest = step!(self, Rows, |step| {
            step.run(
                "INSERT INTO nodes VALUES ($1, $2, now()) ON CONFLICT (node) DO UPDATE \
                 SET version = excluded.version, seen_at = excluded.seen_at",
                params![name, i64::from(version)],
            )
            .await?;
            let old = "DELETE FROM nodes WHERE seen_at < now() - make_interval(secs => $1)";
            step.run(old, params![memory]).await?;
            Ok(step.one("SELECT min(version) FROM nodes", &[], |row| id(row, 0)).await?)
        })?;
        Ok(lowest.and_then(|lowest| u8::try_from(lowest).ok()).unwrap_or(version))
    }

    async fn lowest_version(&self) -> Answer<Option<u8>> {
        let sql = "SELECT min(version) FROM nodes \
             WHERE seen_at >= now() - make_interval(secs => $1)";
        let rows = self.query(sql, params![NODE_MEMORY.as_secs_f64()]).await?;
        let lowest = first(&rows, |row| get::<Option<i64>>(row, 0))?.flatten();
        Ok(lowest.and_then(|lowest| u8::try_from(lowest).ok()))
    }

    async fn forget_node(&self, node: &NodeId) -> Answer<()> {
        let name = node.as_str();
        step!(self, Rows, |step| {
            step.run("DELETE FROM nodes WHERE node = $1", params![name]).await?;
            Ok(())
        })
    }
}
