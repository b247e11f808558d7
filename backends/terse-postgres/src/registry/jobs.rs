//! What background jobs share: leases, progress, salts and alarms. All times are the server's.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::Timestamp;
use terse_core::clicks::Salt;
use terse_core::registry::{
    AlarmState, Attribution, AuditRecord, FencingToken, JobLease, JobProgress, Lease, NodeId,
    RegistryError, RemovalAlarm, RemovalAlarms, Salts, check_progress_size,
};
use tokio_postgres::Row;

use super::rows::{get, id};
use super::step::{Step, StepError, step};
use super::{Answer, PostgresRegistry, first};
use crate::failure::{Failure, corrupt, unavailable};
use crate::sql::{SqlTimestamp, params};

const IS_CURRENT: &str =
    "SELECT true FROM job_leases WHERE name = $1 AND token = $2 AND node IS NOT NULL";
const SALT: &str = "SELECT salt FROM salts WHERE day = $1";
const ALARM: &str = "SELECT value FROM registry_facts WHERE name = 'removal_alarm'";

/// At most a century: adding it to the time never overflows.
fn in_seconds(ttl: Duration) -> f64 {
    ttl.as_secs_f64().min(100.0 * 366.0 * 86_400.0)
}

impl Step<'_> {
    /// Refuses a token that is not the current one of its lease. No other node gets the lease until
    /// this transaction ends.
    pub(super) async fn check_lease(&self, token: FencingToken) -> Result<(), StepError> {
        let sql = format!("{IS_CURRENT} FOR SHARE");
        match self.any(&sql, params![token.lease, token.number.cast_signed()]).await? {
            true => Ok(()),
            false => Err(RegistryError::Fenced.into()),
        }
    }

    async fn keep_alarm(&self, alarm: &RemovalAlarm) -> Result<(), StepError> {
        let text =
            serde_json::to_vec(alarm).map_err(|error| Failure::from(corrupt(error.to_string())))?;
        self.run(
            "INSERT INTO registry_facts VALUES ('removal_alarm', $1) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            params![text],
        )
        .await?;
        Ok(())
    }
}

#[async_trait]
impl JobLease for PostgresRegistry {
    async fn acquire_lease(
        &self,
        lease: &'static str,
        node: &NodeId,
        ttl: Duration,
    ) -> Answer<Option<Lease>> {
        let rows = self
            .pool
            .write_unrepeatable(
                "INSERT INTO job_leases AS l (name, node, token, expires_at) \
                 VALUES ($1, $2, 1, clock_timestamp() + make_interval(secs => $3)) \
                 ON CONFLICT (name) DO UPDATE SET node = excluded.node, token = l.token + 1, \
                 expires_at = excluded.expires_at WHERE l.node IS NULL OR l.node = excluded.node \
                 OR l.expires_at <= clock_timestamp() RETURNING token, expires_at",
                params![lease, node.as_str(), in_seconds(ttl)],
            )
            .await?;
        let read = |row: &Row| {
            let token = FencingToken { lease, number: id(row, 0)? };
            Ok(Lease { token, node: node.clone(), expires_at: get::<SqlTimestamp>(row, 1)?.0 })
        };
        Ok(first(&rows, read)?)
    }

    async fn renew_lease(&self, token: FencingToken, ttl: Duration) -> Answer<Timestamp> {
        let rows = self
            .pool
            .write_unrepeatable(
                "UPDATE job_leases SET expires_at = clock_timestamp() + make_interval(secs => $3) \
                 WHERE name = $1 AND token = $2 AND node IS NOT NULL RETURNING expires_at",
                params![token.lease, token.number.cast_signed(), in_seconds(ttl)],
            )
            .await?;
        first(&rows, |row| Ok(get::<SqlTimestamp>(row, 0)?.0))?.ok_or(RegistryError::Fenced)
    }

    async fn release_lease(&self, token: FencingToken) -> Answer<()> {
        self.pool
            .write_unrepeatable(
                "UPDATE job_leases SET node = NULL, token = token + 1 \
                 WHERE name = $1 AND token = $2",
                params![token.lease, token.number.cast_signed()],
            )
            .await?;
        Ok(())
    }

    async fn check_lease(&self, token: FencingToken) -> Answer<()> {
        let params = params![token.lease, token.number.cast_signed()];
        match self.query(IS_CURRENT, params).await?.is_empty() {
            false => Ok(()),
            true => Err(RegistryError::Fenced),
        }
    }
}

