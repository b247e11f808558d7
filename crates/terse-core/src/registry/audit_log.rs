//! The audit log.

use async_trait::async_trait;

use super::audit::{Attribution, AuditAction, AuditEntry};
use super::store::RegistryError;

/// Which records of the audit log to read, the latest first.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only records before this number.
    pub before: Option<u64>,
    /// Only records about this subject.
    pub subject: Option<String>,
    /// Only this action.
    pub action: Option<AuditAction>,
    /// The largest number of records to return.
    pub limit: usize,
}

/// Who did what, when and why. Writes of the other traits add their own records.
#[async_trait]
pub trait AuditLog: Send + Sync + 'static {
    /// Writes a record about something outside the registry, such as a link.
    async fn record(
        &self,
        act: AuditAction,
        subject: &str,
        change: (Option<String>, Option<String>),
        by: Attribution,
    ) -> Result<(), RegistryError>;

    /// Records of the audit log.
    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditEntry>, RegistryError>;
}
