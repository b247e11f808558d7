//! Leases and the progress of background jobs.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use terse_core::Timestamp;
use terse_core::registry::{
    FencingToken, JobLease, JobProgress, Lease, NodeId, RegistryError, check_progress_size,
};

use crate::registry::queries::RegistryQueries;
use crate::registry::rows::filed;
use crate::registry::store::{Answer, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

/// SQLite's clock in milliseconds. A macro, so that statements can be concatenated with it.
macro_rules! now_ms {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

pub(crate) const ACQUIRE: &str = concat!(
    "INSERT INTO leases VALUES (?1, ?2, 1, ",
    now_ms!(),
    " + ?3) ON CONFLICT DO UPDATE SET node = excluded.node, token = token + 1, expires_at = \
     excluded.expires_at WHERE node IS NULL OR node = excluded.node OR expires_at <= ",
    now_ms!(),
    " RETURNING token, expires_at"
);
pub(crate) const RENEW: &str = concat!(
    "UPDATE leases SET expires_at = ",
    now_ms!(),
    " + ?3 WHERE name = ?1 AND token = ?2 RETURNING expires_at"
);
pub(crate) const RELEASE: &str =
    "UPDATE leases SET node = NULL, token = token + 1 WHERE name = ?1 AND token = ?2";
pub(crate) const IS_CURRENT: &str =
    "SELECT 1 FROM leases WHERE name = ?1 AND token = ?2 AND node IS NOT NULL";
pub(crate) const PROGRESS: &str = "SELECT progress FROM job_progress WHERE job = ?1";
const PUT_PROGRESS: &str = "INSERT OR REPLACE INTO job_progress VALUES (?1, ?2)";

impl RegistryQueries {
    /// Refuses a token that is not the current one of its lease.
    pub(crate) fn check_lease(&self, token: FencingToken) -> Result<(), RegistryWriteError> {
        match self.any(IS_CURRENT, params![token.lease, filed(token.number)])? {
            true => Ok(()),
            false => Err(RegistryError::Fenced.into()),
        }
    }
}

impl RegistryWrites {
    fn acquire_lease(
        &self,
        lease: &'static str,
        node: &NodeId,
        ttl: Duration,
    ) -> Result<Option<Lease>, RegistryWriteError> {
        let taken = self.one(ACQUIRE, params![lease, node.as_str(), in_ms(ttl)], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), Timestamp::from_ms(row.get(1)?)))
        })?;
        Ok(taken.map(|(number, expires_at)| Lease {
            token: FencingToken { lease, number },
            node: node.clone(),
            expires_at,
        }))
    }

    fn renew_lease(
        &self,
        token: FencingToken,
        ttl: Duration,
    ) -> Result<Timestamp, RegistryWriteError> {
        self.check_lease(token)?;
        let row = params![token.lease, filed(token.number), in_ms(ttl)];
        let expires_at = self.one(RENEW, row, |row| Ok(Timestamp::from_ms(row.get(0)?)))?;
        Ok(expires_at.ok_or(RegistryError::Fenced)?)
    }

    fn release_lease(&self, token: FencingToken) -> Result<(), RegistryWriteError> {
        self.run(RELEASE, params![token.lease, filed(token.number)])?;
        Ok(())
    }

    fn put_job_progress(
        &self,
        token: FencingToken,
        job: &str,
        progress: &[u8],
    ) -> Result<(), RegistryWriteError> {
        self.check_lease(token)?;
        self.run(PUT_PROGRESS, params![job, progress])?;
        Ok(())
    }
}

/// A duration in milliseconds, at most a century: adding it to the time never overflows.
fn in_ms(ttl: Duration) -> i64 {
    const CENTURY: i64 = 100 * 366 * 24 * 3_600_000;
    i64::try_from(ttl.as_millis()).unwrap_or(CENTURY).min(CENTURY)
}

#[async_trait]
impl JobLease for EmbeddedRegistry {
    async fn acquire_lease(
        &self,
        lease: &'static str,
        node: &NodeId,
        ttl: Duration,
    ) -> Answer<Option<Lease>> {
        let node = node.clone();
        self.write(move |writes| writes.acquire_lease(lease, &node, ttl)).await
    }

    async fn renew_lease(&self, token: FencingToken, ttl: Duration) -> Answer<Timestamp> {
        self.write(move |writes| writes.renew_lease(token, ttl)).await
    }

    async fn release_lease(&self, token: FencingToken) -> Answer<()> {
        self.write(move |writes| writes.release_lease(token)).await
    }

    async fn check_lease(&self, token: FencingToken) -> Answer<()> {
        // Runs on the writer thread: a reader could see the file from before another node's commit.
        self.write(move |writes| writes.check_lease(token)).await
    }
}

#[async_trait]
impl JobProgress for EmbeddedRegistry {
    async fn job_progress(&self, job: &str) -> Answer<Option<Vec<u8>>> {
        let job = job.to_owned();
        self.read(move |queries| queries.one(PROGRESS, [job], |row| Ok(row.get(0)?))).await
    }

    async fn put_job_progress(
        &self,
        token: FencingToken,
        job: &str,
        progress: &[u8],
    ) -> Answer<()> {
        check_progress_size(progress)?;
        let (job, progress) = (job.to_owned(), progress.to_vec());
        self.write(move |writes| writes.put_job_progress(token, &job, &progress)).await
    }
}