#[async_trait]
impl JobProgress for PostgresRegistry {
    async fn job_progress(&self, job: &str) -> Answer<Option<Vec<u8>>> {
        let sql = "SELECT progress FROM job_progress WHERE job = $1";
        Ok(first(&self.query(sql, params![job]).await?, |row| get(row, 0))?)
    }

    async fn put_job_progress(
        &self,
        token: FencingToken,
        job: &str,
        progress: &[u8],
    ) -> Answer<()> {
        check_progress_size(progress)?;
        step!(self, Rows, |step| {
            step.check_lease(token).await?;
            step.run(
                "INSERT INTO job_progress (job, progress) VALUES ($1, $2) \
                 ON CONFLICT (job) DO UPDATE SET progress = excluded.progress",
                params![job, progress],
            )
            .await?;
            Ok(())
        })
    }
}

#[async_trait]
impl Salts for PostgresRegistry {
    async fn salt(&self, day: i64) -> Answer<Salt> {
        let read = |row: &Row| {
            let bytes: &[u8] = get(row, 0)?;
            Ok(Salt::try_from(bytes).map_err(|_| corrupt("a salt has the wrong length"))?)
        };
        if let Some(salt) = first(&self.query(SALT, params![day]).await?, read)? {
            return Ok(salt);
        }
        let mut salt = Salt::default();
        getrandom::fill(&mut salt).map_err(|error| unavailable(error.to_string()))?;
        self.import_salts(&[(day, salt)]).await?;
        // Another node may have been first.
        let stored = first(&self.query(SALT, params![day]).await?, read)?;
        stored.ok_or_else(|| corrupt("a salt that was written is not there").into())
    }

    async fn import_salts(&self, salts: &[(i64, Salt)]) -> Answer<()> {
        let mut salts = salts.to_vec();
        salts.sort_unstable();
        let days: Vec<i64> = salts.iter().map(|(day, _)| *day).collect();
        let values: Vec<&[u8]> = salts.iter().map(|(_, salt)| &salt[..]).collect();
        step!(self, Rows, |step| {
            step.run(
                "INSERT INTO salts (day, salt) SELECT * FROM unnest($1, $2) \
                 ON CONFLICT (day) DO NOTHING",
                params![days, values],
            )
            .await?;
            Ok(())
        })
    }

    /// Keeps yesterday's salt, because clicks of yesterday may still arrive, and tomorrow's, which
    /// nodes create ahead.
    async fn delete_old_salts(&self, token: FencingToken) -> Answer<u64> {
        step!(self, Rows, |step| {
            step.check_lease(token).await?;
            let today = "floor(extract(epoch FROM clock_timestamp()) / 86400)::bigint";
            let sql = format!("DELETE FROM salts WHERE day < {today} - 1 OR day > {today} + 1");
            Ok(step.run(&sql, &[]).await?)
        })
    }
}

fn alarm(row: &Row) -> Result<RemovalAlarm, Failure> {
    let text: &[u8] = get(row, 0)?;
    serde_json::from_slice(text).map_err(|error| corrupt(error.to_string()).into())
}

#[async_trait]
impl RemovalAlarms for PostgresRegistry {
    async fn removal_alarm(&self) -> Answer<Option<RemovalAlarm>> {
        Ok(first(&self.query(ALARM, &[]).await?, alarm)?)
    }

    async fn put_removal_alarm(&self, token: FencingToken, alarm: RemovalAlarm) -> Answer<()> {
        step!(self, Registry, |step| {
            step.check_lease(token).await?;
            step.keep_alarm(&alarm).await
        })
    }

    async fn confirm_removal(&self, round: u64, by: Attribution) -> Answer<RemovalAlarm> {
        step!(self, Registry, |step| {
            let waits =
                |alarm: &RemovalAlarm| alarm.round == round && alarm.state == AlarmState::Waiting;
            let found = step.one(ALARM, &[], alarm).await?;
            let waiting = found.filter(waits).ok_or(RegistryError::Missing)?;
            let confirmed = RemovalAlarm { state: AlarmState::Confirmed, ..waiting };
            step.keep_alarm(&confirmed).await?;
            step.write(&AuditRecord::removal_confirmed(&confirmed), &by).await?;
            Ok(confirmed)
        })
    }
}
