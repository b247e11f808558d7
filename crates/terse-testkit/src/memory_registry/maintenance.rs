//! The audit log, pruning and health.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::Timestamp;
use terse_core::registry::{
    Attribution, AuditAction, AuditEntry, AuditLog, AuditQuery, AuditRecord, DELIVERY_RETENTION,
    EXPIRED_KEY_RETENTION, FencingToken, RegistryMaintenance, ReportState,
};

use super::{Answer, MemoryRegistry};

#[async_trait]
impl AuditLog for MemoryRegistry {
    async fn record(
        &self,
        act: AuditAction,
        subject: &str,
        change: (Option<String>, Option<String>),
        by: Attribution,
    ) -> Answer<()> {
        self.enter().await?.write(AuditRecord::custom(act, subject, change), by);
        Ok(())
    }

    async fn audit(&self, query: &AuditQuery) -> Answer<Vec<AuditEntry>> {
        let state = self.enter().await?;
        let wanted = |entry: &&AuditEntry| {
            query.before.is_none_or(|before| entry.number < before)
                && query.subject.as_ref().is_none_or(|subject| entry.subject == *subject)
                && query.action.is_none_or(|action| entry.act == action)
        };
        Ok(state
            .audit
            .values()
            .rev()
            .map(|(_, entry)| entry)
            .filter(wanted)
            .take(query.limit)
            .cloned()
            .collect())
    }
}

#[async_trait]
impl RegistryMaintenance for MemoryRegistry {
    async fn prune(
        &self,
        token: Option<FencingToken>,
        now: Timestamp,
        keep: Duration,
        limit: usize,
    ) -> Answer<u64> {
        let mut state = self.enter().await?;
        if let Some(token) = token {
            state.jobs.current(token)?;
        }
        let old = now.saturating_sub(keep);
        let expired = now.saturating_sub(EXPIRED_KEY_RETENTION);
        let mut count = 0;
        // Whether to keep an entry; at most `limit` expired ones are deleted.
        let mut is_kept = |over: bool| {
            let goes = over && count < limit as u64;
            count += u64::from(goes);
            !goes
        };
        state.sessions.retain(|one| is_kept(one.expires_at <= now));
        state.invitations.retain(|one| is_kept(one.expires_at <= now));
        state.keys.retain(|_, (_, key)| is_kept(key.expires_at.is_some_and(|at| at <= expired)));
        state
            .reports
            .retain(|_, (_, report)| is_kept(report.state != ReportState::Open && report.at < old));
        let settled = now.saturating_sub(keep.min(DELIVERY_RETENTION));
        state.outbox.prune(settled, &mut is_kept);
        state.audit.retain(|_, (_, entry)| is_kept(entry.at < old));
        Ok(count)
    }

    async fn scrub(&self) -> Answer<()> {
        drop(self.enter().await?);
        Ok(())
    }

    async fn check(&self) -> Answer<()> {
        Ok(self.enter().await.map(|_| ())?)
    }
}
