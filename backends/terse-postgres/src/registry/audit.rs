//! The audit log.

use async_trait::async_trait;
use terse_core::registry::{
    Attribution, AuditAction, AuditEntry, AuditLog, AuditQuery, AuditRecord,
};

use super::rows::{self, AUDIT_COLUMNS};
use super::step::step;
use super::{Answer, PostgresRegistry, all, at_most, bound};
use crate::sql::params;

#[async_trait]
impl AuditLog for PostgresRegistry {
    async fn record(
        &self,
        act: AuditAction,
        subject: &str,
        change: (Option<String>, Option<String>),
        by: Attribution,
    ) -> Answer<()> {
        step!(self, Rows, |step| {
            step.write(&AuditRecord::custom(act, subject, change.clone()), &by).await?;
            Ok(())
        })
    }

    async fn audit(&self, query: &AuditQuery) -> Answer<Vec<AuditEntry>> {
        let before = query.before.map_or(i64::MAX, bound);
        let (act, limit) = (query.action.map(AuditAction::as_str), at_most(query.limit));
        // Each case has its own plan: an unnamed statement is planned with its values.
        let sql = format!(
            "SELECT {AUDIT_COLUMNS} FROM audit WHERE number < $1 \
             AND ($3::text IS NULL OR subject = $3) AND ($4::text IS NULL OR act = $4) \
             ORDER BY number DESC LIMIT $2"
        );
        let rows = self.pool.list(&sql, params![before, limit, query.subject, act]).await?;
        Ok(all(&rows, rows::entry)?)
    }
}
