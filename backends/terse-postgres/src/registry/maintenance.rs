//! Deletes expired rows.

use std::time::Duration;

use async_trait::async_trait;
use terse_core::Timestamp;
use terse_core::registry::{
    DELIVERY_RETENTION, EXPIRED_KEY_RETENTION, FencingToken, RegistryMaintenance,
};

use super::step::step;
use super::{Answer, BATCH, PostgresRegistry};
use crate::sql::{SqlTimestamp, params};

/// The rows that expire. Each statement deletes a limited number of rows, oldest first.
const SESSIONS: &str = "DELETE FROM sessions WHERE token IN \
     (SELECT token FROM sessions WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";
const INVITATIONS: &str = "DELETE FROM invitations WHERE token IN \
     (SELECT token FROM invitations WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";
const KEYS: &str = "DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys \
     WHERE expires_at IS NOT NULL AND expires_at <= $1 ORDER BY expires_at LIMIT $2)";
const REPORTS: &str = "DELETE FROM reports WHERE id IN \
     (SELECT id FROM reports WHERE state <> 'open' AND at < $1 ORDER BY at LIMIT $2)";
const DELIVERIES: &str = "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries \
     WHERE state <> 'waiting' AND created_at < $1 ORDER BY created_at LIMIT $2)";
const AUDIT: &str = "DELETE FROM audit WHERE number IN \
     (SELECT number FROM audit WHERE at < $1 ORDER BY at LIMIT $2)";

#[async_trait]
impl RegistryMaintenance for PostgresRegistry {
    async fn prune(
        &self,
        token: Option<FencingToken>,
        now: Timestamp,
        keep: Duration,
        limit: usize,
    ) -> Answer<u64> {
        let old = now.saturating_sub(keep);
        let mut left = limit as u64;
        for (sql, by) in [
            (SESSIONS, now),
            (INVITATIONS, now),
            (KEYS, now.saturating_sub(EXPIRED_KEY_RETENTION)),
            (REPORTS, old),
            (DELIVERIES, now.saturating_sub(keep.min(DELIVERY_RETENTION))),
            (AUDIT, old),
        ] {
            // Each batch is a transaction of its own, and a short one.
            while left > 0 {
                let most = left.min(BATCH as u64).cast_signed();
                let done = step!(self, Rows, |step| {
                    if let Some(token) = token {
                        step.check_lease(token).await?;
                    }
                    Ok(step.run(sql, params![SqlTimestamp(by), most]).await?)
                })?;
                left -= done;
                if done < most.cast_unsigned() {
                    break;
                }
            }
        }
        Ok(limit as u64 - left)
    }

    /// The server manages its files. Its vacuum and the recycling of its log remove what it keeps
    /// of deleted rows.
    async fn scrub(&self) -> Answer<()> {
        Ok(())
    }

    async fn check(&self) -> Answer<()> {
        Ok(self.pool.check().await?)
    }
}
