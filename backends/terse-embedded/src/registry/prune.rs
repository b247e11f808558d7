//! Deletes expired rows.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::Timestamp;
use terse_core::registry::{
    DELIVERY_RETENTION, EXPIRED_KEY_RETENTION, FencingToken, RegistryMaintenance,
};

use crate::engine;
use crate::registry::store::{Answer, BATCH, EmbeddedRegistry};
use crate::registry::writes::{RegistryWriteError, RegistryWrites};

/// The rows that expire. Each statement deletes a limited number of rows, oldest first.
pub(crate) const SESSIONS: &str = "DELETE FROM sessions WHERE token IN \
     (SELECT token FROM sessions WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";
pub(crate) const INVITATIONS: &str = "DELETE FROM invitations WHERE token IN \
     (SELECT token FROM invitations WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";
pub(crate) const KEYS: &str = "DELETE FROM keys WHERE id IN \
     (SELECT id FROM keys WHERE expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at \
     LIMIT ?2)";
pub(crate) const REPORTS: &str = "DELETE FROM reports WHERE id IN \
     (SELECT id FROM reports WHERE state <> 'open' AND at < ?1 ORDER BY at LIMIT ?2)";
pub(crate) const DELIVERIES: &str = "DELETE FROM deliveries WHERE id IN \
     (SELECT id FROM deliveries WHERE state <> 'waiting' AND created_at < ?1 ORDER BY created_at \
     LIMIT ?2)";
pub(crate) const AUDIT: &str = "DELETE FROM audit WHERE number IN \
     (SELECT number FROM audit WHERE at < ?1 ORDER BY at LIMIT ?2)";

impl RegistryWrites {
    pub(crate) fn prune(
        &self,
        token: Option<FencingToken>,
        now: Timestamp,
        keep: Duration,
        limit: usize,
    ) -> Result<usize, RegistryWriteError> {
        if let Some(token) = token {
            self.check_lease(token)?;
        }
        let old = now.saturating_sub(keep);
        let mut count = 0;
        for (sql, by) in [
            (SESSIONS, now),
            (INVITATIONS, now),
            (KEYS, now.saturating_sub(EXPIRED_KEY_RETENTION)),
            (REPORTS, old),
            (DELIVERIES, now.saturating_sub(keep.min(DELIVERY_RETENTION))),
            (AUDIT, old),
        ] {
            count += self.run(sql, [by.as_ms(), (limit - count) as i64])?;
        }
        Ok(count)
    }
}

#[async_trait]
impl RegistryMaintenance for EmbeddedRegistry {
    async fn prune(
        &self,
        token: Option<FencingToken>,
        now: Timestamp,
        keep: Duration,
        limit: usize,
    ) -> Answer<u64> {
        let mut left = limit;
        while left > 0 {
            let step = left.min(BATCH);
            let done = self.write(move |writes| writes.prune(token, now, keep, step)).await?;
            left -= done;
            if done < step {
                break;
            }
        }
        Ok((limit - left) as u64)
    }

    async fn scrub(&self) -> Answer<()> {
        Ok(engine::scrub(self.site()).await?)
    }

    async fn check(&self) -> Answer<()> {
        self.check_threads()
    }
}
