//! The registry as a whole, and its errors.

use super::account_store::AccountStore;
use super::acme_store::AcmeStore;
use super::admin_key::AdminKeyStore;
use super::audit_log::AuditLog;
use super::branding_store::BrandingStore;
use super::credential_store::CredentialStore;
use super::domain_store::{BlocklistStore, DomainStore};
use super::lease::{JobLease, JobProgress};
use super::maintenance::RegistryMaintenance;
use super::node_versions::NodeVersions;
use super::removal_alarm::RemovalAlarms;
use super::report_store::ReportStore;
use super::salts::Salts;
use super::snapshot::RegistrySnapshots;
use super::webhook_store::WebhookStore;
use crate::store::StoreError;

/// Errors of a registry, grouped by what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Another account has this name or this identity. Choose another.
    #[error("the name is taken")]
    NameTaken,
    /// Another caller changed it in between, or the token is known already. Read it again.
    #[error("another caller changed it")]
    Conflict,
    /// It does not exist, or it is used up or expired.
    #[error("it does not exist")]
    Missing,
    /// The change would leave no admin.
    #[error("this is the last admin")]
    LastAdmin,
    /// The owner has reached the maximum number.
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
/// Every write is one atomic, durable step, together with its record in the audit log where it
/// takes an [`Attribution`](super::Attribution). A write that returns an error other than
/// `Unavailable` changed nothing and wrote no record. A write that would change nothing writes no
/// record either. [`AuditRecord`](super::AuditRecord) decides what a record contains.
pub trait Registry:
    AccountStore
    + CredentialStore
    + DomainStore
    + BlocklistStore
    + BrandingStore
    + ReportStore
    + WebhookStore
    + AuditLog
    + RegistrySnapshots
    + RegistryMaintenance
    + AdminKeyStore
    + Salts
    + NodeVersions
    + JobLease
    + JobProgress
    + RemovalAlarms
    + AcmeStore
{
}

impl<R> Registry for R where
    R: AccountStore
        + CredentialStore
        + DomainStore
        + BlocklistStore
        + BrandingStore
        + ReportStore
        + WebhookStore
        + AuditLog
        + RegistrySnapshots
        + RegistryMaintenance
        + AdminKeyStore
        + Salts
        + NodeVersions
        + JobLease
        + JobProgress
        + RemovalAlarms
        + AcmeStore
{
}
