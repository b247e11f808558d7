//! The registry as a whole, and what can go wrong in it.

use super::account_store::AccountStore;
use super::admin_key::AdminKeyStore;
use super::audit_log::AuditLog;
use super::credential_store::CredentialStore;
use super::domain_store::{BlocklistStore, DomainStore};
use super::lease::{JobLease, JobProgress};
use super::maintenance::RegistryMaintenance;
use super::report_store::ReportStore;
use super::salts::Salts;
use super::snapshot::RegistrySnapshots;
use super::webhook_store::WebhookStore;
use crate::store::StoreError;

/// What went wrong, by what can be done about it.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Another account has this name or this identity. Choose another.
    #[error("the name is taken")]
    NameTaken,
    /// Another caller changed it in between, or the token is known already. Read it again.
    #[error("it was changed by somebody else")]
    Conflict,
    /// It does not exist, or it is used up or expired.
    #[error("there is no such thing")]
    Missing,
    /// The change would leave no admin.
    #[error("this is the last admin")]
    LastAdmin,
    /// The owner has as many as one owner may have.
    #[error("there are too many")]
    TooMany,
    /// The fencing token is not the current one: another node runs the job now. Stop the job.
    #[error("another node holds the lease now")]
    Fenced,
    /// The store itself failed, as with links.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Everything about owners in one store: the sum of the small traits. Every implementation of them
/// runs `terse_testkit::registry!`.
///
/// Every write is one atomic, durable step, together with its record in the audit log where it takes
/// an [`Attribution`](super::Attribution). A write that returns an error other than `Unavailable`
/// changed nothing and wrote no record; nor does a write that finds everything as it should be
/// already. What a record says is decided by [`AuditRecord`](super::AuditRecord).
pub trait Registry:
    AccountStore
    + CredentialStore
    + DomainStore
    + BlocklistStore
    + ReportStore
    + WebhookStore
    + AuditLog
    + RegistrySnapshots
    + RegistryMaintenance
    + AdminKeyStore
    + Salts
    + JobLease
    + JobProgress
{
}

impl<R> Registry for R where
    R: AccountStore
        + CredentialStore
        + DomainStore
        + BlocklistStore
        + ReportStore
        + WebhookStore
        + AuditLog
        + RegistrySnapshots
        + RegistryMaintenance
        + AdminKeyStore
        + Salts
        + JobLease
        + JobProgress
{
}
