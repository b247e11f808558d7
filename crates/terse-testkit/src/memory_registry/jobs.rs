//! Leases and the progress of background jobs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use terse_core::Timestamp;
use terse_core::registry::{
    AlarmState, Attribution, AuditRecord, FencingToken, JobLease, JobProgress, Lease, NodeId,
    RegistryError, RemovalAlarm, RemovalAlarms, check_progress_size,
};

use super::{Answer, MemoryRegistry};

/// The jobs' data in the registry.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    leases: BTreeMap<&'static str, LeaseRow>,
    progress: BTreeMap<String, Vec<u8>>,
    alarm: Option<RemovalAlarm>,
}

#[derive(Debug)]
pub(super) struct LeaseRow {
    /// `None` after a release.
    node: Option<NodeId>,
    token: u64,
    expires_at: Timestamp,
}

impl Jobs {
    /// The lease, if the token is its current one.
    pub(super) fn current(&mut self, token: FencingToken) -> Answer<&mut LeaseRow> {
        self.leases
            .get_mut(token.lease)
            .filter(|row| row.token == token.number && row.node.is_some())
            .ok_or(RegistryError::Fenced)
    }
}

/// The registry's own clock.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn end(ttl: Duration) -> Timestamp {
    now().checked_add(ttl).unwrap_or(Timestamp::MAX)
}

#[async_trait]
impl JobLease for MemoryRegistry {
    async fn acquire_lease(
        &self,
        lease: &'static str,
        node: &NodeId,
        ttl: Duration,
    ) -> Answer<Option<Lease>> {
        let mut state = self.enter().await?;
        let row = state.jobs.leases.entry(lease).or_insert(LeaseRow {
            node: None,
            token: 0,
            expires_at: Timestamp::EPOCH,
        });
        if row.node.as_ref().is_some_and(|holder| holder != node) && row.expires_at > now() {
            return Ok(None);
        }
        *row = LeaseRow { node: Some(node.clone()), token: row.token + 1, expires_at: end(ttl) };
        let token = FencingToken { lease, number: row.token };
        Ok(Some(Lease { token, node: node.clone(), expires_at: row.expires_at }))
    }

    async fn renew_lease(&self, token: FencingToken, ttl: Duration) -> Answer<Timestamp> {
        let mut state = self.enter().await?;
        let row = state.jobs.current(token)?;
        row.expires_at = end(ttl);
        Ok(row.expires_at)
    }

    async fn release_lease(&self, token: FencingToken) -> Answer<()> {
        let mut state = self.enter().await?;
        if let Ok(row) = state.jobs.current(token) {
            (row.node, row.token) = (None, row.token + 1);
        }
        Ok(())
    }

    async fn check_lease(&self, token: FencingToken) -> Answer<()> {
        self.enter().await?.jobs.current(token).map(|_| ())
    }
}

#[async_trait]
impl JobProgress for MemoryRegistry {
    async fn job_progress(&self, job: &str) -> Answer<Option<Vec<u8>>> {
        Ok(self.enter().await?.jobs.progress.get(job).cloned())
    }

    async fn put_job_progress(
        &self,
        token: FencingToken,
        job: &str,
        progress: &[u8],
    ) -> Answer<()> {
        check_progress_size(progress)?;
        let mut state = self.enter().await?;
        state.jobs.current(token)?;
        state.jobs.progress.insert(job.to_owned(), progress.to_vec());
        Ok(())
    }
}

#[async_trait]
impl RemovalAlarms for MemoryRegistry {
    async fn removal_alarm(&self) -> Answer<Option<RemovalAlarm>> {
        Ok(self.enter().await?.jobs.alarm.clone())
    }

    async fn put_removal_alarm(&self, token: FencingToken, alarm: RemovalAlarm) -> Answer<()> {
        let mut state = self.enter().await?;
        state.jobs.current(token)?;
        state.jobs.alarm = Some(alarm);
        Ok(())
    }

    async fn confirm_removal(&self, round: u64, by: Attribution) -> Answer<RemovalAlarm> {
        let mut state = self.enter().await?;
        let waits =
            |alarm: &&mut RemovalAlarm| alarm.round == round && alarm.state == AlarmState::Waiting;
        let alarm = state.jobs.alarm.as_mut().filter(waits).ok_or(RegistryError::Missing)?;
        alarm.state = AlarmState::Confirmed;
        let alarm = alarm.clone();
        state.write(AuditRecord::removal_confirmed(&alarm), by);
        Ok(alarm)
    }
}
